"""Updates a counting sort after particles moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms.counting_sort import CountingSort
from gpubench.core.algorithm import Form
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.cells.contract import CellListUpdate, SortedCells

BLOCK = 256


class CountingResort(CellListUpdate):
    """Uses atomics only for particles that changed cells; copies the others cell by cell.

    Starts and order are double-buffered and swapped at each update. As the order has no gaps, a
    particle that changes cells shifts all cells between its old and its new one. So the indices of
    particles that stayed are rewritten too, but contiguously and without an atomic for each.
    """

    name = "counting-resort"
    replaces = "counting-sort"
    summary = "re-sort of a counting-sorted order: moved particles one by one, the others per cell"
    source = "the sorted counterpart of rozen2008, section 2.2"
    forms: ClassVar[Mapping[str, Form]] = {"order": Form("indices only")}

    def prepare(self) -> None:
        device, particles, grid = self.device, self.particles, self.grid
        self._sort = CountingSort(device, particles, grid, "order", {})
        self.workspace_bytes += self._sort.workspace_bytes
        self._other = SortedCells(
            self.allocate(grid.count + 1, "int32"), self.allocate(particles, "int32")
        )
        self._built = self._present = self._sort.answer
        self._counts = self.allocate(grid.count, "int32")
        device.fill(self._counts, 0x00)
        self._first = self.allocate(grid.count, "int32")
        self._rank = self.allocate(particles, "int32")
        self._scan = ExclusiveScan(device, grid.count, clear=True)
        self.workspace_bytes += self._scan.workspace_bytes
        self._count_again = device.kernel("counting_resort.cu", "count_again")
        self._place_again = device.kernel("counting_resort.cu", "place_again")

    def build(self, cell_of: Any, positions: Any) -> None:
        if self._present is not self._built:
            self._present, self._other = self._built, self._present
        self._sort.build(cell_of, positions)

    def update(self, cell_of: Any, positions: Any) -> None:
        present, other, cells = self._present, self._other, self.grid.count
        blocks = self.device.blocks(cells, BLOCK)
        self._count_again(
            blocks, BLOCK, cell_of, present.start, present.order, self._counts, self._first,
            self._rank, cells,
        )  # fmt: skip
        self._scan.launch(self._counts, other.start)
        self._place_again(
            blocks, BLOCK, cell_of, present.start, present.order, other.start, self._first,
            self._rank, other.order, cells,
        )  # fmt: skip
        self._present, self._other = other, present

    @property
    def answer(self) -> SortedCells:
        return self._present

    def traffic_bytes(self) -> int:
        # Accesses per particle: order 3, cell 2, rank 2. Per cell: starts, counts, first.
        return 28 * self.particles + 28 * self.grid.count
