"""Linear bounding volume hierarchies on the device."""

from __future__ import annotations

from typing import Any

from gpubench.devices.base import Device
from gpubench.primitives.radix_sort import PairRadixSort

BLOCK = 128
CODE_BITS = 30
ALONG = 1024  # Morton code cells along each axis


class LinearBvh:
    """A binary tree over boxes, which are sorted by Morton code (Karras 2012).

    order: int32, shape (items,), the index of each leaf's box.
    children: int32, shape (items - 1, 2); each is an inner node, or a leaf stored as -1 - leaf.
    node_boxes: float32, shape (2 (items - 1), 4), low and high corner of each inner node.
    leaf_boxes: the same for the leaves, in the first 2 * items rows.
    The root is inner node 0; a tree over one box has no inner nodes.
    """

    def __init__(self, device: Device, items: int) -> None:
        self._device, self._items = device, items
        self._counts = [items]  # number of aligned blocks of leaves, by level
        while self._counts[-1] > 1:
            self._counts.append((self._counts[-1] + 1) // 2)
        self._codes, self._order = (device.empty(items, "int32") for _ in range(2))
        self._sort = PairRadixSort(device, items, CODE_BITS)
        self.leaf_boxes = device.empty((2 * sum(self._counts), 4), "float32")
        self.children = device.empty((max(1, items - 1), 2), "int32")
        self.node_boxes = device.empty((2 * max(1, items - 1), 4), "float32")
        arrays = self._codes, self._order, self.leaf_boxes, self.children, self.node_boxes
        self.workspace_bytes = sum(a.nbytes for a in arrays) + self._sort.workspace_bytes
        names = ["make_codes", "gather_leaves", "unite_blocks", "make_nodes"]
        self._kernels = {n: device.kernel("linear_bvh.cu", n, BLOCK=BLOCK) for n in names}

    @property
    def order(self) -> Any:
        """The index of each leaf's box, int32, shape (items,)."""
        return self._sort.values

    def launch(self, boxes: Any, low: tuple[float, float, float], edge: float) -> None:
        """Queue the construction of the tree.

        boxes: float32, shape (2 * items, 4), low and high corner of each. low, edge: low corner and
            edge of a cube around the box centres; centres outside the cube are clamped to it.
        """
        n, blocks = self._items, self._device.blocks
        grid = blocks(n, BLOCK), BLOCK
        scale = ALONG / edge if edge > 0 else 0.0
        self._kernels["make_codes"](*grid, boxes, n, *low, scale, self._codes, self._order)
        self._sort.launch(self._codes, self._order)
        self._kernels["gather_leaves"](*grid, boxes, self._sort.values, n, self.leaf_boxes)
        first = 0
        for count in self._counts[:-1]:
            half = blocks((count + 1) // 2, BLOCK)
            self._kernels["unite_blocks"](half, BLOCK, self.leaf_boxes, first, count)
            first += count
        self._kernels["make_nodes"](
            *grid, self._sort.keys, self.leaf_boxes, n, self.children, self.node_boxes
        )
