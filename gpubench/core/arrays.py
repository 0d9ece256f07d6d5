"""Checks of arrays in answers; each `check_...` describes the first error, or returns None."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Ints = NDArray[np.integer[Any]]


def bits(words: NDArray[np.uint32]) -> str:
    """Format words as hexadecimal digits."""
    return " ".join(f"{word:08x}" for word in words)


def check_array(
    name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: DTypeLike
) -> str | None:
    """Check the shape and type of an array."""
    if array.shape != shape:
        return f"{name} has shape {array.shape}, expected {shape}"
    if array.dtype != dtype:
        return f"{name} has type {array.dtype}, expected {np.dtype(dtype)}"
    return None


def check_range(name: str, array: Ints, low: int, high: int) -> str | None:
    """Check that all elements are at least `low` and below `high`."""
    if (k := first_true((array < low) | (array >= high))) is not None:
        return f"{name}[{k}] is {array[k]}, expected {low} to {high - 1}"
    return None


def first_true(wrong: NDArray[np.bool_]) -> int | None:
    """Return the first index that is true, or None."""
    k = int(wrong.argmax()) if wrong.size else 0
    return k if wrong.size and wrong[k] else None


def first_absent(wanted: NDArray[np.int64], present: NDArray[np.int64]) -> int | None:
    """Return the first value in `wanted` missing from `present`, or None; both are sorted."""
    if np.array_equal(wanted, present):
        return None
    place = np.searchsorted(present, wanted)
    absent = np.append(present, -1)[place] != wanted  # values are never negative
    k = first_true(absent)
    return None if k is None else int(wanted[k])


def exclusive_sum(counts: Ints) -> NDArray[np.int64]:
    """Return the exclusive prefix sums and the total, int64, shape (len(counts) + 1,)."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
