"""Cells by torch.sort, and what searches over them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpubench.libraries._library_sort import LibrarySort, LibrarySortSearch
from gpubench.libraries._torch import Torch


class TorchSort(LibrarySort):
    """`torch.sort` of the cell ids, and `torch.searchsorted` for where each cell starts."""

    name = "torch-sort"
    summary = "torch.sort of the cell ids, then torch.searchsorted"
    source = "PyTorch, torch.sort, torch.searchsorted"

    def prepare(self) -> None:
        self._torch = Torch(self.device)
        self.library = self._torch.library
        super().prepare()
        self._keys = self.allocate(self.particles, "int32")
        self._indices = self.allocate(self.particles, "int64")
        self._cells = self.allocate(self.grid.count + 1, "int32")
        self.device.write(self._cells, np.arange(self.grid.count + 1, dtype=np.int32))
        if self.particles:
            arrays = (self._keys, self._indices, self._order, self._cells, self._start)
            self._views = [self._torch.view(array) for array in arrays]
        self._given: Any = None

    def sort(self, cell_of: Any) -> None:
        torch = self._torch.torch
        keys, indices, order, cells, start = self._views
        if cell_of is not self._given:  # a view costs the host time, which is ours
            self._given, self._given_view = cell_of, self._torch.view(cell_of)
        with self._torch.on_stream():
            torch.sort(self._given_view, out=(keys, indices))
            order.copy_(indices)
            torch.searchsorted(keys, cells, out_int32=True, out=start)

    def measured(self, cell_of: Any) -> int:
        return self._torch.peak_of(partial(self.sort, cell_of))

    def outcome(self) -> dict[str, int | float | str]:
        return {"ties": "the order within a cell is not promised"}


class TorchSortSearch(LibrarySortSearch):
    """Over sorted cells, by torch.sort."""

    name = "search-torch-sort"
    summary = "positions to neighbours over torch-sort"
    source = "PyTorch, torch.sort, torch.searchsorted"
    cells = TorchSort
