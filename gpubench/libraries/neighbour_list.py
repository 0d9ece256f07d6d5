"""`gpubench.NeighbourList` as users call it, for comparison with other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.grid import EPSILON
from gpubench.devices.base import Device
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import LibrarySearch, need
from gpubench.libraries._library_sort import CUDA
from gpubench.libraries._torch import Torch
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.tasks import TASKS, task_of
from gpubench.problems.particles.inputs import ParticleSet

OPENCL = frozenset({"opencl"})


class NeighbourListCall(LibrarySearch):
    """A full call of `NeighbourList`, from the user's array of positions to the result arrays.

    Each variant names a kind of array: NumPy with float64 (as for vesin and SciPy), CuPy or PyTorch
    with float32. `kept` variants have a capacity and reuse the arrays of an earlier result, so a
    graph can capture their launches; the others allocate arrays and wait for the result.
    """

    name = "neighbour-list"
    summary = "gpubench.NeighbourList, called on arrays of NumPy, CuPy or PyTorch"
    source = "docs/use.md; the search is search-counting-sort unless others were faster"
    is_exact = False  # rounds to steps of the box, see `NeighbourList.bound`
    forms: ClassVar[Mapping[str, Form]] = {
        **{
            f"{task}-{kind}": Form(f"{TASKS[task]}, in arrays of {kind}", needs, allocates=True)
            for kind, needs in (("numpy", OPENCL), ("cupy", CUDA), ("torch", CUDA))
            for task in ("count", "list")
        },
        **{
            f"{what}-kept": Form(f"{TASKS[what.split('-')[0]]}, in arrays that are kept", CUDA)
            for what in ("count-cupy", "count-torch", "list-torch")
        },
    }

    def prepare(self) -> None:
        self._kind = self.form.split("-")[1]
        self._on_host = self._kind == "numpy"
        if self._on_host:
            require_own_cpu(self.device)
        if self._kind == "torch":
            self._torch = Torch(self.device)
        if not self._on_host:
            self._cupy: Any = need("cupy", "CuPy", "cuda13")
        # Imported like a third-party library, since this layer must not import NeighbourList.
        self._library: Any = need("gpubench", "gpubench", "cpu")
        self._before, self._pool = self._used(), 0
        self._points: Any = None
        self._found: Any = None
        self._counts: Any = None
        self._out: Any = None
        self._search = self._make()

    def _make(self, **more: Any) -> Any:
        grid = self.grid
        low, size = np.asarray(grid.low), np.asarray(grid.size)
        # Enlarge the box along open axes: positions at a wall, rounded to float32, may be outside.
        corner = np.where(grid.periodic, low, np.minimum(low, low.astype(np.float32)))
        margin = EPSILON * np.maximum(abs(low), abs(low + size))
        edges = np.where(grid.periodic, size, low + size + margin - corner)
        return self._library.NeighbourList(self.cutoff, edges, grid.periodic, low=corner, **more)

    def _used(self) -> int:
        if self._on_host:
            return 0
        used = int(self._cupy.get_default_memory_pool().used_bytes())
        return used + (self._torch.allocated() if self._kind == "torch" else 0)

    def _stream(self) -> AbstractContextManager[Any]:
        """Return a context in which the user's library uses the timed stream."""
        if self._kind == "torch":
            return self._torch.on_stream()  # type: ignore[no-any-return]
        return nullcontext()  # CuPy's current stream is our device's already

    def load(self, inputs: ParticleSet) -> None:
        """Create the user's array and, for `kept`, the output arrays; then search once."""
        xyz = np.ascontiguousarray(inputs.positions[:, :3])
        self._points = xyz.astype(np.float64) if self._on_host else self.device.upload(xyz)
        with self._stream():
            if self._kind == "torch" and self.particles:
                self._points = self._torch.view(self._points)
            self._found = self._counts = self._out = None
            if self.form.endswith("kept"):
                pairs = len(self._make()(self._points))
                self._search = self._make(capacity=pairs)
                first = self._search.count if self.task == "count" else self._search
                self._out = first(self._points)
        self.launch()
        self._pool = max(0, self._used() - self._before)

    def launch(self) -> None:
        """Call `NeighbourList` once."""
        if self._on_host:
            self.device.synchronize()
        with self._stream():
            if self.task == "count":
                self._counts = self._search.count(self._points, self._out)
            else:
                self._found = self._search(self._points, self._out)
                self._arrays()

    def _arrays(self) -> list[Any]:
        """Return the result arrays, of the same kind as the user's array."""
        if self.task == "count":
            return [self._counts]
        return [self._found.counts, self._found.offsets, self._found.neighbours]

    def neighbours(self) -> Neighbours:
        with self._stream():
            return Neighbours(*(self._to_host(array) for array in self._arrays()))

    def _to_host(self, array: Any) -> NDArray[Any]:
        if isinstance(array, np.ndarray):
            return array
        host: NDArray[Any] = array.get() if hasattr(array, "get") else array.cpu().numpy()
        return host

    def poison(self) -> None:
        with self._stream():
            for array in self._arrays():
                array[...] = -1

    @property
    def no_graph(self) -> str | None:
        """The reason why a launch cannot be captured in a CUDA graph, or None if it can."""
        if self._on_host:
            return "it works on the host, which no CUDA graph can hold"
        return super().no_graph

    def peak_bytes(self) -> int | None:
        """Return the peak growth of host memory in a launch; on a GPU, the memory pools' growth."""
        if not self._on_host:
            return self._pool
        self._found = self._counts = None
        self._search = self._make()
        return peak_of(self.launch)

    def outcome(self) -> dict[str, int | float | str]:
        pairs = {"pairs": len(self._found)} if task_of(self.form) == "list" else {}
        return {"method": self._search.chosen, **pairs}


def require_own_cpu(device: Device) -> None:
    """Raise NotSupported for a device on which arrays of NumPy are not searched."""
    from gpubench.devices import opencl  # slow to import

    if (spec := opencl.open_cpu().spec) != device.spec:
        raise NotSupported(f"arrays of NumPy are searched on {spec}")
