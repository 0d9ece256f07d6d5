"""CUB's and Thrust's key sorts."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.problems.key_sort.contract import KeySort

CUDA = frozenset({"cuda"})
TYPES = {"float32": "float"}  # C types; for integers, the key type with _t appended
VALUES = {0: "char", 4: "int", 16: "uint4"}


class CubSort(KeySort):
    """CUB's device algorithms, called through a shared library compiled with nvcc."""

    name = "cub-sort"
    summary = "CUB's radix sort, its sort of segments, and Thrust's sort"
    source = "NVIDIA CUB, cub::DeviceRadixSort, cub::DeviceSegmentedSort; Thrust"
    forms: ClassVar[Mapping[str, Form]] = {
        "radix": Form("stable; DeviceRadixSort on the bits that matter", CUDA),
        "segmented": Form("stable; DeviceSegmentedSort", CUDA, capturable=False),
        "thrust": Form("stable; a copy, sorted in place by thrust::stable_sort", CUDA,
                       allocates=True),
    }  # fmt: skip
    segment_forms = ("segmented",)
    equal_zeros = True

    def prepare(self) -> None:
        device: Any = self.device
        self._library = device.library(
            "cub_key_sort.cu",
            SORT_KEY=TYPES.get(self.key_type, f"{self.key_type}_t"),
            SORT_VALUE=VALUES[self.value_bytes],
            SORT_PAIRS=int(self.value_bytes > 0),
            SORT_BY=list(self.forms).index(self.form),
        )
        self._stream = ctypes.c_void_p(device.stream.handle)
        self.allocate_answer()
        self._scratch_bytes = ctypes.c_size_t()
        nothing = (ctypes.c_void_p(),) * 4
        self._call(ctypes.c_void_p(), nothing, ctypes.c_void_p())
        self._scratch = self.allocate(max(1, self._scratch_bytes.value), "uint8")

    def _call(self, scratch: Any, arrays: Any, starts: Any) -> None:
        error = self._library.sort_keys(
            scratch, ctypes.byref(self._scratch_bytes), *arrays, self.size, self.bits, starts,
            self.segments or 0, self._stream,
        )  # fmt: skip
        if error != 0:
            raise RuntimeError(f"the sort failed with CUDA error {error}")

    def launch(self) -> None:
        """Sort the loaded keys."""
        arrays = (self.keys, self.sorted_keys, self.values, self.sorted_values)
        self._call(_address(self._scratch), map(_address, arrays), _address(self.starts))

    def outcome(self) -> dict[str, int | float | str]:
        return super().outcome() | cub_version(self.device)


def cub_version(device: Any, headers: str = "") -> dict[str, str]:
    """Return the version of CUB in a folder of headers, or of the CUDA toolkit's."""
    number = device.library("cub_version.cu", headers=headers).cub_version()
    return {"cub": f"{number // 100_000}.{number // 100 % 1000}.{number % 100}"}


def _address(array: Any) -> ctypes.c_void_p:
    """Return the address of an array; NULL for None."""
    return ctypes.c_void_p() if array is None else ctypes.c_void_p(array.data.ptr)
