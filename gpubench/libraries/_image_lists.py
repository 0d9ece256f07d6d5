"""Base of libraries that list neighbours with images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.host_work import HostWork
from gpubench.devices.base import Device
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version, need
from gpubench.libraries._torch import EXTRA, Torch
from gpubench.problems.images.contract import Images, ImageSearch
from gpubench.problems.images.inputs import SystemSet


class LibraryImages(ImageSearch):
    """A call of a library: on the host in float64, or on a GPU in float32.

    package, module: of a library; extra: what installs it, if any. kind: the kind of arrays: numpy,
    cupy or torch. call: the call as users write it, of `positions`, `cell`, `periodic` and
    `cutoff`. inputs: what is loaded. points: its positions.
    found: the arrays of the library's answer; none if there are no particles.
    """

    package: ClassVar[str] = ""
    module: ClassVar[str] = ""
    extra: ClassVar[str | None] = None
    kind = "torch"
    call: ClassVar[str] = ""
    inputs: SystemSet
    points: Any
    found: tuple[Any, ...]

    def prepare(self) -> None:
        made = Torch if self.device.backend == "cuda" else HostTorch
        self.torch = made(self.device) if self.kind == "torch" else None
        if self.module:
            self._library: Any = need(self.module, self.package, self.extra)
            self.library = name_with_version(self.package)
        self._pool: int | None = None

    def on_stream(self) -> AbstractContextManager[Any]:
        """Return a context in which the library uses the timed stream."""
        return self.torch.on_stream() if self.torch else nullcontext()

    def load(self, inputs: SystemSet) -> None:
        """Create the user's array, do what is not timed, and search once."""
        self.found = ()
        if not self.particles:
            self.inputs = inputs
            return
        self.hold(inputs)
        with self.on_stream():
            self.begin()
        if self.torch:
            self._pool = self.torch.peak_of(self.launch)
        else:
            self.launch()

    def hold(self, inputs: SystemSet) -> None:
        """Create the user's array: on the host in float64."""
        self.inputs, on_gpu = inputs, self.device.backend == "cuda"
        if self.kind == "numpy":
            self.points = inputs.positions.astype(np.float64)
            return
        self._xyz = self.device.upload(inputs.positions) if on_gpu else inputs.positions.copy()
        with self.on_stream():
            self.points = self._xyz
            if self.torch and self.particles:  # no view is of nothing
                self.points = self.torch.view(self._xyz)
            elif self.torch:
                self.points = self.torch.torch.zeros((0, 3), device=self.torch.device)

    def begin(self) -> None:
        """Free what an earlier search keeps, and prepare what serves later positions."""

    def by_default(self) -> tuple[Any, ...]:
        """Search as a call does that names no capacity."""
        return self.search()

    def change(self, inputs: SystemSet) -> None:
        """Take positions and cells of the same number, and keep what was prepared."""
        self.hold(inputs)

    def count(self) -> Any:
        """Return the neighbours of each particle; where the library makes no list for that."""
        raise NotSupported("it counts no neighbours without a list")

    def lengths(self) -> Any:
        """Return the distances of the last search, of which PyTorch can take gradients."""
        raise NotSupported("it returns no distances with a gradient")

    def launch(self) -> None:
        """Search, if there are particles."""
        if self.kind == "numpy":
            self.device.synchronize()
        self.found = ()  # frees the last answer
        if self.particles:
            with self.on_stream():
                self.found = self.search()

    @abstractmethod
    def search(self) -> tuple[Any, ...]:
        """Return the arrays of the library's answer; this is what is timed."""

    @abstractmethod
    def rows(self, *found: NDArray[Any]) -> Images:
        """Return an answer, whose arrays are on the host, as rows."""

    @property
    def answer(self) -> Images:
        none = np.zeros(0, np.int32)
        if not self.particles:
            return Images(np.zeros(1, np.int64), none, none.reshape(0, 3))
        with self.on_stream():
            return self.rows(*map(self._to_host, self.found))

    def _to_host(self, array: Any) -> NDArray[Any]:
        if isinstance(array, np.ndarray):
            return array
        host: NDArray[Any] = array.get() if self.kind == "cupy" else array.cpu().numpy()
        return host

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)

    def poison(self) -> None:
        with self.on_stream():
            for array in self.found:
                array[...] = 0

    def traffic_bytes(self) -> None:
        """Return None: the library determines the traffic."""

    @property
    def no_graph(self) -> str | None:
        """The reason why a launch cannot be captured in a CUDA graph."""
        host = "it works on the host, which no CUDA graph can hold"
        return host if self.kind == "numpy" else super().no_graph

    def peak_bytes(self) -> int | None:
        """Return the peak growth of PyTorch's memory in the first launch, or of the host's."""
        if self.kind != "numpy" or not self.particles:
            return self._pool
        self.found = ()
        self.begin()
        return peak_of(self.launch)


