"""Test inputs of stream filters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.problem import Sample
from gpubench.problems.stream_filter.axes import NULLS, RECORD_BYTES
from gpubench.problems.stream_filter.inputs import RecordSet, make_records, records_from


def streams() -> list[Case]:
    """Return cases of every pattern, with both record sizes and both kinds of null."""
    return [
        Case(f"{name}, {size} bytes, {nulls}", partial(_stream, pattern, size, nulls))
        for name, pattern in _patterns().items()
        for size in RECORD_BYTES
        for nulls in NULLS
    ] + [
        Case("NaN everywhere", partial(_filled, np.nan, 4)),
        Case("NaN everywhere, 16 bytes", partial(_filled, np.nan, 16)),
        Case("-infinity everywhere", partial(_filled, -np.inf, 4)),
        Case("infinity after the first float", _infinite_tails),
        Case("any keep but 0", _odd_keeps),
        *_wide_and_short(),
    ]


def _wide_and_short() -> list[Case]:
    """Return cases with other record sizes, and with fewer records than the filter's capacity."""
    widths = {"infinity": (2, 3, 12), "predicate": (3, 5, 48)}
    shares, sizes = {"none": 0.0, "half": 0.5, "all": 1.0}, (0, 1, 255, 700, 2047, 2048)
    rng = np.random.default_rng(7)
    cases = [
        Case(f"{name} kept, {words} words, {nulls}",
             partial(_stream, rng.random(900) < share, 4 * words, nulls))
        for nulls in NULLS for words in widths[nulls] for name, share in shares.items()
    ]  # fmt: skip
    return cases + [
        Case(f"{size} records of {words} words, room for {capacity}, {nulls}",
             partial(_short_stream, rng.random(size) < 0.5, words, nulls, capacity))
        for nulls, words, capacity in (("infinity", 1, 2048), ("predicate", 2, 5000),
                                       ("predicate", 4, 2**16))
        for size in sizes
    ]  # fmt: skip


def _patterns() -> dict[str, NDArray[np.bool_]]:
    """Return masks of kept records, by the name of the pattern."""
    n = 1000
    place = np.arange(n)
    edges = (31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 2**16 + 1)
    rng = np.random.default_rng(5)
    return {
        "no records": np.zeros(0, bool),
        "one record": np.ones(1, bool),
        "one null": np.zeros(1, bool),
        "none kept": np.zeros(n, bool),
        "all kept": np.ones(n, bool),
        "only the first": place == 0,
        "only the last": place == n - 1,
        "all but the first": place != 0,
        "all but the last": place != n - 1,
        "alternating": place % 2 == 0,
        "alternating, first null": place % 2 == 1,
        "runs of 7": place // 7 % 2 == 0,
        "runs of 100, first null": place // 100 % 2 == 1,
        "first half": place < n // 2,
        "last half": place >= n // 2,
        "4096 kept of 8192, in blocks of 256": np.arange(8192) // 256 % 2 == 0,
        **{f"{size} records": rng.random(size) < 0.5 for size in edges},
        **{f"{share:.0%} kept": rng.random(5000) < share for share in (0.01, 0.1, 0.9, 0.99)},
    }


def _stream(is_kept: NDArray[np.bool_], record_bytes: int, nulls: str) -> RecordSet:
    return records_from(is_kept, record_bytes, nulls, np.random.default_rng(len(is_kept)))


def _short_stream(is_kept: NDArray[np.bool_], words: int, nulls: str, capacity: int) -> RecordSet:
    return replace(_stream(is_kept, 4 * words, nulls), capacity=capacity)


def _filled(value: float, record_bytes: int) -> RecordSet:
    return RecordSet(np.full((1025, record_bytes // 4), value, np.float32), None, None)


def _infinite_tails() -> RecordSet:
    records = np.full((500, 4), np.inf, np.float32)
    records[::3, 0] = np.arange(167)
    return RecordSet(records, None, None)


def _odd_keeps() -> RecordSet:
    stream = make_records(3000, 1, 16, "predicate", seed=3)
    keep = np.random.default_rng(4).choice(
        np.array([0, 1, -1, 2, 2**31 - 1, -(2**31), 65536], np.int32), 3000
    )
    return replace(stream, keep=keep)


def large_streams() -> list[Case]:
    """Return a case with slightly more than 2^24 records."""
    return [Case("2^24 + 1 records", partial(make_records, 2**24 + 1, 0.5))]


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield streams with every record size and kind of null, in one tile and in several."""
    for record_bytes, nulls in zip(RECORD_BYTES, NULLS[::-1], strict=True):
        yield make_records(300, 0.5, record_bytes, nulls), {}
    yield make_records(2100, 0.9, 4, "infinity"), {}
    for size, kept in ((300, 0), (300, 1), (1, 1), (0, 0.5)):
        yield make_records(size, kept, 16, "infinity"), {}


def blanks(size: int) -> Iterator[RecordSet]:
    """Yield streams with both kinds of null; if short, also with other specialised sizes."""
    keep = np.zeros(size, np.int32)
    for record_bytes in RECORD_BYTES:
        records = np.zeros((size, record_bytes // 4), np.float32)
        yield RecordSet(records, None, None)
        yield RecordSet(records, keep, None)
    for words in (2, 3, 5, 12, 48) if 0 < size < 10_000 else ():
        yield RecordSet(np.zeros((size, words), np.float32), keep, None)
