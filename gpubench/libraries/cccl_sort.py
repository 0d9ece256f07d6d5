"""CUB's key sorts of the CCCL that pip installs, beside those of the CUDA toolkit."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from gpubench.base import install
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.libraries._library import name_with_version
from gpubench.libraries.cub_sort import CUDA, TYPES, VALUES, CubSort, cub_version


class CcclSort(CubSort):
    """CUB of cuda-cccl's headers; with `toolkit` 1, that of the CUDA toolkit, as in `cub-sort`."""

    name = "cccl-sort"
    summary = "CUB's radix sort and both its sorts of segments, of the newest CCCL installed"
    source = "NVIDIA CUB, cub::DeviceRadixSort, DeviceSegmentedSort, DeviceSegmentedRadixSort"
    forms: ClassVar[Mapping[str, Form]] = {
        "radix": Form("stable; DeviceRadixSort on the bits that matter", CUDA),
        "segmented": Form("stable; DeviceSegmentedSort", CUDA, capturable=False),
        "segmented-radix": Form("stable; DeviceSegmentedRadixSort on these bits", CUDA),
    }
    segment_forms = ("segmented", "segmented-radix")  # type: ignore[assignment]  # CubSort has one
    defaults: ClassVar[Mapping[str, int]] = {"toolkit": 0}
    variants = ({"toolkit": 1},)

    def prepare(self) -> None:
        device: Any = self.device
        self._headers = "" if self.parameters["toolkit"] else _headers()
        self.library = name_with_version("cuda-cccl") if self._headers else None
        self._library = device.library(
            "cccl_key_sort.cu",
            headers=self._headers,
            SORT_KEY=TYPES.get(self.key_type, f"{self.key_type}_t"),
            SORT_VALUE=VALUES[self.value_bytes],
            SORT_PAIRS=int(self.value_bytes > 0),
            SORT_BY=list(self.forms).index(self.form),
        )
        self._stream = ctypes.c_void_p(device.stream.handle)
        self.allocate_answer()
        self._scratch_bytes = ctypes.c_size_t()
        self._call(ctypes.c_void_p(), (ctypes.c_void_p(),) * 4, ctypes.c_void_p())
        self._scratch = self.allocate(max(1, self._scratch_bytes.value), "uint8")

    def outcome(self) -> dict[str, int | float | str]:
        return super().outcome() | cub_version(self.device, self._headers)


def _headers() -> str:
    """Return the folder of cuda-cccl's headers; raise NotSupported without them."""
    try:
        spec = find_spec("cuda.cccl")
    except ModuleNotFoundError:
        spec = None
    for folder in (spec and spec.submodule_search_locations) or ():
        if (found := Path(folder, "headers", "include")).is_dir():
            return str(found)
    raise NotSupported(f"cuda-cccl is not installed: {install.hint('rivals-cuda13')}")
