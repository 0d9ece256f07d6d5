"""`gpubench.NeighbourList` in cells of any shape, as users call it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries._library import need
from gpubench.libraries._library_sort import CUDA
from gpubench.libraries._torch import Torch
from gpubench.problems.images.contract import Images, ImageSearch
from gpubench.problems.images.inputs import SystemSet

OPENCL = frozenset({"opencl"})


class NeighbourListImages(ImageSearch):
    """A full call of `NeighbourList`, from the user's positions to rows with shifts.

    Each variant names a kind of array: NumPy with float64, CuPy or PyTorch with float32.
    """

    name = "neighbour-list-images"
    summary = "gpubench.NeighbourList in any cell, to a list with shifts"
    source = "docs/use.md"
    forms: ClassVar[Mapping[str, Form]] = {
        kind: Form(f"list with shifts, in arrays of {kind}", needs, allocates=True)
        for kind, needs in (("numpy", OPENCL), ("cupy", CUDA), ("torch", CUDA))
    }

    def prepare(self) -> None:
        self._on_host = self.form == "numpy"
        if self._on_host:
            from gpubench.devices import opencl  # slow to import

            if (spec := opencl.open_cpu().spec) != self.device.spec:
                raise NotSupported(f"arrays of NumPy are searched on {spec}")
        if self.form == "torch":
            self._torch = Torch(self.device)
        if not self._on_host:
            need("cupy", "CuPy", "cuda13")
        # Imported like a third-party library, since this layer must not import NeighbourList.
        self._library: Any = need("gpubench", "gpubench", "cpu")
        self._require_batches()

    def _require_batches(self) -> None:
        """Raise NotSupported for many systems, which `_search_all` gives to `batch`."""
        if self.systems != 1:
            raise NotSupported("NeighbourList searches one system")

    def _stream(self) -> AbstractContextManager[Any]:
        """Return a context in which the user's library uses the timed stream."""
        if self.form == "torch":
            return self._torch.on_stream()  # type: ignore[no-any-return]
        return nullcontext()  # CuPy's current stream is our device's already

    def load(self, inputs: SystemSet) -> None:
        """Create the user's array, and search once."""
        self._inputs = inputs
        xyz = inputs.positions
        self._points: Any = xyz.astype(np.float64) if self._on_host else self.device.upload(xyz)
        if self.form == "torch" and self.particles:
            with self._stream():
                self._points = self._torch.view(self._points)
        self._make()
        self.launch()

    def _make(self) -> None:
        inputs = self._inputs
        box = inputs.vectors[0] if self.systems == 1 else None
        self._search = self._library.NeighbourList(inputs.cutoff, box, inputs.periodic)

    def launch(self) -> None:
        """Call `NeighbourList` once, and take the arrays of its answer."""
        if self._on_host:
            self.device.synchronize()
        self._found: tuple[Any, ...] = ()  # frees the last answer
        with self._stream():
            found = self._search_all()
            self._found = found.offsets, found.neighbours, found.shifts

    def _search_all(self) -> Any:
        return self._search(self._points)

    @property
    def answer(self) -> Images:
        return Images(*self._found)

    def download(self, array: Any) -> NDArray[Any]:
        if isinstance(array, np.ndarray):
            return array
        with self._stream():
            host: NDArray[Any] = array.get() if hasattr(array, "get") else array.cpu().numpy()
        return host

    def poison(self) -> None:
        with self._stream():
            for array in self._found:
                array[...] = -1

    @property
    def no_graph(self) -> str | None:
        """The reason why a launch cannot be captured in a CUDA graph, or None if it can."""
        if self._on_host:
            return "it works on the host, which no CUDA graph can hold"
        return super().no_graph

    def peak_bytes(self) -> int | None:
        """Return the peak growth of host memory in a launch; None on a GPU."""
        if not self._on_host:
            return None
        self._found = ()
        self._make()
        return peak_of(self.launch)

    def outcome(self) -> dict[str, int | float | str]:
        return {"method": self._search.chosen}
