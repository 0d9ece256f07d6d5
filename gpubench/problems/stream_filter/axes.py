"""The input axes of streams of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpubench.base.errors import UserError
from gpubench.core.recipe import Recipe, Words, among, axis, whole

MAX_RECORDS = 2**31 - 1
MAX_RECORD_BYTES = 256
RECORD_BYTES = (4, 16)  # sizes used in horn2005; any multiple of 4 is valid
NULLS = ("infinity", "predicate")


@dataclass(frozen=True)
class Records(Recipe):
    """A stream of records, some of them null; see RecordSet."""

    kind, size_axis, named_by = "records", "records", "records"
    varied: ClassVar = {"kept": [0.1, 0.9]}
    fixed: ClassVar = {"record_bytes": 4, "nulls": "infinity"}

    records: int = axis(
        Words("Records", "records", "{} records", "size", is_size=True), whole(1, MAX_RECORDS)
    )
    kept: float = axis(
        Words(
            "Share kept", "share of the records kept", "a share of {} kept", "linear", is_size=True
        ),
        {"type": "number", "minimum": 0, "maximum": 1},
        0.5,
    )
    record_bytes: int = axis(
        Words("Bytes per record", "bytes per record", "records of {} bytes"),
        {"type": "integer", "minimum": 4, "maximum": MAX_RECORD_BYTES, "multipleOf": 4},
        4,
    )
    nulls: str = axis(
        Words("Nulls by", "how nulls are marked", "nulls by {}"), among(NULLS), "infinity"
    )

    def __post_init__(self) -> None:
        check_records(self.records, self.kept, self.record_bytes, self.nulls)

    @property
    def title(self) -> str:
        """A title with the sizes and the fraction kept."""
        return f"{self.records:,} records of {self.record_bytes} bytes, {self.kept:.0%} kept"

    @property
    def host_bytes(self) -> int:
        """The bytes of records, random numbers, and an answer that is being checked."""
        return self.records * (24 + 5 * self.record_bytes)

    @property
    def device_bytes(self) -> int:
        """The bytes of the input and the output."""
        keep = 4 if self.nulls == "predicate" else 0
        return self.records * (2 * self.record_bytes + keep)


def check_records(records: int, kept: float, record_bytes: int, nulls: str) -> None:
    """Raise UserError for invalid arguments of `make_records`."""
    if not 0 <= records <= MAX_RECORDS:
        raise UserError(f"the number of records must be 0 to {MAX_RECORDS}, not {records}")
    if not 0 <= kept <= 1:
        raise UserError(f"the fraction of the records kept must be 0 to 1, not {kept}")
    if not 4 <= record_bytes <= MAX_RECORD_BYTES or record_bytes % 4:
        raise UserError(f"records have 4 to {MAX_RECORD_BYTES} bytes in words, not {record_bytes}")
    if nulls not in NULLS:
        raise UserError(f"nulls are told by {' or '.join(NULLS)}, not by {nulls!r}")
