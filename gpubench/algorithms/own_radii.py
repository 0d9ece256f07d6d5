"""Searches in which each particle may have a radius of its own: a tree, and cells of any size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.cell_search import tasks
from gpubench.algorithms.cluster_pairs import slack_of
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.core.grid import Grid
from gpubench.core.poison import arrays_of, empty, poison
from gpubench.devices.named import NamedKernel
from gpubench.primitives.linear_bvh import LinearBvh
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.neighbours.contract import Neighbours, NeighbourSearch
from gpubench.problems.particles.cell_ids import CellIds
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 128
FEW = 2**16  # up to this number of particles, saving a launch beats memory order
MOST_CELLS = 8  # per particle


class OwnRadii(NeighbourSearch):
    """A search that builds a structure, and visits it by the kernel `search` in its `file`.

    given: the arguments of kernels, by name; `build` queues the structure, with its arrays there.
    """

    forms: ClassVar[Mapping[str, Form]] = tasks("build", "count", "list")
    takes_radii = True
    file: ClassVar[str]

    def prepare(self) -> None:
        device, n, lists = self.device, self.particles, self.task == "list"
        self._counts = self.allocate(n, "int32")
        self._offsets = self.allocate(n + 1 if lists else 0, "int64")
        self._neighbours = device.empty(0, "int32")
        if lists:
            self._scan = ExclusiveScan(device, n, sum_type="int64")
            self.workspace_bytes += self._scan.workspace_bytes
        self._search = self.kernel("search")
        self.given: dict[str, Any] = {
            "grid": device.upload(self.grid.packed().view("uint8")), "particles": n,
            "cutoff": np.float32(self.cutoff), "slack": slack_of(self.grid),
            "radii": self._counts, "counts": self._counts, "offsets": self._offsets,
        }  # fmt: skip

    def kernel(self, name: str) -> NamedKernel:
        """Compile a kernel of the file."""
        radii, periodic = self.grid.shortest is not None, any(self.grid.periodic)
        constants = {"BLOCK": BLOCK, "PERIODIC": int(periodic), "RADII": int(radii)}
        return NamedKernel(self.device, self.file, name, **constants)

    def load(self, inputs: ParticleSet) -> None:
        """Upload positions and radii; for a list, also count the neighbours and allocate it."""
        self._positions = self.device.upload(inputs.positions)
        if inputs.radii is not None:
            self.given["radii"] = self.device.upload(inputs.radii)
        if self.task == "list":
            self.launch()
            self.workspace_bytes -= self._neighbours.nbytes
            total = int(self.device.download(self._offsets)[-1])
            self._neighbours = self.allocate(total, "int32")

    def launch(self) -> None:
        """Build the structure; then count the neighbours, and for a list, scan and fill."""
        self.build()
        if self.task != "build":
            self._visit(fills=0)
        if self.task == "list":
            self._scan.launch(self._counts, self._offsets)
            self._visit(fills=1)

    def build(self) -> None:
        raise NotImplementedError

    def _visit(self, fills: int) -> None:
        capacity = np.int64(self._neighbours.shape[0])
        given = {"neighbours": self._neighbours, "capacity": capacity, "fills": fills}
        blocks = self.device.blocks(self.particles, BLOCK)
        self._search.launch_from(blocks, BLOCK, self.given | given)

    def neighbours(self) -> Neighbours:
        if self.task == "build":
            self._visit(fills=0)
        if self.task != "list":
            return Neighbours(self._counts)
        return Neighbours(self._counts, self._offsets, self._neighbours)

    def outcome(self) -> dict[str, int | float | str]:
        return {"pairs": int(self._neighbours.shape[0])} if self.task == "list" else {}

    def traffic_bytes(self) -> None:
        """Return None: how much is read from memory depends on the caches."""


class LbvhSearch(OwnRadii):
    """A tree over the particles, of any density, which each of them descends with a stack."""

    name = "lbvh-search"
    summary = "positions to neighbours by descending a linear BVH of the particles"
    source = "Karras 2012, Maximizing parallelism in the construction of BVHs"
    file = "lbvh_search.cu"

    def prepare(self) -> None:
        super().prepare()
        self._tree = tree = LinearBvh(self.device, self.particles)
        self._boxes = self.allocate((2 * self.particles, 4), "float32")
        self.workspace_bytes += tree.workspace_bytes
        self._make_boxes = self.kernel("boxes_of_points")
        for name in ("children", "node_boxes", "leaf_boxes"):
            self.given[name] = getattr(tree, name)

    def build(self) -> None:
        blocks = self.device.blocks(self.particles, BLOCK)
        given = {"positions": self._positions, "boxes": self._boxes}
        self._make_boxes.launch_from(blocks, BLOCK, self.given | given)
        if self.particles:
            self._tree.launch(self._boxes, self.grid.low, max(self.grid.size))
        self.given["order"] = self._tree.order

    def poison(self) -> None:
        """Overwrite the neighbours, and move leaves and nodes far apart."""
        poison(self.device, *arrays_of(self.neighbours()))
        self.device.fill(self._tree.leaf_boxes, 0xFE)  # about -2^127
        self.device.fill(self._tree.node_boxes, 0x7F)  # about 2^128


class FineCells(OwnRadii):
    """Sorted cells, of which each particle visits those that touch the ball of its radius.

    finer: cells per cutoff along each axis; by default (0) the root of the ratio of the longest
        radius to the shortest, at least 1. Fewer, if there would be over eight cells per particle.
    """

    name = "search-fine-cells"
    summary = "positions to neighbours over counting-sort, in cells that may be shorter than radii"
    source = "rozen2008, section 2.3, with a range of cells for each radius"
    file = "fine_cells.cu"
    defaults: ClassVar[Mapping[str, int]] = {"finer": 0}
    variants: ClassVar[Sequence[Mapping[str, int]]] = ({}, {"finer": 3})

    def prepare(self) -> None:
        super().prepare()
        finer = self.parameters["finer"]
        if finer < 0:
            raise UserError(f"finer must be at least 1 (or 0: by the radii), not {finer}")
        finer = finer or round(math.sqrt(self.cutoff / (self.grid.shortest or self.cutoff)))
        grid, n = finer_cells(self.grid, self.particles, finer), self.particles
        form = "reorder" if n <= FEW else "gather"
        self._cells = CountingSort(self.device, n, grid, form, {"levels": 0})
        self._ids, self._cell_of = CellIds(self.device, grid), self.allocate(n, "int32")
        self.workspace_bytes += self._cells.workspace_bytes
        self.given["grid"] = self._ids.packed_grid

    def build(self) -> None:
        if self._cells.reads_cells:
            self._ids.launch(self._positions, self._cell_of)
        self._cells.build(self._cell_of, self._positions)
        self.given |= vars(self._cells.answer)

    def poison(self) -> None:
        """Overwrite the neighbours, and empty the cells."""
        poison(self.device, *arrays_of(self.neighbours()))
        empty(self.device, self._cells.answer)


def finer_cells(grid: Grid, particles: int, finer: int) -> Grid:
    """Cut each cell into `finer` along each axis; fewer if cells would be too many or too short."""
    while finer > 1 and grid.count * finer**3 > MOST_CELLS * particles:
        finer -= 1
    x, y, z = (finer * n for n in grid.cells)
    try:
        return replace(grid, cells=(x, y, z), cutoff=grid.reach, shortest=None)
    except UserError:
        return (
            finer_cells(grid, particles, finer - 1) if finer > 1 else replace(grid, shortest=None)
        )
