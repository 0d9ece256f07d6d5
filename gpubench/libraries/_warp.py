"""NVIDIA Warp on our devices: with CUDA in our context and stream, otherwise on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.devices.base import Device
from gpubench.libraries._library import need


class Warp:
    """The Warp device for one of our devices.

    wp: the module. is_host: whether Warp runs on the host, with NumPy arrays and synchronous calls.
    """

    def __init__(self, device: Device) -> None:
        self.wp: Any = need("warp", "warp-lang")
        self.wp.config.log_level = self.wp.LOG_WARNING
        self.wp.init()
        self._ours = device
        self.is_host = device.backend != "cuda"
        self.spec = "cpu" if self.is_host else device.spec
        self.stream = None
        if not self.is_host:
            if not self.wp.is_cuda_available():
                raise NotSupported("Warp finds no NVIDIA driver that it can use: see `nvidia-smi`")
            handle = device.stream.handle  # type: ignore[attr-defined]  # of a CUDADevice
            self.stream = self.wp.Stream(self.spec, cuda_stream=handle)

    def on_stream(self) -> Any:
        """Return a context in which Warp launches on our device's stream."""
        return self.wp.ScopedStream(self.stream, sync_enter=False)

    def empty(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        """Allocate a device array, or a NumPy array on the host."""
        return np.empty(shape, dtype) if self.is_host else self._ours.empty(shape, dtype)

    def upload(self, host: NDArray[Any]) -> Any:
        """Copy a host array to the device, or to a new NumPy array on the host."""
        return host.copy() if self.is_host else self._ours.upload(host)

    def view(self, array: Any, dtype: Any) -> Any:
        """Return a Warp view of one of our arrays, without a copy; the array must outlive it.

        dtype: a Warp type; with a vector type, each row of the array is one item.
        """
        pointer = array.ctypes.data if self.is_host else array.data.ptr
        shape = array.shape[: array.ndim - len(getattr(dtype, "_shape_", ()))]
        return self.wp.array(
            ptr=pointer if array.size else None, shape=shape, dtype=dtype, device=self.spec
        )

    def download(self, array: Any) -> NDArray[Any]:
        """Copy one of our arrays to the host."""
        return array if isinstance(array, np.ndarray) else self._ours.download(array)

    def pool_bytes(self) -> int:
        """Return the bytes in use in Warp's memory pool on the device; 0 on the host."""
        if self.is_host:
            return 0
        self._ours.synchronize()
        return int(self.wp.get_mempool_used_mem_current(self.spec))
