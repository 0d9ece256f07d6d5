"""Test inputs of pair noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.problem import Sample
from gpubench.problems.pair_noise.inputs import PairSet, make_pairs


def pairs() -> list[Case]:
    """Return cases with extreme ids, steps and keys, and with sizes around the block size."""
    last = 2**31 - 1
    rng = np.random.default_rng(6)
    some, others = rng.integers(0, last + 1, (2, 300))
    ends = np.array([0, 1, 2**16 - 1, 2**16, last - 1, last])
    sizes = (2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)
    clocks = {
        "step 0": (0, 1),
        "step 1": (1, 1),
        "across step 2^31": (2**31 - 3, 1),
        "across step 2^32": (2**32 - 3, 1),
        "past step 2^32": (2**32 + 5, 1),
        "across step 2^33": (2**33 - 3, 1),
        "past step 10^12": (10**12, 1),
        "across step 2^63": (2**63 - 3, 1),
        "up to the last step": (2**64 - 8, 1),
        "key 0": (7, 0),
        "key 2^32 - 1": (7, 2**32 - 1),
        "key 2^32": (7, 2**32),
        "key past 2^32": (7, 2**32 + 1),
        "last key": (7, 2**64 - 1),
        "last step and key": (2**64 - 8, 2**64 - 1),
    }
    return [
        Case("no pairs", partial(make_pairs, 0)),
        Case("one pair", _given_pairs([3], [8])),
        Case("one pair, the other way round", _given_pairs([8], [3])),
        Case("ids 0 and 2^31 - 1", _given_pairs([0, last], [last, 0])),
        Case("a particle with itself", _given_pairs([0, 5, last], [0, 5, last])),
        Case("ids at the ends", _given_pairs(np.repeat(ends, 6), np.tile(ends, 6))),
        Case("one pair again and again", _given_pairs([4] * 300, [9] * 300)),
        Case("every pair both ways", _given_pairs([*some, *others], [*others, *some])),
        Case("one particle with many", _given_pairs([17] * 3000, np.arange(3000))),
        *(Case(f"{n} pairs", partial(make_pairs, n, seed=n)) for n in sizes),
        *(Case(name, _given_pairs(some, others, *clock)) for name, clock in clocks.items()),
        *(Case(f"random, seed {seed}", partial(make_pairs, 1777, seed)) for seed in range(12)),
        Case("2^16 + 1 pairs", partial(make_pairs, 2**16 + 1)),
    ]


def _given_pairs(
    i: ArrayLike, j: ArrayLike, step: int = 123456, key: int = 2**40 + 1
) -> Callable[[], PairSet]:
    return lambda: PairSet(np.asarray(i, np.int32), np.asarray(j, np.int32), step, key, None)


def large_pairs() -> list[Case]:
    """Return a case with more than 2^24 pairs."""
    return [Case("2^24 + 1 pairs", partial(make_pairs, 2**24 + 1))]


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield pairs that fill less than one block, and several blocks."""
    for size in (0, 1, 255, 256, 300, 600):
        yield make_pairs(size, seed=size), {}


def blanks(size: int) -> Iterator[PairSet]:
    """Yield one set of pairs, for which all kernels are compiled."""
    ids = np.zeros(size, np.int32)
    yield PairSet(ids, ids, 0, 0, None)
