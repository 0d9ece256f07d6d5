"""Contract of stream filters: the input and the answer of algorithms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.algorithm import Algorithm
from gpubench.problems.stream_filter.inputs import RecordSet

if TYPE_CHECKING:
    from gpubench.devices.base import Device


@dataclass(frozen=True)
class Compacted:
    """The records that a filter kept, stored without gaps.

    records: float32, shape (at least count[0], words); its first count[0] rows are the kept
        records, bit for bit; the rows after them are undefined.
    count: int32, shape (1,), the number of kept records.
    rest, rest_count: the null records and their count, or None if the form drops them.
    """

    records: Any
    count: Any
    rest: Any = None
    rest_count: Any = None


class StreamFilter(Algorithm):
    """An algorithm that removes the null records of a stream (stream compaction).

    It is constructed for at most `records` records of `record_bytes` bytes, an integer number of
    float32 words. If `nulls` is "infinity", a record is null if its first float is +infinity
    (horn2005); if it is "predicate", a record is null if its entry of `keep` is 0.
    """

    family: ClassVar[str] = "stream-filter"

    records: Any
    keep: Any

    def __init__(
        self,
        device: Device,
        records: int,
        record_bytes: int,
        form: str,
        parameters: Mapping[str, int],
        *,
        nulls: str,
    ) -> None:
        super().__init__(device, form, parameters)
        self.size = records
        self.record_bytes = record_bytes
        self.nulls = nulls
        self.prepare()

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return None as the task, and the kind of answer: ordered or not, one half or both."""
        order = "ordered" if cls.forms[form].stable else "unordered"
        return None, f"{order} halves" if cls.forms[form].halves == 2 else order

    def load(self, inputs: RecordSet) -> None:
        """Upload `records`, float32 (size, words), and `keep`, int32 (size,), which may be None."""
        self.records = self.device.upload(inputs.records)
        self.keep = None if inputs.keep is None else self.device.upload(inputs.keep)

    def launch(self) -> None:
        """Filter the loaded records."""
        self.filter(self.records, self.keep)

    @abstractmethod
    def filter(self, records: Any, keep: Any) -> None:
        """Compact the records that are not null; leave the input unchanged.

        records: float32, shape (size, words).
        keep: int32, shape (size,), 0 for null; or None if `nulls` is "infinity".
        """

    @property
    @abstractmethod
    def answer(self) -> Compacted:
        """The records kept by the last ``filter``; overwritten by the next."""
