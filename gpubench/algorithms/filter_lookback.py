"""Stream filtering in a single pass with decoupled look-back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms._record_filter import BOTH, RecordFilter, both_halves
from gpubench.core.algorithm import Form
from gpubench.primitives.filters import LookbackFilter


class FilterLookback(RecordFilter):
    """Each tile counts its kept records, finds their place by looking back, and writes them."""

    name = "filter-lookback"
    summary = "single pass over tiles; each looks back at how many the tiles before it keep"
    source = "Merrill and Garland 2016, Single-pass parallel prefix scan with decoupled look-back"
    forms: ClassVar[Mapping[str, Form]] = {
        "single-pass": Form("one launch; order kept", requires=LookbackFilter.requires),
        BOTH: both_halves(LookbackFilter),
    }
    filters = dict.fromkeys(forms, LookbackFilter)
