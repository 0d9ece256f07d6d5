"""Neighbour lists in one pass, in rows in the order of the cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.grid import EPSILON
from gpubench.devices.named import NamedKernel
from gpubench.primitives.cell_query import ROUNDINGS, row_volume, words_for
from gpubench.primitives.gather import Gather
from gpubench.problems.cells.contract import SortedCells
from gpubench.problems.neighbours.contract import Neighbours, NeighbourSearch
from gpubench.problems.particles.cell_ids import CellIds
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 128
STEP = 4  # candidates loaded at once
STAGED = 4096
MOST_WORDS = 5  # per row of cells: a block's bits, with its staged neighbours, fit in 48 KiB
MOST_PAIRS = 2**31 - 1


class OnePassList(NeighbourSearch):
    """Lists as simulations over sorted particles take them: rows and neighbours by slot.

    begins, counts: int32, (particles,), where the row of the particle in each slot of the sorted
    cells begins, and its length; neighbours: int32, the slots of its neighbours; order: int32,
    (particles,), the particle in each slot. Rows leave no gaps, but do not ascend from block to
    block. The answer is the same list as CSR by particle, converted on the host when it is read.
    """

    name = "one-pass-list"
    summary = "positions to neighbours in cell order, in a single pass over sorted cells"
    source = "room for each block's rows by an atomic addition; cells of search-counting-sort"
    forms: ClassVar[Mapping[str, Form]] = {
        "list-in-cells": Form("list neighbours, in rows in cell order (not CSR by particle)"),
    }

    def prepare(self) -> None:
        device, particles, grid = self.device, self.particles, self.grid
        given = {"parts": 0, "levels": 0}
        self._cells = CountingSortSearch.cells_for(device, particles, grid, given)
        self._ids, cut = CellIds(device, self._cells.grid), self._cells.grid
        self._cell_of = self.allocate(particles, "int32")
        reorders = self._cells.forms[self._cells.form].reorders
        self._gather = None if reorders else Gather(device, particles)
        self.workspace_bytes += self._cells.workspace_bytes
        self.workspace_bytes += self._gather.workspace_bytes if self._gather else 0
        self._begins, self._counts = (self.allocate(particles, "int32") for _ in range(2))
        self._used, self._neighbours = self.allocate(1, "int32"), self.allocate(0, "int32")
        reach = cut.cells[0] // grid.cells[0]
        in_row = particles / math.prod(grid.size) * row_volume(cut, self.cutoff, reach)
        ends = max(map(abs, (*grid.low, *np.add(grid.low, grid.size), *grid.size)))
        self._given = {
            "grid": device.upload(cut.packed().view("uint8")), "particles": particles,
            "cutoff2": np.float32(self.cutoff) ** 2, "used": self._used,
            "slack": np.float32(ROUNDINGS * EPSILON * ends), "begins": self._begins,
            "counts": self._counts,
        }  # fmt: skip
        self._list = NamedKernel(
            device, "neighbour_one_pass.cu", "list_rows", BLOCK=BLOCK, STEP=STEP, STAGED=STAGED,
            PERIODIC=int(any(grid.periodic)), REACH=reach, HALF=0,
            WORDS=min(words_for(in_row, any(grid.periodic)), MOST_WORDS),
        )  # fmt: skip

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task, and a kind of answer of its own: never compared with CSR by particle."""
        return "list", "in cell order"

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions; count the pairs, and make room for them."""
        self._positions = self.device.upload(inputs.positions)
        self.launch()
        pairs = int(self.download(self._counts).sum(dtype=np.int64))
        if pairs > MOST_PAIRS:
            raise NotSupported(f"{self.name} lists at most {MOST_PAIRS:,} pairs, not {pairs:,}")
        self.workspace_bytes -= self._neighbours.nbytes
        self._neighbours = self.allocate(pairs, "int32")

    def launch(self) -> None:
        """Build the cells, and list."""
        if self._cells.reads_cells:
            self._ids.launch(self._positions, self._cell_of)
        self._cells.build(self._cell_of, self._positions)
        cells: Any = self._cells.answer
        positions = cells.positions
        if self._gather:
            self._gather.launch(cells.order, self._positions)
            positions = self._gather.sorted
        self.device.fill(self._used, 0x00)
        self._list.launch_from(
            self.device.blocks(self.particles, BLOCK), BLOCK,
            {**self._given, "positions": positions, "start": cells.start,
             "neighbours": self._neighbours, "capacity": self._neighbours.shape[0]},
        )  # fmt: skip

    def download(self, array: Any) -> NDArray[Any]:
        return array if isinstance(array, np.ndarray) else super().download(array)

    def neighbours(self) -> Neighbours:
        cells = self._cells.answer
        assert isinstance(cells, SortedCells)
        begins, lengths, slots, order = map(
            self.download, (self._begins, self._counts, self._neighbours, cells.order)
        )
        counts, offsets = np.empty_like(lengths), np.zeros(self.particles + 1, np.int64)
        counts[order] = lengths
        np.cumsum(counts, out=offsets[1:])
        listed = np.full(max(int(offsets[-1]), 0), -1, np.int32)  # which no right answer contains
        ends = begins.astype(np.int64) + lengths
        are_whole = min(lengths.min(initial=0), begins.min(initial=0)) >= 0
        if are_whole and ends.max(initial=0) <= len(slots):
            first = np.empty(self.particles, np.int64)
            first[order] = begins  # of the row of each particle
            found = slots[np.repeat(first - offsets[:-1], counts) + np.arange(len(listed))]
            is_slot = (found >= 0) & (found < self.particles)
            listed[is_slot] = order[found[is_slot]]
        return Neighbours(counts, offsets, listed)

    def poison(self) -> None:
        for array in (self._begins, self._counts, self._neighbours):
            self.device.fill(array, 0xFF)

    def outcome(self) -> dict[str, int | float | str]:
        return {"cells": self._cells.form, "pairs": int(self._neighbours.shape[0])}

    def traffic_bytes(self) -> int | None:
        cells = self._cells.traffic_bytes()
        if cells is None:
            return None
        ids = (16 + 4) * self.particles * self._cells.reads_cells
        rows = (16 + 8) * self.particles + 4 * self._cells.grid.count
        return ids + cells + rows + 4 * int(self._neighbours.shape[0])
