"""Stream filtering with aggregated atomics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms._record_filter import RecordFilter
from gpubench.core.contracts import Form

BLOCK = 256
ITEMS: Mapping[int, int] = {4: 8, 16: 4}  # records a thread, by the bytes of a record


class FilterAtomic(RecordFilter):
    """The running-sum register that the chapter's conclusion wishes for: one atomic counter."""

    name = "filter-atomic"
    summary = "each block takes its places in the output with one atomic addition"
    source = "aggregated atomics; horn2005 asks hardware for such a counter in its conclusion"
    forms: ClassVar[Mapping[str, Form]] = {
        "aggregated": Form("one atomic addition a block; the order is lost", stable=False)
    }

    def prepare(self) -> None:
        super().prepare()
        device, records, record_bytes = self.device, self.size, self.record_bytes
        items = ITEMS[record_bytes]
        self._blocks = device.blocks(records, BLOCK * items)
        self._kernel = device.kernel(
            "filter_atomic.cu", "filter_atomic", BLOCK=BLOCK, ITEMS=items, **self._constants
        )

    def _filter(self, records: Any, keep: Any) -> None:
        self.device.fill(self._count, 0x00)
        self._kernel(self._blocks, BLOCK, records, keep, self._kept, self._count, self.size)

    def traffic_bytes(self) -> int:
        return self._single_pass_bytes()
