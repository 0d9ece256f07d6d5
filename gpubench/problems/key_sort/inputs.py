"""Random keys of several types, distributions and orders."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.problems.key_sort.axes import ENTROPIES, Keys, check_keys

FEW = 16  # number of distinct keys in the order `few-distinct`

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
SPECIAL_SHARE = 1 / 64  # expected fraction of float keys that are SPECIAL


@dataclass(frozen=True, eq=False)
class KeySet:
    """Keys to sort.

    keys: shape (n,), of a type in KEY_TYPES. No NaN has its sign bit set.
    values: int32, shape (n,), not negative; or uint32, shape (n, 4); or None.
    bits: the number of low bits of unsigned keys that may be nonzero; None for all.
    starts: the starts of all segments, and the end of the last, int32, (segments + 1,); or None.
    before: the keys in sorted order, before some of them were changed; or None.
    """

    keys: NDArray[Any]
    values: NDArray[Any] | None
    seed: int | None = None
    bits: int | None = None
    starts: NDArray[np.int32] | None = None
    before: NDArray[Any] | None = None

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for these keys."""
        width = 0 if self.values is None else self.values.strides[0]
        return {
            "keys": len(self.keys),
            "value_bytes": width,
            "key_type": self.keys.dtype.name,
            "bits": self.bits,
            "segments": None if self.starts is None else len(self.starts) - 1,
            "longest": None if self.starts is None else int(np.diff(self.starts).max()),
            "was_sorted": self.before is not None,
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 over keys, values and segments, first 16 hex digits."""
        digest = hashlib.sha256(self.keys.data)
        for name, array in (("values", self.values), ("starts", self.starts)):
            if array is not None:
                digest.update(name.encode())
                digest.update(array.data)
        return digest.hexdigest()[:16]


def make_keys(
    keys: int,
    value_bytes: int = 4,
    key_order: str = "uniform",
    seed: int = 0,
    *,
    key_type: str = "uint32",
    entropy: float = 1.0,
    bits: int | None = None,
    moved: float | None = None,
    segment_keys: int | None = None,
) -> KeySet:
    """Draw keys in a given order, with random values, which reveal swaps of equal keys.

    key_order: `uniform`, independent; `sorted` and `reversed`, such keys in ascending or descending
        order; `nearly-sorted`, sorted, then a fraction `moved` of the keys redrawn in place;
        `few-distinct`, independent, from FEW distinct keys.
    entropy: of each bit, one of ENTROPIES; if below 1, a key is the AND of several random words.
    bits: the number of random low bits, for unsigned keys. segment_keys: the mean length of
        segments, whose lengths are distributed like the numbers of uniform particles in cells.
    Floats are normally distributed, with some zeros, -0.0, infinities and NaN among them.
    Raises UserError for invalid arguments.
    """
    check_keys(keys, value_bytes, key_order, key_type, entropy, bits, moved, segment_keys)
    rng = np.random.default_rng(seed)

    def draw(count: int) -> NDArray[Any]:
        if key_type == "float32":
            floats = rng.standard_normal(count, np.float32)
            special = np.flatnonzero(rng.random(count) < SPECIAL_SHARE)
            floats[special] = rng.choice(SPECIAL, len(special))
            return floats
        unsigned = np.uint64 if key_type.endswith("64") else np.uint32
        most = 2 ** (bits or 8 * np.dtype(unsigned).itemsize)
        drawn = rng.integers(0, most, count, unsigned)
        for _ in range(ENTROPIES.index(entropy)):
            drawn &= rng.integers(0, most, count, unsigned)
        return keys_of(drawn, key_type)

    drawn = draw(FEW)[rng.integers(0, FEW, keys)] if key_order == "few-distinct" else draw(keys)
    if key_order in ("sorted", "nearly-sorted", "reversed"):
        drawn = drawn[np.argsort(ordered_bits(drawn), kind="stable")]
    if key_order == "reversed":
        drawn = drawn[::-1].copy()
    before = drawn.copy() if key_order == "nearly-sorted" else None
    if before is not None:
        places = rng.choice(keys, round((moved or 0) * keys), replace=False)
        drawn[places] = draw(len(places))
    values: NDArray[Any] | None = None
    if value_bytes:
        values = rng.integers(0, 2**31, keys * value_bytes // 4, np.int32)
    if value_bytes == 16 and values is not None:
        values = values.view(np.uint32).reshape(keys, 4)
    starts = None
    if segment_keys is not None:
        segments = max(1, keys // segment_keys)
        lengths = np.bincount(rng.integers(0, segments, keys), minlength=segments)
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return KeySet(drawn, values, seed, bits, starts, before)


def ordered_bits(keys: NDArray[Any], equal_zeros: bool = False) -> NDArray[Any]:
    """Return unsigned integers that sort like the keys; -0.0 comes before 0.0, NaN last.

    equal_zeros: whether -0.0 and 0.0 map to one integer instead, and all NaNs to one integer.
    """
    ordered: NDArray[Any] = keys.view(f"u{keys.itemsize}")
    sign = ordered.dtype.type(1 << (8 * keys.itemsize - 1))
    if keys.dtype.kind == "i":
        ordered = ordered ^ sign
    elif keys.dtype.kind == "f":
        if equal_zeros:
            plain = np.where(np.isnan(keys), keys.dtype.type(np.nan), keys + keys.dtype.type(0))
            ordered = plain.view(ordered.dtype)
        ordered = np.where(ordered & sign, ~ordered, ordered ^ sign)
    return ordered


def keys_of(bits: NDArray[Any], key_type: str) -> NDArray[Any]:
    """Return integer keys from their `ordered_bits`."""
    if key_type.startswith("int"):
        bits = bits ^ bits.dtype.type(1 << (8 * bits.itemsize - 1))
    return bits.view(key_type)


def draw(axes: Keys, seed: int) -> KeySet:
    """Draw the keys of a recipe."""
    return make_keys(
        axes.key_count,
        axes.value_bytes,
        axes.key_order,
        seed,
        key_type=axes.key_type,
        entropy=axes.key_entropy,
        bits=axes.key_bits,
        moved=axes.keys_moved,
        segment_keys=axes.segment_keys,
    )
