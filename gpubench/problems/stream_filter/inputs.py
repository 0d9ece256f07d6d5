"""Random streams of records, some of them null."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.problems.stream_filter.axes import Records, check_records

POSITIVE_INFINITY = np.uint32(0x7F800000)

# Values that sorts and copies often corrupt: negative zero, denormals of both signs, -infinity, and
# quiet and signalling NaNs with payloads.
SPECIAL_BITS = np.array(
    [0x80000000, 0x00000001, 0x807FFFFF, 0xFF800000, 0x7FC00001, 0xFFEDCBA9, 0x7FA12345],
    np.uint32,
)
SPECIAL_SHARE = 1 / 8


@dataclass(frozen=True, eq=False)
class RecordSet:
    """A stream of records, some of which are null.

    records: float32, shape (size, words), any bit patterns.
    keep: int32, shape (size,), 0 for null records; or None if null records are those whose first
        float is +infinity (horn2005). -infinity and NaN are not null.
    capacity: the capacity of filters for this stream; None if it is the number of records.
    """

    records: NDArray[np.float32]
    keep: NDArray[np.int32] | None
    seed: int | None
    capacity: int | None = None

    @property
    def nulls(self) -> str:
        """How null records are marked: `infinity` or `predicate`."""
        return "infinity" if self.keep is None else "predicate"

    @cached_property
    def is_kept(self) -> NDArray[np.bool_]:
        """Which records are not null, bool, shape (size,)."""
        if self.keep is not None:
            return np.not_equal(self.keep, 0)
        return np.not_equal(self.records[:, 0].view(np.uint32), POSITIVE_INFINITY)

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for these records."""
        size, words = self.records.shape
        most = size if self.capacity is None else self.capacity
        return {"records": most, "record_bytes": 4 * words, "nulls": self.nulls}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over word count, kind of null, capacity, records and `keep`, 16 hex digits."""
        capacity = "" if self.capacity is None else f" {self.capacity}"
        digest = hashlib.sha256(f"{self.records.shape[1]} {self.nulls}{capacity}".encode())
        digest.update(np.ascontiguousarray(self.records).data)
        if self.keep is not None:
            digest.update(np.ascontiguousarray(self.keep).data)
        return digest.hexdigest()[:16]


def make_records(
    records: int, kept: float, record_bytes: int = 4, nulls: str = "infinity", seed: int = 0
) -> RecordSet:
    """Draw records of random bits; round(kept * records) of them, at random positions, are kept.

    One word in eight is a special value: negative zero, a denormal, -infinity, or a NaN with a
    payload; also +infinity if nulls are marked by a predicate. Raises UserError for a fraction
    outside 0 to 1 and for other bad arguments.
    """
    check_records(records, kept, record_bytes, nulls)
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng(seed)
    is_kept = np.zeros(records, bool)
    is_kept[rng.choice(records, round(kept * records), replace=False, shuffle=False)] = True
    return records_from(is_kept, record_bytes, nulls, rng, seed)


def records_from(
    is_kept: NDArray[np.bool_],
    record_bytes: int,
    nulls: str,
    rng: np.random.Generator,
    seed: int | None = None,
) -> RecordSet:
    """Draw records like `make_records`, but keep those that the mask `is_kept` selects."""
    bits = rng.integers(0, 2**32, (len(is_kept), record_bytes // 4), np.uint32)
    special = rng.random(bits.shape, np.float32) < SPECIAL_SHARE
    choice = SPECIAL_BITS if nulls == "infinity" else np.append(SPECIAL_BITS, POSITIVE_INFINITY)
    bits[special] = rng.choice(choice, np.count_nonzero(special))
    if nulls == "predicate":
        return RecordSet(bits.view(np.float32), is_kept.astype(np.int32), seed)
    first = bits[:, 0]
    first[first == POSITIVE_INFINITY] = SPECIAL_BITS[0]
    first[~is_kept] = POSITIVE_INFINITY
    return RecordSet(bits.view(np.float32), None, seed)


def draw(axes: Records, seed: int) -> RecordSet:
    """Draw the records of a recipe."""
    return make_records(axes.records, axes.kept, axes.record_bytes, axes.nulls, seed)
