"""CUDA streams: one of PyCUDA for CuPy, and a second one beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FIRST_OF_ALL = -5  # stream priority: CUDA clamps it to its highest


class SideStream:
    """A second stream, preferred to the device's. CuPy launches on it: PyCUDA's have one priority.

    is_open: whether kernels are now queued on it.
    """

    def __init__(self, cupy: Any, queue: Any) -> None:
        self.is_open = self._has_work = False
        self.stream = cupy.cuda.Stream(non_blocking=True, priority=FIRST_OF_ALL)
        self._queue, self._module = queue, cupy.cuda.function.Module
        self._begun, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

    def function(self, code: bytes, name: str) -> Any:
        module = self._module()
        module.load(code)
        return module.get_function(name)

    @contextmanager
    def opened(self) -> Iterator[None]:
        self._begun.record(self._queue)
        self.stream.wait_event(self._begun)
        self.is_open = self._has_work = True
        try:
            yield
        finally:
            self.is_open = False
        self._done.record(self.stream)

    def join(self) -> None:
        if self._has_work:
            self._queue.wait_event(self._done)
        self._has_work = False


class _StreamOf:
    """Adds the CUDA stream protocol to a PyCUDA stream, for CuPy 14 and later."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._stream.handle


def as_cupy_stream(cupy: Any, stream: Any) -> Any:
    """Wrap a PyCUDA stream for CuPy."""
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_StreamOf(stream))
    return cupy.cuda.ExternalStream(stream.handle)
