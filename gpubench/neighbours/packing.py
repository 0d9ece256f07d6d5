"""Packing of particles that are far apart: islands between which no pairs are, moved together.

Particles lie in blocks of twice the reach. Blocks in use that touch are one island; each is moved,
as a whole number of blocks, to where it touches no other, in a box about as large as all of them.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.devices.named import NamedKernel
from gpubench.neighbours.arrays import Arrays
from gpubench.neighbours.box import SearchBox

BLOCK = 256
EDGE = 2  # reaches along a block: at 1, islands are closer together, at higher cost
LEAST_GAIN = 2  # between the volumes of the box and of the packed one
LEAST_PARTICLES = 2  # in a block in use, on average


class Unpackable(Exception):
    """Particles that cannot be packed, or hardly are: the search is of the box as it is."""


class Packing:
    """Which blocks are in use, and where they are moved in `box`.

    arrays: of `positions`. bounds: the user's box, which axes without an edge do not have. reach:
    including the skin. Raises Unpackable.
    """

    def __init__(self, arrays: Arrays, positions: Any, bounds: SearchBox, reach: float) -> None:
        device, (n, stride) = arrays.device, positions.shape
        self._device, self._blocks, self._status = device, device.blocks(n, BLOCK), device.status(1)
        real = {"float32": "float", "float64": "double"}[positions.dtype.name]
        constants = {"REAL": real, "STRIDE": stride, "TEAM": 1}
        kernel = partial(NamedKernel, device, "neighbour_geometry.cu", **constants)
        self._find, edge = kernel(name="find_blocks", WRITES=0), np.float64(EDGE * reach)
        packed = device.upload(bounds.packed().view("uint8"))
        keys = arrays.empty(n, "int64")
        given = {"given": positions, "box": packed, "particles": n, "edge": edge}
        kernel(name="block_keys")(self._blocks, BLOCK, **given, out=keys)
        keys = arrays.view(arrays.library.unique(arrays.give(keys)))
        if (blocks := keys.shape[0]) * LEAST_PARTICLES > n:
            raise Unpackable("the particles are far from each other")
        self._given = {
            **given, "keys": keys, "used": blocks, "status": self._status,
            "block_at": device.empty((blocks, 3), "int64"), "block_of": device.empty(n, "int32"),
        }  # fmt: skip
        kernel(name="find_blocks", WRITES=1)(self._blocks, BLOCK, **self._given)
        if not self.serves(positions):
            raise Unpackable("a particle is too far away, or two blocks have a key")
        at = device.download(self._given["block_at"])
        is_open = ~np.array(bounds.periodic)
        moved, sizes = _moved(at, islands(at), is_open)
        x, y, z = np.where(is_open, sizes * edge, bounds.size).tolist()
        self.box = SearchBox((0.0, 0.0, 0.0), (x, y, z), bounds.periodic)
        self.arguments = {
            "bounds": packed, "edge": edge, "block_of": self._given["block_of"],
            "moved": device.upload(moved.astype(np.float64)),
        }  # fmt: skip

    def serves(self, positions: Any) -> bool:
        """Wait; True if all of these positions are in blocks that are in use."""
        self._device.fill(self._status, 0)
        self._find(self._blocks, BLOCK, **self._given | {"given": positions})
        return not self._device.download(self._status)[0]


def packed(arrays: Arrays, positions: Any, box: SearchBox, reach: float) -> Packing | None:
    """Return a packing of particles that leave most of a box empty; None if it would not help."""
    if all(box.periodic) or not box.is_sparse(positions.shape[0], reach):
        return None
    try:
        packing = Packing(arrays, positions, box, reach)
    except Unpackable:
        return None
    is_denser = math.prod(packing.box.size) * LEAST_GAIN < math.prod(box.size)
    return packing if is_denser else None


def islands(at: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return a number for each block, the same for those that touch, also by others.

    at: the blocks, shape (blocks, 3), each once. Raises Unpackable if there are too many.
    """
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    ranks = []  # as `at`, but gaps are as short as possible
    for along in at.T:
        values, index = np.unique(along, return_inverse=True)
        ranks.append(np.minimum(np.diff(values, prepend=values[0]), 2).cumsum()[index])
    (x, y, z), (wide, deep, high) = ranks, (int(rank.max()) + 3 for rank in ranks)
    if wide * deep * high >= 2**63:
        raise Unpackable("too many blocks are far from each other")
    keys = (x * deep + y) * high + z
    order = np.argsort(keys)
    keys, touching = keys[order], []
    for a, b, c in itertools.product((-1, 0, 1), repeat=3):
        if (a, b, c) > (0, 0, 0):
            wanted = keys + ((a * deep + b) * high + c)
            found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            here = np.flatnonzero(keys[found] == wanted)
            touching.append((order[here], order[found[here]]))
    pairs = np.concatenate(touching, axis=1)
    graph = coo_array((np.ones(pairs.shape[1], bool), tuple(pairs)), (len(at), len(at)))
    number: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return number


def _moved(
    at: NDArray[np.int64], island: NDArray[np.int32], is_open: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where blocks are in a box in which islands do not touch, and its edges, in blocks."""
    number = int(island.max()) + 1
    low, high = (np.full((number, 3), end) for end in (at.max(axis=0), at.min(axis=0)))
    np.minimum.at(low, island, at)
    np.maximum.at(high, island, at)
    sizes = high - low + 2
    axes = np.flatnonzero(is_open)
    starts = np.zeros_like(sizes)
    order = np.lexsort(sizes[:, axes].T)[::-1]
    starts[np.ix_(order, axes)] = _shelves(sizes[np.ix_(order, axes)])
    edges: NDArray[np.int64] = (starts + sizes).max(axis=0)
    return at + (starts - low)[island], edges


def _shelves(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the corners of boxes of these sizes that do not overlap, in about a cube.

    sizes: shape (boxes, axes). Boxes fill lines, lines fill layers, as far as there are axes.
    """
    starts, axes = np.zeros_like(sizes), sizes.shape[1]
    side = max(1, round(float(sizes.astype(float).prod(axis=1).sum()) ** (1 / axes)))
    member = np.arange(len(sizes))  # of a line, then of a layer
    for axis in range(axes):
        lengths = np.zeros(member[-1] + 1, np.int64)
        np.maximum.at(lengths, member, sizes[:, axis])
        start = lengths.cumsum() - lengths
        full = start // side if axis < axes - 1 else np.zeros_like(start)
        firsts, next_up = np.unique(full, return_index=True, return_inverse=True)[1:]
        starts[:, axis] = (start - start[firsts][next_up])[member]
        member = next_up[member]
    return starts
