"""Sort by cell id with a radix sort, then find where each cell starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.primitives.radix_sort import PairRadixSort
from gpubench.problems.cells.contract import CellList, SortedCells

BLOCK = 256


class RadixGrid(CellList):
    """The grid that most particle codes use: radix sort, cell bounds, gather."""

    name = "radix-grid"
    summary = "radix sort of the cell ids on the bits that the grid needs, then cell bounds"
    source = "Some GPU-based algorithms (slides), ReorderParticlesAndFindCellBoundaries; CUB"
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form("indices only"),
        "reorder": Form("positions gathered in the bounds pass", reorders=True),
    }

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        self._reorders = self.forms[form].reorders
        self._bits = max(1, (grid.count - 1).bit_length())
        self._indices = self.allocate(particles, "int32")
        device.write(self._indices, np.arange(particles, dtype=np.int32))
        self._start = self.allocate(grid.count + 1, "int32")
        self._sorted = self.allocate((particles if self._reorders else 0, 4), "float32")
        self._sort = PairRadixSort(device, particles, self._bits)
        self.workspace_bytes += self._sort.workspace_bytes
        self._bounds = device.kernel(
            "cell_bounds.cu", "cell_bounds", BLOCK=BLOCK, REORDER=int(self._reorders)
        )

    def build(self, cell_of: Any, positions: Any) -> None:
        self._sort.launch(cell_of, self._indices)
        self._bounds(
            self.device.blocks(self.particles + 1, BLOCK), BLOCK, self._sort.keys,
            self._sort.values, self._start, positions, self._sorted, self.grid.count,
            self.particles,
        )  # fmt: skip

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self._start, self._sort.values, self._sorted if self._reorders else None)

    def outcome(self) -> dict[str, int | float | str]:
        return {"sort": self._sort.form, "bits": self._bits}

    def traffic_bytes(self) -> int:
        # One histogram pass over the keys; 16 bytes per pair and 8-bit digit; read keys, write
        # starts; to reorder, 36 bytes more per particle: read the index, copy the position.
        digits = -(-self._bits // 8)
        bounds = 4 + 36 * self._reorders
        return (4 + 16 * digits + bounds) * self.particles + 4 * self.grid.count
