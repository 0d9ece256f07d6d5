"""Stream filtering by a scan of the null flags and a binary search for each gather."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms._record_filter import BOTH, RecordFilter, both_halves
from gpubench.core.algorithm import Form
from gpubench.primitives.filters import ScanSearchFilter, ScanSearchStepsFilter


class FilterScanSearch(RecordFilter):
    """The filter of horn2005: a multi-pass scan, then binary searches; no scatter."""

    name = "filter-scan-search"
    summary = "multi-pass running count of nulls, then a binary search for each place"
    source = "horn2005, section 36.1; the scan is Hillis and Steele's (1986)"
    forms: ClassVar[Mapping[str, Form]] = {
        "one-pass-per-step": Form("Listing 36-1: a launch for each step of the search"),
        "loop": Form("Listing 36-2: the search and the gather in one kernel"),
        BOTH: both_halves(ScanSearchFilter),
    }
    filters: ClassVar = {
        "one-pass-per-step": ScanSearchStepsFilter, "loop": ScanSearchFilter,
        BOTH: ScanSearchFilter,
    }  # fmt: skip

    def traffic_bytes(self) -> int:
        # Each scan pass reads and writes the counts. The search for each output place reads at
        # least one count per pass and, with a launch per step, reads and writes a guess. Then the
        # kept records are copied.
        passes = self._filter.passes()
        scan = self._flag_bytes() + 4 * self.size + 8 * self.size * (passes["scan_passes"] - 1)
        search = 4 if passes["search_passes"] == 1 else 12 * (passes["search_passes"] - 1) + 8
        return scan + (search + 2 * self.record_bytes) * self._kept_records()
