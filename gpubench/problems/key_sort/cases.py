"""Test inputs of key sorts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from gpubench.core.case import Case
from gpubench.core.problem import Sample
from gpubench.problems.key_sort.axes import ENTROPIES, KEY_ORDERS, KEY_TYPES, Keys
from gpubench.problems.key_sort.inputs import KeySet, make_keys


def _extremes() -> KeySet:
    """Return the smallest and the largest keys, and keys around the sign bit, with repeats."""
    keys = np.tile(np.array([2**32 - 1, 2**31, 0, 2**31 - 1, 1], np.uint32), 301)
    return KeySet(keys, np.arange(len(keys), dtype=np.int32))


def _types() -> list[Case]:
    """Return cases with all key types, few bits, segments, nearly sorted keys, and low entropy."""
    cases = [
        Case(
            f"{key_type}, {order}, values of {width} bytes",
            partial(make_keys, 3000, width, order, width, key_type=key_type),
        )
        for key_type in KEY_TYPES
        for width, order in ((0, "uniform"), (4, "few-distinct"), (16, "reversed"))
    ]
    cases += [
        Case(
            f"{size} keys of {bits} bits, values of {width} bytes",
            partial(make_keys, size, width, "uniform", bits, bits=bits),
        )
        for bits in (1, 7, 8, 9, 20, 31)
        for size, width in ((33, 0), (2000, 4), (5000, 16))
    ]
    cases += [
        Case(
            f"{size} keys of {key_type} in segments of {mean}, values of {width} bytes",
            partial(make_keys, size, width, order, mean, key_type=key_type, segment_keys=mean),
        )
        for size, mean, order in (
            (1, 1, "uniform"), (500, 1, "few-distinct"), (3000, 30, "uniform"),
            (5000, 900, "few-distinct"), (4000, 4000, "uniform"),
        )
        for width, key_type in ((0, "uint32"), (4, "uint32"), (16, "uint64"))
    ]  # fmt: skip
    cases += [
        Case(
            f"{size} keys of {key_type}, {moved:.0%} moved, values of {width} bytes",
            partial(make_keys, size, width, "nearly-sorted", size, key_type=key_type, moved=moved),
        )
        for size, key_type, width in ((1, "uint32", 4), (700, "float32", 0), (40000, "int64", 4))
        for moved in (0, 0.01, 1)
    ]
    cases += [
        Case(f"entropy {each}", partial(make_keys, 2000, 4, "uniform", entropy=each))
        for each in ENTROPIES[1:]
    ]
    return cases


def keys() -> list[Case]:
    """Return cases of every key order and type, and of sizes around those of blocks and tiles."""
    sizes = (1, 2, 31, 33, 511, 513, 1023, 1024, 1025, 2049, 5000, 50001)
    return [
        Case("extreme keys", _extremes),
        *_types(),
        *(
            Case(
                f"{size} keys, {order}, values of {width} bytes",
                partial(
                    make_keys,
                    size,
                    width,
                    order,
                    size,
                    moved=0.1 if order == "nearly-sorted" else None,
                ),
            )
            for size in sizes
            for order in (KEY_ORDERS if size in (1025, 50001) else ("uniform", "few-distinct"))
            for width in (4, 0)
        ),
    ]


def samples(algorithm: Any, form: str) -> Iterator[Sample]:
    """Yield keys of each type that the algorithm supports, with small chunks."""
    short = {"chunk": 32} if "chunk" in algorithm.defaults else {}
    for size, width, order in (
        (1, 4, "uniform"), (33, 16, "uniform"), (33, 4, "few-distinct"), (130, 0, "uniform"),
        (700, 4, "few-distinct"),
    ):  # fmt: skip
        axes = {"key_order": order, "value_bytes": min(width, max(algorithm.widths))}
        needs = {"segment_keys": 9} if "segment_keys" in algorithm.needs else {}
        recipe = Keys(**{"key_count": size, **axes, **algorithm.needs, **needs})
        yield recipe.make(0), short


def blanks(size: int) -> Iterator[KeySet]:
    """Yield 4- and 8-byte keys, with values of every size, as a whole and in segments."""
    yield make_keys(5000)
    yield make_keys(5000, bits=8)
    yield make_keys(5000, 4, "nearly-sorted", moved=0.1)
    yield make_keys(5000, 0, key_type="uint64")
    yield make_keys(5000, 16, key_type="float32")
    yield make_keys(5000, segment_keys=30)
