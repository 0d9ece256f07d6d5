"""Stream filtering by CUB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms._record_filter import BOTH, RecordFilter, both_halves
from gpubench.core.algorithm import Form
from gpubench.primitives.filters import CubFilter


class FilterCub(RecordFilter):
    """CUB's DeviceSelect, the usual choice in CUDA."""

    name = "filter-cub"
    summary = "CUB's device-wide select"
    source = "NVIDIA CUB, cub::DeviceSelect::If and Flagged"
    forms: ClassVar[Mapping[str, Form]] = {
        "select": Form("cub::DeviceSelect; order kept", requires=CubFilter.requires),
        BOTH: both_halves(CubFilter),
    }
    filters = dict.fromkeys(forms, CubFilter)
