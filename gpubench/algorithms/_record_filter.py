"""What the stream filters share: where they write, and how their kernels see records."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from gpubench.core.answers import Compacted
from gpubench.core.contracts import StreamFilter
from gpubench.core.errors import NotSupported


class RecordFilter(StreamFilter):
    """A filter of records of 4 or 16 bytes.

    constants: what kernels/common/records.h is compiled with.
    """

    def prepare(self) -> None:
        records, record_bytes, nulls = self.size, self.record_bytes, self.nulls
        if record_bytes not in (4, 16):
            raise NotSupported(f"records of {record_bytes} bytes: {self.name} moves 4 or 16")
        self._by_predicate = {"infinity": False, "predicate": True}[nulls]
        self._words = record_bytes // 4
        self._kept = self.allocate((records, self._words), "float32")
        self._count = self.allocate(1, "int32")
        self._constants = {"WORDS": self._words, "PREDICATE": int(self._by_predicate)}

    def filter(self, records: Any, keep: Any) -> None:
        # Without a predicate the kernels do not read `keep`, but every argument is an array.
        self._filter(records, keep if self._by_predicate else records)

    @abstractmethod
    def _filter(self, records: Any, keep: Any) -> None:
        """Queue the launches; `keep` is any array where there is no predicate."""

    @property
    def answer(self) -> Compacted:
        return Compacted(self._kept, self._count)

    def _kept_records(self) -> int:
        """Return how many records the last launch kept."""
        return int(self.device.download(self._count)[0])

    def _flag_bytes(self) -> int:
        """Return the bytes of what says whether each record is null."""
        return self.size * (4 if self._by_predicate else self.record_bytes)

    def _single_pass_bytes(self) -> int:
        """Return the bytes of reading every record once and writing those that are kept."""
        records = self.size + self._kept_records()
        return records * self.record_bytes + self._by_predicate * 4 * self.size
