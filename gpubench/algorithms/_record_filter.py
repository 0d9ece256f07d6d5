"""Base class of the stream filters: each form runs a filter from primitives/filters.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.primitives.filters import ChainedFilter, Stream
from gpubench.problems.stream_filter.contract import Compacted, StreamFilter
from gpubench.problems.stream_filter.inputs import RecordSet

BOTH = "both-halves"


def both_halves(how: type[ChainedFilter]) -> Form:
    """Return a form that also outputs the null records, in order if the filter is stable."""
    order = "both in order (a stable partition)" if how.stable else "orders are lost"
    return Form(
        f"records and nulls, apart; {order}", requires=how.requires, stable=how.stable, halves=2
    )


class RecordFilter(StreamFilter):
    """A stream filter for streams of at most `size` records; each form runs a `ChainedFilter`.

    filters: the subclass of `ChainedFilter` that each form runs.
    """

    filters: ClassVar[Mapping[str, type[ChainedFilter]]]

    def prepare(self) -> None:
        words, both = self.record_bytes // 4, self.forms[self.form].halves == 2
        self._by_predicate = {"infinity": False, "predicate": True}[self.nulls]
        self._filter = self.filters[self.form](
            self.device, self.size, words, by_predicate=self._by_predicate, both=both
        )
        self.workspace_bytes += self._filter.workspace_bytes
        self._kept, self._rest = (
            Stream(self.allocate((size, words), "float32"), self.allocate(1, "int32"))
            for size in (self.size, self.size if both else 0)
        )
        self._loaded: Any = None

    def load(self, inputs: RecordSet) -> None:
        super().load(inputs)
        loaded = len(inputs.records)
        is_full = loaded == self.size
        self._loaded = None if is_full else self.device.upload(np.array([loaded], np.int32))

    def filter(self, records: Any, keep: Any) -> None:
        # Without a predicate `keep` is not read, but the kernels still need an array.
        self._filter.launch(
            records, keep if self._by_predicate else records, self._loaded, self._kept,
            self._rest if self._filter.both else None,
        )  # fmt: skip

    @property
    def answer(self) -> Compacted:
        return Compacted(*self._kept, *(self._rest if self._filter.both else ()))

    def outcome(self) -> dict[str, int | float | str]:
        return dict(self._filter.passes())

    def _kept_records(self) -> int:
        """Return the number of records that the last launch wrote."""
        if self._filter.both:
            return self.size
        return int(self.device.download(self._kept.size)[0])

    def _flag_bytes(self) -> int:
        """Return the bytes that a filter reads to find the null records."""
        return self.size * (4 if self._by_predicate else self.record_bytes)

    def traffic_bytes(self) -> int:
        """Return the bytes moved: each record and flag read once, each kept record written once."""
        records = self.size + self._kept_records()
        return records * self.record_bytes + self._by_predicate * 4 * self.size
