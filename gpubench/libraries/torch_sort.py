"""torch.sort: cell lists, searches over them, and key sorts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpubench.libraries._library_sort import LibraryKeySort, LibrarySort, LibrarySortSearch
from gpubench.libraries._torch import Torch
from gpubench.problems.key_sort.inputs import KeySet


class TorchSort(LibrarySort):
    """`torch.sort` of the cell ids, and `torch.searchsorted` for the cell starts."""

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
        if cell_of is not self._given:  # reuse the view: creating it takes host time
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
    """Search over cells sorted with torch.sort."""

    name = "search-torch-sort"
    summary = "positions to neighbours over torch-sort"
    source = "PyTorch, torch.sort, torch.searchsorted"
    cells = TorchSort


class TorchKeySort(LibraryKeySort):
    """`torch.sort` of keys; values are gathered by the indices that `torch.sort` returns."""

    name = "torch-key-sort"
    summary = "torch.sort of keys; values by torch.index_select"
    source = "PyTorch, torch.sort"
    key_types = ("int32", "int64", "float32")

    def prepare(self) -> None:
        self._torch = Torch(self.device)
        self.library = self._torch.library
        super().prepare()
        self._indices = self.allocate(self.size, "int64")

    def load(self, inputs: KeySet) -> None:
        """Upload the keys, and create all views here: doing so in `sort` would be timed."""
        super().load(inputs)
        arrays: list[Any] = [self.keys, self.sorted_keys, self._indices]
        if self.values is not None:
            arrays += [self.values.view("int32"), self.sorted_values]
        self._views = [self._torch.view(array) for array in arrays]

    def sort(self) -> None:
        torch = self._torch.torch
        keys, in_order, indices, *values = self._views
        with self._torch.on_stream():
            torch.sort(keys, stable=True, out=(in_order, indices))
            if values:
                torch.index_select(values[0], 0, indices, out=values[1])

    def measured(self) -> int:
        return self._torch.peak_of(self.sort)
