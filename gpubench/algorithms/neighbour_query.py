"""Neighbours within a cutoff from a cell list: 27 cells, exact distance test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.atomic_list import AtomicList
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.contracts import (
    CellList,
    Form,
    LinkedCells,
    Neighbours,
    ParticleAlgorithm,
    SortedCells,
)
from gpubench.errors import UserError
from gpubench.inputs import ParticleSet
from gpubench.primitives.scan import ExclusiveScan

BLOCK = 512


class NeighbourQuery(ParticleAlgorithm):
    """Count or list the particles that are strictly nearer than the cutoff.

    The cutoff is the shortest cell edge. The cell list is built when an input is loaded and is
    not part of what is timed: by `atomic-list` for the linked forms, by `counting-sort` with
    reordered positions for the sorted ones. Lists are CSR (count, scan, fill) and never cut
    short: `load` learns how many pairs there are and makes room for them.
    """

    name = "neighbour-query"
    family = "neighbour-query"
    summary = "27-cell query with exact distance test over a cell list"
    source = "rozen2008, section 2.3; Some GPU-based algorithms (slides), near-field test"
    forms: ClassVar[Mapping[str, Form]] = {
        "count-linked": Form("count over linked lists, particles in their given order"),
        "count-sorted": Form("count over sorted cells with reordered positions"),
        "list-linked": Form("full list (count, scan, fill) over linked lists"),
        "list-sorted": Form("full list (count, scan, fill) over sorted cells"),
    }

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        if any(p and n < 3 for p, n in zip(grid.periodic, grid.cells, strict=True)):
            raise UserError(
                f"a periodic axis needs at least 3 cells for neighbours, this grid is"
                f" {grid.cells}: use smaller cells or a larger box"
            )
        self.cutoff = min(grid.cell_size)
        self._linked, self._lists = form.endswith("linked"), form.startswith("list")
        self._cells: CellList = (
            AtomicList(device, particles, grid, "one-pass", {})
            if self._linked
            else CountingSort(device, particles, grid, "reorder", {})
        )
        self._grid = device.upload(grid.packed().view("uint8"))
        self._counts = self.allocate(particles, "int32")
        self._offsets = self.allocate(particles + 1 if self._lists else 0, "int64")
        self._neighbours = device.empty(0, "int32")
        constants = {
            "BLOCK": BLOCK,
            "LINKED": int(self._linked),
            "PERIODIC": int(any(grid.periodic)),
        }
        self._count = device.kernel("neighbour_query.cu", "query", FILL=0, **constants)
        if self._lists:
            self._fill = device.kernel("neighbour_query.cu", "query", FILL=1, **constants)
            self._scan = ExclusiveScan(device, particles, sum_type="int64")
            self.workspace_bytes += self._scan.workspace_bytes

    def load(self, inputs: ParticleSet) -> None:
        """Upload an input, build its cell list, and make room for its neighbours."""
        self._cells.load(inputs)
        self._cells.launch()
        match self._cells.answer:
            case LinkedCells(head, next):
                self._arrays = (self._cells.positions, head, next)
            case SortedCells(start, order, positions):
                self._arrays = (positions, start, order)
        if self._lists:
            self._query(self._count)
            self._scan.launch(self._counts, self._offsets)
            total = int(self.device.download(self._offsets)[-1])
            self.workspace_bytes -= self._neighbours.nbytes
            self._neighbours = self.allocate(total, "int32")

    def launch(self) -> None:
        """Count, and for the list forms scan and fill."""
        self._query(self._count)
        if self._lists:
            self._scan.launch(self._counts, self._offsets)
            self._query(self._fill)

    def _query(self, kernel: Any) -> None:
        kernel(
            self.device.blocks(self.particles, BLOCK), BLOCK, *self._arrays, self._grid,
            np.float32(self.cutoff) ** 2, self.particles, self._counts, self._offsets,
            self._neighbours, np.int64(self._neighbours.shape[0]),
        )  # fmt: skip

    @property
    def answer(self) -> Neighbours:
        if not self._lists:
            return Neighbours(self._counts)
        return Neighbours(self._counts, self._offsets, self._neighbours)

    def outcome(self) -> dict[str, int | float | str]:
        if not self._lists:
            return {}
        return {"pairs": int(self._neighbours.shape[0])}

    def traffic_bytes(self) -> int:
        # Each position and cell bound once (caches hold the rest), each answer once.
        once = (16 + 4 + 4) * self.particles + 4 * self.grid.count
        if not self._lists:
            return once
        return 2 * once + (8 + 8) * self.particles + 4 * int(self._neighbours.shape[0])
