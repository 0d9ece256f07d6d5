"""Base classes for a library's sort: cell lists, searches over these cell lists, key sorts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms.cell_search import SortedSearch
from gpubench.core.algorithm import Form
from gpubench.problems.cells.contract import CellList, SortedCells
from gpubench.problems.key_sort.contract import KeySort
from gpubench.problems.neighbours.tasks import TASKS

CUDA = frozenset({"cuda"})
SEARCHES = ("build", "count", "ten-counts", "list")


class LibrarySort(CellList):
    """Particles sorted by cell, with a library's sort and binary search.

    Order and starts are int32. If a library returns int64, the conversion is timed too.
    """

    forms: ClassVar[Mapping[str, Form]] = {"order": Form("indices only", CUDA, allocates=True)}

    def prepare(self) -> None:
        self._start = self.allocate(self.grid.count + 1, "int32")
        self._order = self.allocate(self.particles, "int32")
        self._pool: int | None = None

    def build(self, cell_of: Any, positions: Any) -> None:
        if not self.particles:
            self.device.fill(self._start, 0)
        elif self._pool is None:
            self._pool = self.measured(cell_of)
        else:
            self.sort(cell_of)

    @abstractmethod
    def sort(self, cell_of: Any) -> None:
        """Sort the cell ids (there is at least one), and find the start of each cell."""

    @abstractmethod
    def measured(self, cell_of: Any) -> int:
        """Sort, and return the peak memory that the library allocated, in bytes."""

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self._start, self._order)

    def peak_bytes(self) -> int:
        """Return the size of our arrays plus the library's peak memory in the first build."""
        return self.workspace_bytes + (self._pool or 0)

    def traffic_bytes(self) -> int | None:
        """Return None: the library determines the traffic."""
        return None


class LibraryKeySort(KeySort):
    """Keys sorted by a library that allocates memory; the answer is copied to our arrays."""

    forms: ClassVar[Mapping[str, Form]] = {"sort": Form("stable", CUDA, allocates=True)}
    equal_zeros = True

    def prepare(self) -> None:
        self.allocate_answer()
        self._pool: int | None = None

    def launch(self) -> None:
        """Sort the loaded keys; the first time, record the library's peak memory."""
        if self._pool is None:
            self._pool = self.measured()
        else:
            self.sort()

    @abstractmethod
    def sort(self) -> None:
        """Sort the loaded keys."""

    @abstractmethod
    def measured(self) -> int:
        """Sort, and return the peak memory that the library allocated, in bytes."""

    def peak_bytes(self) -> int:
        """Return the size of our arrays plus the library's peak memory in the first launch."""
        return self.workspace_bytes + (self._pool or 0)


class LibrarySortSearch(SortedSearch):
    """A search in which a library sorts the particles; cell ids and query are ours."""

    library_part = "sort"
    forms: ClassVar[Mapping[str, Form]] = {
        task: Form(TASKS[task], CUDA, allocates=True) for task in SEARCHES
    }

    def prepare(self) -> None:
        super().prepare()
        self.library = self._cells.library

    def peak_bytes(self) -> int | None:
        """Return the size of our arrays plus the library's peak memory, or None if unknown."""
        cells = self._cells.peak_bytes()
        return cells and self.workspace_bytes - self._cells.workspace_bytes + cells

    def outcome(self) -> dict[str, int | float | str]:
        return {**super().outcome(), **self._cells.outcome()}
