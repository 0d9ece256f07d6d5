"""Neighbours by descending a linear bounding volume hierarchy of the particles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.cell_search import tasks
from gpubench.algorithms.cluster_pairs import slack_of
from gpubench.core.algorithm import Form
from gpubench.core.poison import arrays_of, poison
from gpubench.devices.named import NamedKernel
from gpubench.primitives.linear_bvh import LinearBvh
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.neighbours.contract import Neighbours, NeighbourSearch
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 128


class LbvhSearch(NeighbourSearch):
    """A tree over the particles, which each of them descends with a stack.

    The tree adapts to any density. `search_within` gives each particle a radius of its own.
    """

    name = "lbvh-search"
    summary = "positions to neighbours by descending a linear BVH of the particles"
    source = "Karras 2012, Maximizing parallelism in the construction of BVHs"
    forms: ClassVar[Mapping[str, Form]] = tasks("build", "count", "list")

    def prepare(self) -> None:
        device, n, lists = self.device, self.particles, self.task == "list"
        self._tree = LinearBvh(device, n)
        self._boxes = self.allocate((2 * n, 4), "float32")
        self._counts = self.allocate(n, "int32")
        self._offsets = self.allocate(n + 1 if lists else 0, "int64")
        self._neighbours = device.empty(0, "int32")
        self.workspace_bytes += self._tree.workspace_bytes
        if lists:
            self._scan = ExclusiveScan(device, n, sum_type="int64")
            self.workspace_bytes += self._scan.workspace_bytes
        self._constants = {"BLOCK": BLOCK, "PERIODIC": int(any(self.grid.periodic))}
        self._make_boxes, self._search = (
            NamedKernel(device, "lbvh_search.cu", name, **self._constants, RADII=0)
            for name in ("boxes_of_points", "search")
        )
        self._given: dict[str, Any] = {
            "grid": device.upload(self.grid.packed().view("uint8")), "particles": n,
            "cutoff": np.float32(self.cutoff), "slack": slack_of(self.grid),
            "counts": self._counts, "offsets": self._offsets, "boxes": self._boxes,
            "children": self._tree.children, "node_boxes": self._tree.node_boxes,
            "leaf_boxes": self._tree.leaf_boxes, "radii": self._counts,
        }  # fmt: skip

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions; for a list, also count the neighbours and allocate it."""
        self._positions = self.device.upload(inputs.positions)
        if self.task == "list":
            self._make_room()

    def search_within(self, radii: Any) -> None:
        """Give each loaded particle a radius, and make room for its list.

        Particle i then lists the particles nearer than radii[i], so a pair may appear once.

        radii: float32, shape (particles,), on the device; none longer than the cutoff if the box
            is periodic.
        """
        self._search = NamedKernel(
            self.device, "lbvh_search.cu", "search", **self._constants, RADII=1
        )
        self._given["radii"] = radii
        if self.task == "list":
            self._make_room()

    def _make_room(self) -> None:
        self.launch()
        self.workspace_bytes -= self._neighbours.nbytes
        total = int(self.device.download(self._offsets)[-1])
        self._neighbours = self.allocate(total, "int32")

    def launch(self) -> None:
        """Build the tree; then count the neighbours, and for a list, scan and fill."""
        blocks = self.device.blocks(self.particles, BLOCK)
        given = {**self._given, "positions": self._positions}
        self._make_boxes.launch_from(blocks, BLOCK, given)
        if self.particles:
            self._tree.launch(self._boxes, self.grid.low, max(self.grid.size))
        if self.task != "build":
            self._visit(fills=0)
        if self.task == "list":
            self._scan.launch(self._counts, self._offsets)
            self._visit(fills=1)

    def _visit(self, fills: int) -> None:
        self._search.launch_from(
            self.device.blocks(self.particles, BLOCK), BLOCK,
            {
                **self._given, "order": self._tree.order, "neighbours": self._neighbours,
                "capacity": np.int64(self._neighbours.shape[0]), "fills": fills,
            },
        )  # fmt: skip

    def neighbours(self) -> Neighbours:
        if self.task == "build":
            self._visit(fills=0)
        if self.task != "list":
            return Neighbours(self._counts)
        return Neighbours(self._counts, self._offsets, self._neighbours)

    def poison(self) -> None:
        """Overwrite the neighbours, and move leaves and nodes far apart."""
        poison(self.device, *arrays_of(self.neighbours()))
        self.device.fill(self._tree.leaf_boxes, 0xFE)  # about -2^127
        self.device.fill(self._tree.node_boxes, 0x7F)  # about 2^128

    def outcome(self) -> dict[str, int | float | str]:
        return {"pairs": int(self._neighbours.shape[0])} if self.task == "list" else {}

    def traffic_bytes(self) -> None:
        """Return None: the number of boxes read from memory depends on the caches."""
