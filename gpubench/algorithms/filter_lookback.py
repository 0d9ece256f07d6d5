"""Stream filtering in a single pass with decoupled look-back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms._record_filter import RecordFilter
from gpubench.core.contracts import Form

BLOCK = 256
# By the bytes of a record: how many a thread loads at once, and how often it loads.
VECTOR: Mapping[int, int] = {4: 4, 16: 1}
LOADS: Mapping[int, int] = {4: 4, 16: 8}


class FilterLookback(RecordFilter):
    """Count, look back, write: every record is read once."""

    name = "filter-lookback"
    summary = "single pass over tiles; each looks back at how many the tiles before it keep"
    source = "Merrill and Garland 2016, Single-pass parallel prefix scan with decoupled look-back"
    forms: ClassVar[Mapping[str, Form]] = {
        "single-pass": Form("one launch; order kept", requires=frozenset({"cuda"}))
    }

    def prepare(self) -> None:
        super().prepare()
        device, records, record_bytes = self.device, self.size, self.record_bytes
        vector, loads = VECTOR[record_bytes], LOADS[record_bytes]
        self._tiles = device.blocks(records, BLOCK * vector * loads)
        self._status = self.allocate(1 + self._tiles, "uint64")
        device.fill(self._status, 0x00)
        self._kernel = device.kernel(
            "filter_lookback.cu", "filter_lookback", BLOCK=BLOCK, VECTOR=vector, LOADS=loads,
            **self._constants,
        )  # fmt: skip

    def _filter(self, records: Any, keep: Any) -> None:
        self._kernel(
            self._tiles, BLOCK, records, keep, self._kept, self._count, self._status, self.size
        )

    def traffic_bytes(self) -> int:
        return self._single_pass_bytes()
