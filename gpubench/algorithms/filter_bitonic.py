"""Stream filtering by bitonic sort on the null flag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms._record_filter import BOTH, RecordFilter, both_halves
from gpubench.core.algorithm import Form
from gpubench.primitives.filters import BitonicFilter, BitonicStepsFilter


class FilterBitonic(RecordFilter):
    """The baseline of horn2005, Table 36-1: sorts the null records to the end."""

    name = "filter-bitonic"
    summary = "bitonic merge sort on the null flag"
    source = "Buck and Purcell 2004; horn2005, section 36.1, Table 36-1"
    forms: ClassVar[Mapping[str, Form]] = {
        "one-launch-per-step": Form("as in 2004: whole records move in each step of the network; "
                                    "the order is lost", stable=False),
        "sort": Form("sorts (is null, index) by tiles in shared memory; records move once, at "
                     "the end"),
        BOTH: both_halves(BitonicFilter),
    }  # fmt: skip
    filters: ClassVar = {
        "one-launch-per-step": BitonicStepsFilter, "sort": BitonicFilter, BOTH: BitonicFilter,
    }  # fmt: skip

    def traffic_bytes(self) -> int:
        passes = self._filter.passes()["passes"]
        if isinstance(self._filter, BitonicFilter):
            # Keys are written once, read and written by each merge pass, and read once by the copy.
            keys = self._flag_bytes() + (8 + 16 * (passes - 2) + 8) * self.size
            return keys + 2 * self.record_bytes * self._kept_records()
        # Each step reads and writes every record with its flag.
        moved = self.record_bytes + 4 * self._by_predicate
        return (2 * moved * passes + moved) * self.size
