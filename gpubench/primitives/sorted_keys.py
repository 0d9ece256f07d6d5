"""Convert sorted (cell, particle) keys to sorted cells."""

from __future__ import annotations

from typing import Any

from gpubench.devices.base import Device

BLOCK = 512


class CellsOfSortedKeys:
    """Finds the start of each cell by binary search, and extracts the particles from the keys."""

    def __init__(self, device: Device, particles: int, cells: int, *, reorder: bool) -> None:
        self._device, self._particles, self._cells = device, particles, cells
        constants = {"BLOCK": BLOCK, "REORDER": int(reorder)}
        self._search = device.kernel("sorted_keys.cu", "search_starts", **constants)
        self._unpack = device.kernel("sorted_keys.cu", "unpack", **constants)

    def launch(self, keys: Any, start: Any, order: Any, positions: Any, reordered: Any) -> None:
        """Queue the conversion to the arrays of SortedCells.

        keys: uint64, shape (particles,), sorted; the upper half of each is the cell, the lower half
            the particle.
        start, order: as in SortedCells. positions, reordered: float32, shape (particles, 4), in
            input order and in cell order; both are unused if `reorder` was False.
        """
        n, cells, blocks = self._particles, self._cells, self._device.blocks
        self._search(blocks(cells + 1, BLOCK), BLOCK, keys, start, cells, n)
        self._unpack(blocks(n, BLOCK), BLOCK, keys, order, positions, reordered, n)
