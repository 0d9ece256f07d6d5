"""The oracle of key sorts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.oracle import Oracle
from gpubench.problems.key_sort.contract import SortedKeys
from gpubench.problems.key_sort.inputs import KeySet, ordered_bits


class KeySortOracle(Oracle):
    """Compare with a stable sort, in which -0.0 equals 0.0 or comes before it."""

    def __init__(self, inputs: KeySet, exact: bool = False) -> None:
        self.keys = inputs.keys.copy()
        self.values = None if inputs.values is None else inputs.values.copy()
        self.segment: NDArray[np.int64] | None = None
        if inputs.starts is not None:
            lengths = np.diff(inputs.starts)
            self.segment = np.repeat(np.arange(len(lengths)), lengths)
        self._sorted: dict[bool, tuple[NDArray[Any], NDArray[Any] | None]] = {}

    def sorted(self, equal_zeros: bool) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return keys and values in stable sorted order."""
        if equal_zeros not in self._sorted:
            bits = ordered_bits(self.keys, equal_zeros)
            segment = self.segment
            order = stable_order(bits) if segment is None else np.lexsort((bits, segment))
            values = None if self.values is None else self.values[order]
            self._sorted[equal_zeros] = self.keys[order], values
        return self._sorted[equal_zeros]

    def check(self, algorithm: Any) -> str | None:
        """Check all keys and values; an unstable sort may permute the values of equal keys."""
        answer, download = self.answer_of(algorithm, SortedKeys), algorithm.download
        keys, values = self.sorted(algorithm.equal_zeros)
        found_values = None if answer.values is None else download(answer.values)
        stable = algorithm.forms[algorithm.form].stable
        return check_sorted_keys(
            keys, values, download(answer.keys), found_values, stable, algorithm.equal_zeros,
            self.segment,
        )  # fmt: skip


def check_sorted_keys(
    keys: NDArray[Any],
    values: NDArray[Any] | None,
    found_keys: NDArray[Any],
    found_values: NDArray[Any] | None,
    stable: bool,
    equal_zeros: bool = False,
    segment: NDArray[np.int64] | None = None,
) -> str | None:
    """Compare sorted keys and values with the result of a stable sort.

    segment: the segment of each position, if keys were sorted in segments.
    """
    if found_keys.shape != keys.shape or found_keys.itemsize != keys.itemsize:
        return f"{found_keys.shape} keys of {found_keys.dtype}, expected {keys.shape} {keys.dtype}"
    found = found_keys.view(keys.dtype)
    ranks = ordered_bits(keys, equal_zeros)
    if len(wrong := np.flatnonzero(ordered_bits(found, equal_zeros) != ranks)):
        at = wrong[0]
        return f"key {at} is {found[at]}, expected {keys[at]}; {len(wrong)} keys differ"
    if values is None or found_values is None:
        return None if values is found_values else "keys have values, or the answer, but not both"
    if found_values.shape != values.shape or found_values.itemsize != values.itemsize:
        return f"{found_values.shape} values, expected {values.shape}"
    values, found_values = _rows(values), _rows(found_values)
    if not stable:
        tied = _tied(ranks, segment)
        places = (ranks[tied],) if segment is None else (ranks[tied], segment[tied])
        values, found_values = values.copy(), found_values.copy()
        for rows in (values, found_values):
            rows[tied] = rows[tied][np.lexsort((*rows[tied].T, *places))]
    if len(wrong := np.flatnonzero((found_values != values).any(axis=1))):
        at = wrong[0]
        return (
            f"value {at}, of key {keys[at]}, is {_shown(found_values[at])}, expected"
            f" {_shown(values[at])}; {len(wrong)} values differ"
        )
    return None


def _tied(ranks: NDArray[Any], segment: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the positions of sorted keys equal to a neighbouring key in their segment."""
    same = ranks[1:] == ranks[:-1]
    if segment is not None:
        same &= segment[1:] == segment[:-1]
    return np.flatnonzero(np.append(False, same) | np.append(same, False))


def stable_order(bits: NDArray[Any]) -> NDArray[np.integer[Any]]:
    """Return the stable argsort of unsigned integers.

    32-bit keys are sorted as 64-bit (key, index) words, which takes NumPy half the time of a stable
    argsort of 32-bit keys.
    """
    if bits.itemsize != 4 or len(bits) >= 2**32:
        return np.argsort(bits, kind="stable")
    packed = bits.astype(np.uint64) << np.uint64(32)
    packed |= np.arange(len(bits), dtype=np.uint64)
    packed.sort()
    return packed.astype(np.uint32)


def _rows(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return values as rows of 32-bit words."""
    return values.view(np.uint32).reshape(
        len(values), math.prod(values.shape[1:]) * values.itemsize // 4
    )


def _shown(row: NDArray[np.uint32]) -> Any:
    return int(row[0]) if len(row) == 1 else row.tolist()
