"""CUDA streams: one of PyCUDA for CuPy."""

from __future__ import annotations

from typing import Any

FIRST_OF_ALL = -5  # stream priority: CUDA clamps it to its highest


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
