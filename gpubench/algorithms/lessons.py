"""Counting sort and neighbour count from plain to fast: the steps of docs/lessons.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.cell_search import CountingSortSearch, query_of
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.core.grid import EPSILON
from gpubench.devices.named import NamedKernel
from gpubench.primitives.cell_query import ROUNDINGS, CellQuery
from gpubench.primitives.gather import Gather
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.cells.contract import CellList, SortedCells
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.particles.cell_ids import CellIds
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 256
ITEMS = 4
SORTS = {
    "two-atomics": "lessons/sort_two_atomics.cu",
    "kept-rank": "lessons/sort_kept_rank.cu",
    "many-a-thread": "lessons/sort_many_a_thread.cu",
}
LEVELS = {"shared-runs": 1, "shipped": 0}  # of `counting-sort gather`
QUERIES = {
    "given-order": "lessons/count_given_order.cu",
    "cell-order": "lessons/count_cell_order.cu",
    "rows": "lessons/count_rows.cu",
    "cut-cells": "lessons/count_rows.cu",
    "clipped": "lessons/count_clipped.cu",
}
PARTS = {"cut-cells": 4, "clipped": 4, "shipped": 0}  # of a cell along x; 0: as many as pay


class CountingSortLesson(ParticleAlgorithm):
    """From positions to particles sorted by cell.

    No `CellList`, so that no simulation offers it.
    """

    name = "counting-sort-lesson"
    family = "cell-list"
    summary = "counting sort from plain to fast, cell ids included"
    source = "counting-sort, taken apart"
    forms: ClassVar[Mapping[str, Form]] = {
        "two-atomics": Form("an addition to count a particle, one to place it", reorders=True),
        "kept-rank": Form("the count before the addition is kept as its rank", reorders=True),
        "many-a-thread": Form("four particles a thread, whose accesses overlap", reorders=True),
        "shared-runs": Form("neighbouring lanes of equal cells share an addition", reorders=True),
        "shipped": Form("cells computed in place; sorted by range of cells first", reorders=True),
    }

    def prepare(self) -> None:
        device, particles, grid = self.device, self.particles, self.grid
        self.cell_of = self.allocate(particles, "int32")
        self._ids = CellIds(device, grid)
        self.workspace_bytes += self._ids.packed_grid.nbytes
        self._sort: CountingSort | None = None
        if self.form in LEVELS:
            levels = {"levels": LEVELS[self.form]}
            self._sort = CountingSort(device, particles, grid, "gather", levels)
            self.workspace_bytes += self._sort.workspace_bytes
            return
        # Zero between launches: the scan clears counts, or the second atomic has counted them down.
        self._counts = self.allocate(grid.count, "int32")
        device.fill(self._counts, 0x00)
        self._start = self.allocate(grid.count + 1, "int32")
        self._order = self.allocate(particles, "int32")
        self._scan = ExclusiveScan(device, grid.count, clear=self.form != "two-atomics")
        self._gather = Gather(device, particles)
        self.workspace_bytes += self._scan.workspace_bytes + self._gather.workspace_bytes
        ranks = 0 if self.form == "two-atomics" else particles
        items = ITEMS if self.form == "many-a-thread" else 1
        self._blocks = device.blocks(particles, BLOCK * items)
        self._given = {
            "counts": self._counts, "start": self._start,
            "rank": self.allocate(ranks, "int32"), "order": self._order, "particles": particles,
        }  # fmt: skip
        self._count, self._place = (
            NamedKernel(device, SORTS[self.form], name, BLOCK=BLOCK, ITEMS=items)
            for name in ("count", "place")
        )

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return None as the task, and the kind of answer."""
        return None, "sorted"

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions; compute their cells, which some steps do not write apart."""
        self._positions = self.device.upload(inputs.positions)
        self._ids.launch(self._positions, self.cell_of)

    def launch(self) -> None:
        """Sort the loaded particles, beginning with their cell ids."""
        if self._sort is None or self._sort.reads_cells:
            self._ids.launch(self._positions, self.cell_of)
        self.build(self.cell_of, self._positions)

    def build(self, cell_of: Any, positions: Any) -> None:
        """Queue the sort of positions, whose cell ids are given; see `CellList.build`."""
        if self._sort:
            self._sort.build(cell_of, positions)
            return
        given = {**self._given, "cell_of": cell_of}
        self._count.launch_from(self._blocks, BLOCK, given)
        self._scan.launch(self._counts, self._start)
        self._place.launch_from(self._blocks, BLOCK, given)
        self._gather.launch(self._order, positions)

    @property
    def answer(self) -> SortedCells:
        if self._sort:
            return self._sort.answer
        return SortedCells(self._start, self._order, self._gather.sorted)

    def traffic_bytes(self) -> int:
        # Of any sort, so that the steps have one bound: positions are read and written, order and
        # starts are written.
        return (16 + 16 + 4) * self.particles + 4 * self.grid.count


class NeighbourCountLesson(ParticleAlgorithm):
    """The number of neighbours of each particle, from given cells; see `NeighbourQuery`."""

    name = "neighbour-count-lesson"
    family = "neighbour-query"
    summary = "count of the 27-cell query from plain to fast"
    source = "neighbour-query, taken apart"
    forms: ClassVar[Mapping[str, Form]] = {
        "given-order": Form("a thread per particle as given, cell after cell"),
        "cell-order": Form("a thread per particle in the order of the cells"),
        "rows": Form("the three cells of a row as one range"),
        "cut-cells": Form("cells cut in four along x, so that rows are shorter"),
        "clipped": Form("each row clipped to the sphere of the cutoff"),
        "shipped": Form("the query of search-counting-sort: loads and tests overlap"),
    }

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        if any(p and n < 3 for p, n in zip(grid.periodic, grid.cells, strict=True)):
            raise UserError(f"a periodic axis needs at least 3 cells, this grid is {grid.cells}")
        self.cutoff = min(grid.cell_size)
        self._cells: CellList
        if form in PARTS:
            given = {"parts": PARTS[form], "levels": 0}
            self._cells = CountingSortSearch.cells_for(device, particles, grid, given)
        else:
            self._cells = CountingSort(device, particles, grid, "reorder", {})
        self._query: CellQuery | None = None
        if form == "shipped":
            self._query = query_of(self._cells, grid, self.cutoff, lists=False)
            self.workspace_bytes += self._query.workspace_bytes
            return
        self._gather = Gather(device, particles)
        cut = self._cells.grid
        ends = map(abs, (*grid.low, *np.add(grid.low, grid.size), *grid.size))
        self._given = {
            "grid": device.upload(cut.packed().view("uint8")),
            "cutoff2": np.float32(self.cutoff) ** 2, "particles": particles,
            "slack": np.float32(ROUNDINGS * EPSILON * max(ends)),
            "counts": self.allocate(particles, "int32"),
        }  # fmt: skip
        self._count = NamedKernel(
            device, QUERIES[form], "count", BLOCK=BLOCK, PERIODIC=int(any(grid.periodic)),
            REACH=cut.cells[0] // grid.cells[0],
        )  # fmt: skip

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return None as the task, as cells are given, and the kind of answer."""
        return None, "count"

    def load(self, inputs: ParticleSet) -> None:
        """Upload an input, and sort it by cell."""
        self._cells.load(inputs)
        self._cells.launch()
        cells, positions = self._cells.answer, self._cells.positions
        assert isinstance(cells, SortedCells)
        if self._query:
            self._arrays = self._query.arrays(cells, positions)
            return
        if self.form != "given-order":
            self._gather.launch(cells.order, positions)
            positions = self._gather.sorted
        self._arrays = {"positions": positions, "start": cells.start, "order": cells.order}

    def launch(self) -> None:
        """Queue the count."""
        if self._query:
            self._query.count(self._arrays)
            return
        blocks = self.device.blocks(self.particles, BLOCK)
        self._count.launch_from(blocks, BLOCK, {**self._arrays, **self._given})

    @property
    def answer(self) -> Neighbours:
        return self._query.found if self._query else Neighbours(self._given["counts"])

    def traffic_bytes(self) -> int:
        # As CellQuery's: positions, order and starts read once, counts written once. For one bound,
        # of whole cells.
        return (16 + 4 + 4) * self.particles + 4 * self.grid.count
