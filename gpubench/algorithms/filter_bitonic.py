"""Stream filtering by bitonic sort on the null flag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms._record_filter import RecordFilter
from gpubench.core.contracts import Form
from gpubench.primitives.bitonic_merge import BLOCK, TILE, BitonicMerge


class FilterBitonic(RecordFilter):
    """The rival of the chapter's Table 36-1: nulls sort behind records."""

    name = "filter-bitonic"
    summary = "bitonic merge sort of (is null, index), then a gather"
    source = "Buck and Purcell 2004; horn2005, section 36.1, Table 36-1"
    forms: ClassVar[Mapping[str, Form]] = {
        "sort": Form("sorts keys; records move once, at the end")
    }

    def prepare(self) -> None:
        super().prepare()
        device, records = self.device, self.size
        self._keys = self.allocate(records, "uint64")
        self._merge = BitonicMerge(device, records)
        self._sort_tiles, self._gather = (
            device.kernel("filter_bitonic.cu", kernel, BLOCK=BLOCK, TILE=TILE, **self._constants)
            for kernel in ("sort_tiles", "gather")
        )

    def _filter(self, records: Any, keep: Any) -> None:
        n, blocks = self.size, self.device.blocks
        self._sort_tiles(blocks(n, TILE), BLOCK, records, keep, self._keys, n)
        self._merge.launch(self._keys)
        self._gather(blocks(n, BLOCK), BLOCK, records, self._keys, self._kept, self._count, n)

    def traffic_bytes(self) -> int:
        # Keys written, read and written a pass, read again; then the records that are kept move.
        keys = self._flag_bytes() + (8 + 16 * self._merge.passes + 8) * self.size
        return keys + 2 * self.record_bytes * self._kept_records()
