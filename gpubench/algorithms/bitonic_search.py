"""Bitonic merge sort, then a binary search for each cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.contracts import CellList, Form, SortedCells
from gpubench.devices.base import Device
from gpubench.grid import Grid
from gpubench.primitives.sorted_keys import CellsOfSortedKeys

BLOCK = 512
TILE = 2 * BLOCK


class BitonicSearch(CellList):
    """The route of Purcell et al., which rozen2008 compares itself with (section 3, Table 3)."""

    name = "bitonic-search"
    summary = "bitonic merge sort of (cell, particle), then a binary search for each cell"
    source = "Batcher 1968; Purcell et al. 2003; rozen2008, section 1"
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form("indices only"),
        "reorder": Form("positions gathered when the pairs are unpacked", reorders=True),
    }

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        super().__init__(device, particles, grid, form, parameters)
        self._reorders = self.forms[form].reorders
        self._keys = self.allocate(particles, "uint64")
        self._start = self.allocate(grid.count + 1, "int32")
        self._order = self.allocate(particles, "int32")
        self._sorted = self.allocate((particles if self._reorders else 0, 4), "float32")
        # Sizes are powers of two; the network is that of the next one, with what lies past the
        # last particle skipped.
        self._log2_tile = TILE.bit_length() - 1
        self._log2_size = max(self._log2_tile, (particles - 1).bit_length() if particles else 0)
        constants = {"BLOCK": BLOCK, "TILE": TILE}
        self._sort_tiles, self._mirrored, self._strided, self._tiles = (
            device.kernel("bitonic_search.cu", name, **constants)
            for name in ("sort_tiles", "merge_mirrored", "merge_strided", "merge_tiles")
        )
        self._cells = CellsOfSortedKeys(device, particles, grid.count, reorder=self._reorders)

    def build(self, cell_of: Any, positions: Any) -> None:
        n, blocks = self.particles, self.device.blocks
        tiles = blocks(n, TILE)
        self._sort_tiles(tiles, BLOCK, cell_of, self._keys, n)
        for log2_size in range(self._log2_tile + 1, self._log2_size + 1):
            # The last merge of a size may reach past the last tile's pairs by less than a size.
            covering = blocks(-(-n // (1 << log2_size)) << (log2_size - 1), BLOCK)
            self._mirrored(covering, BLOCK, self._keys, log2_size, n)
            for log2_stride in range(log2_size - 2, self._log2_tile - 1, -1):
                covering = blocks(-(-n // (2 << log2_stride)) << log2_stride, BLOCK)
                self._strided(covering, BLOCK, self._keys, log2_stride, n)
            self._tiles(tiles, BLOCK, self._keys, n)
        self._cells.launch(self._keys, self._start, self._order, positions, self._sorted)

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self._start, self._order, self._sorted if self._reorders else None)

    def traffic_bytes(self) -> int:
        # Keys read and written once a launch over them; then keys, order, starts, positions.
        steps = sum(
            1 + max(0, size - 1 - self._log2_tile) + 1
            for size in range(self._log2_tile + 1, self._log2_size + 1)
        )
        gather = 12 + 32 * self._reorders
        return (12 + 16 * steps + gather) * self.particles + 4 * self.grid.count
