"""Counting sort whose blocks sort their tiles in shared memory first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.contracts import CellList, ExclusiveScan, Form, SortedCells

BLOCK = 256
TILE = 1024  # keys of a block; 8 KB of shared memory


class TileSort(CellList):
    """Tiles sorted in shared memory, one atomic addition per run, scan, scatter."""

    name = "tile-sort"
    summary = "counting sort with one atomic addition per run of a tile in shared memory"
    source = "an example of gpubench; block-level aggregation as in many radix sorts"
    forms: ClassVar[Mapping[str, Form]] = {"order": Form("indices only")}

    def prepare(self) -> None:
        """Allocate all arrays and compile the kernels."""
        device, particles, cells = self.device, self.particles, self.grid.count
        self._counts = self.allocate(cells, "int32")
        device.fill(self._counts, 0x00)  # the scan clears what it has read
        self._start = self.allocate(cells + 1, "int32")
        self._tile_order = self.allocate(particles, "int32")
        self._rank = self.allocate(particles, "int32")
        self._order = self.allocate(particles, "int32")
        self._scan = ExclusiveScan(device, cells, clear=True)
        self.workspace_bytes += self._scan.workspace_bytes
        constants = {"BLOCK": BLOCK, "TILE": TILE}
        self._rank_tiles = device.kernel("tile_sort.cu", "rank_tiles", **constants)
        self._scatter = device.kernel("tile_sort.cu", "scatter_tiles", **constants)

    def build(self, cell_of: Any, positions: Any) -> None:
        """Queue the sort; cell_of: int32, shape (particles,)."""
        n, blocks = self.particles, self.device.blocks
        self._rank_tiles(
            blocks(n, TILE), BLOCK, cell_of, self._counts, self._tile_order, self._rank, n
        )
        self._scan.launch(self._counts, self._start)
        self._scatter(
            blocks(n, BLOCK), BLOCK,
            cell_of, self._start, self._tile_order, self._rank, self._order, n,
        )  # fmt: skip

    @property
    def answer(self) -> SortedCells:
        """The particles in the order of their cells."""
        return SortedCells(self._start, self._order, None)

    def traffic_bytes(self) -> int:
        """Count cells read twice, order and rank of a tile written and read, order written.

        Per cell: count read and cleared, start written.
        """
        return 28 * self.particles + 12 * self.grid.count
