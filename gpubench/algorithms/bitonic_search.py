"""Bitonic merge sort, then a binary search for each cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.primitives.bitonic_merge import BLOCK, TILE, BitonicMerge
from gpubench.primitives.sorted_keys import CellsOfSortedKeys
from gpubench.problems.cells.contract import CellList, SortedCells


class BitonicSearch(CellList):
    """The method of Purcell et al., the baseline of rozen2008 (section 3, Table 3)."""

    name = "bitonic-search"
    summary = "bitonic merge sort of (cell, particle), then a binary search for each cell"
    source = "Batcher 1968; Purcell et al. 2003; rozen2008, section 1"
    sample_sizes = ((2100, 336),)  # several tiles, so that every merge kernel runs
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form("indices only"),
        "reorder": Form("positions gathered when the pairs are unpacked", reorders=True),
    }

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        self._reorders = self.forms[form].reorders
        self._keys = self.allocate(particles, "uint64")
        self._start = self.allocate(grid.count + 1, "int32")
        self._order = self.allocate(particles, "int32")
        self._sorted = self.allocate((particles if self._reorders else 0, 4), "float32")
        self._merge = BitonicMerge(device, particles)
        self._sort_tiles = device.kernel("bitonic_search.cu", "sort_tiles", BLOCK=BLOCK, TILE=TILE)
        self._cells = CellsOfSortedKeys(device, particles, grid.count, reorder=self._reorders)

    def build(self, cell_of: Any, positions: Any) -> None:
        n = self.particles
        self._sort_tiles(self.device.blocks(n, TILE), BLOCK, cell_of, self._keys, n)
        self._merge.launch(self._keys)
        self._cells.launch(self._keys, self._start, self._order, positions, self._sorted)

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self._start, self._order, self._sorted if self._reorders else None)

    def traffic_bytes(self) -> int:
        # Each merge pass reads and writes the keys. Then the keys are read, the answer written.
        gather = 12 + 32 * self._reorders
        return (12 + 16 * self._merge.passes + gather) * self.particles + 4 * self.grid.count