class HostTorch:
    """PyTorch on the host, as `Torch` is on a GPU."""

    def __init__(self, device: Device) -> None:
        self.torch: Any = need("torch", "torch", EXTRA)
        self.device = self.torch.device("cpu")

    def on_stream(self) -> Any:
        """Return a context in which nothing is special."""
        return nullcontext()

    def view(self, array: Any) -> Any:
        """Return a tensor that shares the memory of an array."""
        return self.torch.from_numpy(array)

    def peak_of(self, work: Callable[[], None]) -> None:
        """Call `work`; what PyTorch takes of the host's memory is unknown."""
        work()


def rows_of(i: NDArray[Any], j: NDArray[Any], shifts: NDArray[Any], particles: int) -> Images:
    """Return pairs in any order as rows."""
    order = np.argsort(i, kind="stable")
    counts = np.bincount(i.astype(np.int64), minlength=particles)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    return Images(offsets, j[order].astype(np.int32), shifts[order].astype(np.int32))


class LibraryPairs(LibraryImages):
    """A library that lists pairs: i, j, and shifts, in any order."""

    def rows(self, *found: NDArray[Any]) -> Images:
        i, j, shifts = found
        return rows_of(i, j, shifts, self.particles)


class HostPairs(HostWork, LibraryPairs):
    """Pairs by a library without batches, on the host: `one` is called for each system.

    call: NumPy is `np` in it; it defines `i`, `j` and `shifts`.
    """

    kind = "numpy"
    forms: ClassVar[Mapping[str, Form]] = {"pairs": Form("list pairs and shifts", allocates=True)}

    def prepare(self) -> None:
        super().prepare()
        self._code = compile(self.call, self.name, "exec")

    def begin(self) -> None:
        self._systems = np.split(self.points, self.inputs.offsets[1:-1])

    def change(self, inputs: SystemSet) -> None:
        super().change(inputs)
        HostPairs.begin(self)

    def search(self) -> tuple[Any, ...]:
        found = (
            self.one(k, own) for k, own in enumerate(self._systems) if self._is_given(len(own))
        )
        return tuple(array for one in found for array in one)

    def _is_given(self, particles: Any) -> Any:
        """Return whether a system is given to the library: empty ones are not, except alone."""
        return (particles > 0) | (self.systems == 1)

    def rows(self, *found: NDArray[Any]) -> Images:
        starts = self.inputs.offsets[:-1][self._is_given(np.diff(self.inputs.offsets))]
        lengths = [len(array) for array in found[::3]]
        first = np.repeat(starts, lengths)
        i, j, shifts = (np.concatenate(found[k::3]).astype(np.int64) for k in range(3))
        return super().rows(i + first, j + first, shifts)

    def one(self, system: int, points: NDArray[np.float64]) -> tuple[Any, Any, Any]:
        """Return i, j and shifts of the pairs of a system: those of `call`."""
        names = {"np": np, "positions": points, "cell": self.inputs.vectors[system]}
        names |= {"periodic": self.periodic, "cutoff": self.inputs.cutoff}
        exec(self._code, names)
        return names["i"], names["j"], names["shifts"]
