"""Radix sort of (key, value) pairs: CUB's on CUDA if nvcc is available, else our own."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gpubench.devices.base import Device
from gpubench.primitives.digit_sorts import OnesweepSort, ThreeKernelSort


class PairRadixSort:
    """Stable sort of int32 keys in [0, 2^bits) with int32 values.

    Keys are compared by their low `bits` bits only, in digits of up to eight bits.
    keys, values: the sorted arrays of the last launch, 32 bits each, shape (items,).
    """

    keys: Any
    values: Any
    _sort: Any

    def __init__(self, device: Device, items: int, bits: int) -> None:
        if device.backend != "cuda":
            self.form, self._sort = "three-kernels", ThreeKernelSort(device, items, "uint32", bits)
        elif hasattr(device, "library"):
            self.form, self._sort = "cub", _Cub(device, items, bits)
        else:
            self.form, self._sort = "onesweep", OnesweepSort(device, items, "uint32", bits)
        self.workspace_bytes = self._sort.workspace_bytes
        self.keys, self.values = self._sort.keys, self._sort.values

    def launch(self, keys: Any, values: Any) -> None:
        """Queue the sort, which leaves the inputs unchanged."""
        self._sort.launch(keys, values)


class _Cub:
    """CUB's device radix sort, from a library compiled by nvcc."""

    def __init__(self, device: Any, items: int, bits: int) -> None:
        self._library = device.library("cub_radix_sort.cu")
        scratch = ctypes.c_size_t()
        _check(self._library.radix_sort_scratch(ctypes.byref(scratch), items, bits))
        self.keys, self.values = device.empty(items, np.int32), device.empty(items, np.int32)
        self._scratch = device.empty(max(1, scratch.value), np.uint8)
        self.workspace_bytes = int(self.keys.nbytes + self.values.nbytes + self._scratch.nbytes)
        self._sizes = items, bits, ctypes.c_void_p(device.stream.handle)

    def launch(self, keys: Any, values: Any) -> None:
        arrays = (ctypes.c_void_p(a.data.ptr) for a in (keys, self.keys, values, self.values))
        scratch = ctypes.c_void_p(self._scratch.data.ptr), ctypes.c_size_t(self._scratch.nbytes)
        _check(self._library.radix_sort(*scratch, *arrays, *self._sizes))


def _check(error: int) -> None:
    if error != 0:
        raise RuntimeError(f"CUB's radix sort failed with CUDA error {error}")
