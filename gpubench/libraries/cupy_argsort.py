"""CuPy's sorts: cell lists with cupy.argsort, searches over them, and key sorts."""

from __future__ import annotations

from typing import Any

from gpubench.libraries._library import need
from gpubench.libraries._library_sort import LibraryKeySort, LibrarySort, LibrarySortSearch


class CupyArgsort(LibrarySort):
    """`cupy.argsort` of the cell ids, and `cupy.searchsorted` for the cell starts."""

    name = "cupy-argsort"
    summary = "cupy.argsort of the cell ids, then cupy.searchsorted"
    source = "CuPy, cupy.argsort, cupy.searchsorted"

    def prepare(self) -> None:
        self._cupy: Any = need("cupy", "CuPy", "cuda13")
        self.library = f"cupy {self._cupy.__version__}"
        super().prepare()
        # CuPy uses our device's stream, which the device has made CuPy's current stream.
        self._cells = self._cupy.arange(self.grid.count + 1, dtype="int32")
        self.workspace_bytes += self._cells.nbytes

    def sort(self, cell_of: Any) -> None:
        cupy = self._cupy
        order = cupy.argsort(cell_of)
        start = cupy.searchsorted(cell_of[order], self._cells)
        cupy.copyto(self._order, order, casting="unsafe")
        cupy.copyto(self._start, start, casting="unsafe")

    def measured(self, cell_of: Any) -> int:
        hook = _hook(self._cupy)
        with hook:
            self.sort(cell_of)
        return int(hook.peak)

    def outcome(self) -> dict[str, int | float | str]:
        return {"ties": "stable: particles of a cell keep their order"}


def _hook(cupy: Any) -> Any:
    """Return a CuPy memory hook that records peak usage."""

    class Peak(cupy.cuda.MemoryHook):  # type: ignore[misc]  # CuPy is not typed
        name = "peak"
        held = peak = 0

        def malloc_postprocess(self, **what: Any) -> None:
            self.held += what["mem_size"]
            self.peak = max(self.peak, self.held)

        def free_postprocess(self, **what: Any) -> None:
            self.held -= what["mem_size"]

    return Peak()


class CupyArgsortSearch(LibrarySortSearch):
    """Search over cells sorted with cupy.argsort."""

    name = "search-cupy-argsort"
    summary = "positions to neighbours over cupy-argsort"
    source = "CuPy, cupy.argsort, cupy.searchsorted"
    cells = CupyArgsort


class CupyKeySort(LibraryKeySort):
    """`cupy.sort` for keys without values; otherwise `cupy.argsort` and `cupy.take`.

    CuPy documents both sorts as stable.
    """

    name = "cupy-key-sort"
    summary = "cupy.sort of keys; pairs by cupy.argsort and cupy.take"
    source = "CuPy, cupy.sort, cupy.argsort"

    def prepare(self) -> None:
        self._cupy: Any = need("cupy", "CuPy", "cuda13")
        self.library = f"cupy {self._cupy.__version__}"
        super().prepare()

    def sort(self) -> None:
        cupy = self._cupy
        if self.values is None:
            cupy.copyto(self.sorted_keys, cupy.sort(self.keys))
            return
        order = cupy.argsort(self.keys)
        cupy.take(self.keys, order, out=self.sorted_keys)
        cupy.take(self.values.view("int32"), order, axis=0, out=self.sorted_values)

    def measured(self) -> int:
        hook = _hook(self._cupy)
        with hook:
            self.sort()
        return int(hook.peak)
