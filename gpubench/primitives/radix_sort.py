"""Radix sort of (key, value) pairs: CUB on CUDA, PyOpenCL's elsewhere."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gpubench.devices.base import Device


class RadixSort:
    """Sort int32 keys in [0, 2^bits) with int32 values, stably.

    Higher bits cost nothing: PyOpenCL's sort looks at two bits a pass, CUB's at up to eight.
    keys, values: the sorted arrays of the last launch, int32, shape (items,).
    """

    keys: Any
    values: Any

    def __init__(self, device: Device, items: int, bits: int) -> None:
        self.form = "cub" if device.backend == "cuda" else "pyopencl"
        backend = _Cub if self.form == "cub" else _PyOpenCL
        self._sort = backend(device, items, bits)
        self.workspace_bytes = self._sort.workspace_bytes

    def launch(self, keys: Any, values: Any) -> None:
        """Queue the sort; the inputs stay as they are."""
        self.keys = self.values = None  # gives PyOpenCL's pool the last answer back
        self.keys, self.values = self._sort.launch(keys, values)


class _Cub:
    """CUB's device radix sort through a compiled library."""

    def __init__(self, device: Any, items: int, bits: int) -> None:
        self._library = device.library("cub_radix_sort.cu")
        scratch = ctypes.c_size_t()
        _check(self._library.radix_sort_scratch(ctypes.byref(scratch), items, bits))
        self._keys, self._values = device.empty(items, np.int32), device.empty(items, np.int32)
        self._scratch = device.empty(max(1, scratch.value), np.uint8)
        self.workspace_bytes = int(self._keys.nbytes + self._values.nbytes + self._scratch.nbytes)
        self._sizes = items, bits, ctypes.c_void_p(device.stream.handle)

    def launch(self, keys: Any, values: Any) -> tuple[Any, Any]:
        arrays = (ctypes.c_void_p(a.data.ptr) for a in (keys, self._keys, values, self._values))
        scratch = ctypes.c_void_p(self._scratch.data.ptr), ctypes.c_size_t(self._scratch.nbytes)
        _check(self._library.radix_sort(*scratch, *arrays, *self._sizes))
        return self._keys, self._values


class _PyOpenCL:
    """PyOpenCL's radix sort; its outputs and scratch come from the device's pool."""

    def __init__(self, device: Any, items: int, bits: int) -> None:
        self._options = {"key_bits": bits, "queue": device.queue, "allocator": device.pool}
        self._sort = device.radix_sort
        # A first run fills the pool and compiles what PyOpenCL compiles late.
        zeros = device.upload(np.zeros(items, np.int32))
        self.launch(zeros, zeros)
        self.workspace_bytes = 16 * items  # two buffers of pairs in turn

    def launch(self, keys: Any, values: Any) -> tuple[Any, Any]:
        (keys, values), _ = self._sort(keys, values, **self._options)
        return keys, values


def _check(error: int) -> None:
    if error != 0:
        raise RuntimeError(f"CUB's radix sort failed with CUDA error {error}")
