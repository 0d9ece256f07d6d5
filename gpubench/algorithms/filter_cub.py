"""Stream filtering by CUB."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms._record_filter import RecordFilter
from gpubench.core.contracts import Form


class FilterCub(RecordFilter):
    """The library that a CUDA programmer would reach for."""

    name = "filter-cub"
    summary = "CUB's device-wide select"
    source = "NVIDIA CUB, cub::DeviceSelect::If and Flagged"
    forms: ClassVar[Mapping[str, Form]] = {
        "select": Form("cub::DeviceSelect; order kept", requires=frozenset({"cuda"}))
    }

    def prepare(self) -> None:
        super().prepare()
        device: Any = self.device  # a CUDA device: the form requires one
        self._select = device.library("cub_select.cu").select_records
        self._kind = self._words, int(self._by_predicate)
        self._end = self.size, ctypes.c_void_p(device.stream.handle)
        scratch = ctypes.c_size_t()
        nothing = (ctypes.c_void_p(),) * 4
        _check(self._select(ctypes.c_void_p(), ctypes.byref(scratch), *self._kind, *nothing,
                            *self._end))  # fmt: skip
        self._scratch = self.allocate(max(1, scratch.value), "uint8")
        self._scratch_bytes = ctypes.c_size_t(self._scratch.nbytes)

    def _filter(self, records: Any, keep: Any) -> None:
        scratch, *arrays = (
            ctypes.c_void_p(array.data.ptr)
            for array in (self._scratch, records, keep, self._kept, self._count)
        )
        _check(
            self._select(
                scratch, ctypes.byref(self._scratch_bytes), *self._kind, *arrays, *self._end
            )
        )

    def traffic_bytes(self) -> int:
        return self._single_pass_bytes()


def _check(error: int) -> None:
    if error != 0:
        raise RuntimeError(f"CUB's select failed with CUDA error {error}")
