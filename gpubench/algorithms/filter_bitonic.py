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
    summary = "bitonic merge sort on the null flag"
    source = "Buck and Purcell 2004; horn2005, section 36.1, Table 36-1"
    forms: ClassVar[Mapping[str, Form]] = {
        "one-launch-per-step": Form("as in 2004: whole records move in each step of the network; "
                                    "the order is lost", stable=False),
        "sort": Form("sorts (is null, index) by tiles in shared memory; records move once, at "
                     "the end"),
    }  # fmt: skip

    def prepare(self) -> None:
        super().prepare()
        if self.form == "sort":
            self._prepare_sort()
        else:
            self._prepare_steps()

    def _prepare_sort(self) -> None:
        device, records = self.device, self.size
        self._keys = self.allocate(records, "uint64")
        self._merge = BitonicMerge(device, records)
        self._sort_tiles, self._gather = (
            device.kernel("filter_bitonic.cu", kernel, BLOCK=BLOCK, TILE=TILE, **self._constants)
            for kernel in ("sort_tiles", "gather")
        )

    def _prepare_steps(self) -> None:
        stages = max(1, (self.size - 1).bit_length())
        self._masks = [
            mask
            for stage in range(1, stages + 1)
            for mask in ((1 << stage) - 1, *(1 << bit for bit in reversed(range(stage - 1))))
        ]
        flags = self.size if self._by_predicate else 0
        self._between = self.allocate((self.size, self._words), "float32")
        self._flags = [self.allocate(flags, "int32") for _ in range(2)]
        self._compare, self._count_records = (
            self.device.kernel("filter_bitonic_steps.cu", kernel, BLOCK=BLOCK, **self._constants)
            for kernel in ("compare_step", "count_records")
        )

    def _filter(self, records: Any, keep: Any) -> None:
        if self.form == "sort":
            self._sort(records, keep)
        else:
            self._step_by_step(records, keep)

    def _sort(self, records: Any, keep: Any) -> None:
        n, blocks = self.size, self.device.blocks
        self._sort_tiles(blocks(n, TILE), BLOCK, records, keep, self._keys, n)
        self._merge.launch(self._keys)
        self._gather(blocks(n, BLOCK), BLOCK, records, self._keys, self._kept, self._count, n)

    def _step_by_step(self, records: Any, keep: Any) -> None:
        n, blocks = self.size, self.device.blocks(self.size, BLOCK)
        targets = [(self._between, self._flags[0]), (self._kept, self._flags[1])]
        source = records, keep
        # The last step writes to where the answer is.
        for left, mask in zip(reversed(range(len(self._masks))), self._masks, strict=True):
            target = targets[left % 2 == 0]
            self._compare(blocks, BLOCK, *source, *target, mask, n)
            source = target
        self._count_records(blocks, BLOCK, *source, self._count, n)

    def outcome(self) -> dict[str, int | float | str]:
        return {"passes": self._merge.passes + 2 if self.form == "sort" else len(self._masks)}

    def traffic_bytes(self) -> int:
        if self.form == "sort":
            # Keys written, read and written a pass, read again; then what is kept moves.
            keys = self._flag_bytes() + (8 + 16 * self._merge.passes + 8) * self.size
            return keys + 2 * self.record_bytes * self._kept_records()
        # Each step reads and writes every record, and the flags that travel with it.
        moved = self.record_bytes + 4 * self._by_predicate
        return (2 * moved * len(self._masks) + moved) * self.size
