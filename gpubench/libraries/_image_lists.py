"""Base of libraries that list neighbours with images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.algorithm import Form
from gpubench.core.host_work import HostWork
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import name_with_version, need
from gpubench.libraries._torch import Torch
from gpubench.problems.images.contract import Images, ImageSearch
from gpubench.problems.images.inputs import SystemSet


class LibraryImages(ImageSearch):
    """A call of a library: on the host in float64, or on a GPU in float32.

    package, module: of a library; extra: what installs it, if any. kind: the kind of arrays: numpy,
    cupy or torch. inputs: what is loaded. points: its positions.
    found: the arrays of the library's answer; none if there are no particles.
    """

    package: ClassVar[str] = ""
    module: ClassVar[str] = ""
    extra: ClassVar[str | None] = None
    kind = "torch"
    inputs: SystemSet
    points: Any
    found: tuple[Any, ...]

    def prepare(self) -> None:
        self.torch = Torch(self.device) if self.kind == "torch" else None
        if self.module:
            self._library: Any = need(self.module, self.package, self.extra)
            self.library = name_with_version(self.package)
        self._pool: int | None = None

    def on_stream(self) -> AbstractContextManager[Any]:
        """Return a context in which the library uses the timed stream."""
        return self.torch.on_stream() if self.torch else nullcontext()

    def load(self, inputs: SystemSet) -> None:
        """Create the user's array, do what is not timed, and search once."""
        self.inputs, self.found = inputs, ()
        if not self.particles:
            return
        if self.kind == "numpy":
            self.points = inputs.positions.astype(np.float64)
        else:
            self._xyz = self.points = self.device.upload(inputs.positions)
        with self.on_stream():
            self.points = self.torch.view(self.points) if self.torch else self.points
            self.begin()
        if self.torch:
            self._pool = self.torch.peak_of(self.launch)
        else:
            self.launch()

    def begin(self) -> None:
        """Free what an earlier search keeps, and prepare what serves later positions."""

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
    """Pairs by a library without batches, on the host: `one` is called for each system."""

    kind = "numpy"
    forms: ClassVar[Mapping[str, Form]] = {"pairs": Form("list pairs and shifts", allocates=True)}

    def begin(self) -> None:
        self._systems = np.split(self.points, self.inputs.offsets[1:-1])

    def search(self) -> tuple[Any, ...]:
        found = (self.one(k, own) for k, own in enumerate(self._systems) if len(own))
        return tuple(array for one in found for array in one)

    def rows(self, *found: NDArray[Any]) -> Images:
        starts = self.inputs.offsets[:-1][np.diff(self.inputs.offsets) > 0]
        lengths = [len(array) for array in found[::3]]
        first = np.repeat(starts, lengths)
        i, j, shifts = (np.concatenate(found[k::3]).astype(np.int64) for k in range(3))
        return super().rows(i + first, j + first, shifts)

    @abstractmethod
    def one(self, system: int, points: NDArray[np.float64]) -> tuple[Any, Any, Any]:
        """Return i, j and shifts of the pairs of a system."""
