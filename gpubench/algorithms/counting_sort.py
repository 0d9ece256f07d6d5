"""Counting sort of particles by cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.contracts import CellList, Form, SortedCells
from gpubench.primitives.scan import ExclusiveScan

BLOCK = 256
ITEMS = 4


class CountingSort(CellList):
    """Histogram with rank, scan, scatter."""

    name = "counting-sort"
    summary = "histogram with rank, scan, scatter"
    source = "Knuth, The Art of Computer Programming 3, Algorithm 5.2D; with atomics for the ranks"
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form("indices only"),
        "reorder": Form("positions travel in the scatter pass", reorders=True),
    }

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        self._reorders = self.forms[form].reorders
        # Counts are zero between builds: the scan clears what it has read.
        self._counts = self.allocate(grid.count, "int32")
        device.fill(self._counts, 0x00)
        self._start = self.allocate(grid.count + 1, "int32")
        self._rank = self.allocate(particles, "int32")
        self._order = self.allocate(particles, "int32")
        self._sorted = self.allocate((particles if self._reorders else 0, 4), "float32")
        self._scan = ExclusiveScan(device, grid.count, clear=True)
        self.workspace_bytes += self._scan.workspace_bytes
        self._blocks = device.blocks(particles, BLOCK * ITEMS)
        constants = {"BLOCK": BLOCK, "ITEMS": ITEMS, "REORDER": int(self._reorders)}
        self._histogram = device.kernel("counting_sort.cu", "histogram_with_rank", **constants)
        self._scatter = device.kernel("counting_sort.cu", "scatter_by_rank", **constants)

    def build(self, cell_of: Any, positions: Any) -> None:
        self._histogram(self._blocks, BLOCK, cell_of, self._counts, self._rank, self.particles)
        self._scan.launch(self._counts, self._start)
        self._scatter(
            self._blocks, BLOCK, cell_of, self._start, self._rank, self._order,
            positions, self._sorted, self.particles,
        )  # fmt: skip

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self._start, self._order, self._sorted if self._reorders else None)

    def outcome(self) -> dict[str, int | float | str]:
        return {"scan": self._scan.form}

    def traffic_bytes(self) -> int:
        # Cell twice, count (8 bytes), rank written and read, start, order; 32 with the positions.
        # A cell: count read and cleared, start written.
        return (32 + 24 * self._reorders) * self.particles + 12 * self.grid.count
