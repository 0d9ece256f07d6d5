"""Stream filtering by a running count of the nulls and a search for what to gather."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms._record_filter import RecordFilter
from gpubench.core.contracts import Form

BLOCK = 256


class FilterScanSearch(RecordFilter):
    """The filter of the chapter: multi-pass scan, then binary search, without any scatter."""

    name = "filter-scan-search"
    summary = "multi-pass running count of nulls, then a binary search for each place"
    source = "horn2005, section 36.1; the scan is Hillis and Steele's (1986)"
    forms: ClassVar[Mapping[str, Form]] = {
        "one-pass-per-step": Form("Listing 36-1: a launch for each step of the search"),
        "loop": Form("Listing 36-2: the search and the gather in one kernel"),
    }

    def prepare(self) -> None:
        super().prepare()
        device, records, form = self.device, self.size, self.form
        # The nulls up to and with each record, before and after a pass of the scan.
        self._nulls = [self.allocate(records, "int32") for _ in range(2)]
        self._reaches = [1 << bit for bit in range(1, (records - 1).bit_length())]
        self._loops = form == "loop"
        first_guess = 1 << (max(1, records).bit_length() - 1)
        self._steps = [first_guess >> bit for bit in range(1, first_guess.bit_length())]
        self._guesses = self.allocate(0 if self._loops else records, "int32")
        self._blocks = device.blocks(records, BLOCK)
        self._start_scan, self._scan_step, self._search_step, self._gather, self._search_loop = (
            device.kernel("filter_scan_search.cu", kernel, BLOCK=BLOCK, **self._constants)
            for kernel in ("start_scan", "scan_step", "search_step", "gather", "search_loop")
        )

    def _filter(self, records: Any, keep: Any) -> None:
        n, grid = self.size, (self._blocks, BLOCK)
        nulls, after = self._nulls
        self._start_scan(*grid, records, keep, nulls, n)
        for reach in self._reaches:
            self._scan_step(*grid, nulls, after, reach, n)
            nulls, after = after, nulls
        if self._loops:
            self._search_loop(*grid, records, keep, nulls, self._kept, self._count, n)
            return
        for step in self._steps:
            is_first = int(step == self._steps[0])
            self._search_step(*grid, records, keep, nulls, self._guesses, step, is_first, n)
        self._gather(*grid, records, nulls, self._guesses, self._kept, self._count, n)

    def outcome(self) -> dict[str, int | float | str]:
        search = 1 if self._loops else len(self._steps) + 1
        return {"scan_passes": 1 + len(self._reaches), "search_passes": search}

    def traffic_bytes(self) -> int:
        # Each pass of the scan reads and writes a count; the search of a place that is filled
        # reads at least one count a pass, and with a pass for each step its guess, read and
        # written; then the records move.
        scan = self._flag_bytes() + 4 * self.size + 8 * self.size * len(self._reaches)
        search = 4 if self._loops else 12 * len(self._steps) + 8
        return scan + (search + 2 * self.record_bytes) * self._kept_records()
