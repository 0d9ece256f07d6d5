"""Stream filtering with aggregated atomics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms._record_filter import BOTH, RecordFilter, both_halves
from gpubench.core.algorithm import Form
from gpubench.primitives.filters import AtomicFilter


class FilterAtomic(RecordFilter):
    """One atomic counter: the running-sum register proposed in the conclusion of horn2005."""

    name = "filter-atomic"
    summary = "each block takes its places in the output with one atomic addition"
    source = "aggregated atomics; horn2005 asks hardware for such a counter in its conclusion"
    forms: ClassVar[Mapping[str, Form]] = {
        "aggregated": Form("one atomic addition a block; the order is lost", stable=False),
        BOTH: both_halves(AtomicFilter),
    }
    filters = dict.fromkeys(forms, AtomicFilter)
