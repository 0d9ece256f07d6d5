"""Neighbour lists as rows: checks of shape and range, and hashes of rows.

Lists are long, and rows are unordered. For comparison without sorting, each particle has a random
64-bit weight, summed over a row modulo 2^64: the sum does not depend on the order, and different
rows have equal sums with a probability of at most 2^-63.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpubench.base.threads import Result, between
from gpubench.core.arrays import Ints, check_array, check_range, exclusive_sum, first_true

ENTRIES = 2**18  # list entries that a thread checks at a time, to stay in its cache


def check_rows(particles: int, counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
    """Check shapes, types and ranges of a list of neighbours."""
    problem = (
        check_array("counts", counts, (particles,), np.int32)
        or check_range("counts", counts, 0, max(particles, 1))
        or check_array("offsets", offsets, (particles + 1,), np.int64)
    )
    if problem:
        return problem
    sums = exclusive_sum(counts)
    if (i := first_true(offsets != sums)) is not None:
        return f"offsets[{i}] is {offsets[i]}, expected {sums[i]}, the sum of the counts before"
    if problem := check_array("neighbours", neighbours, (int(sums[-1]),), np.int32):
        return problem

    def outside(begin: int, end: int) -> bool:
        listed = neighbours[offsets[begin] : offsets[end]]
        return listed.size > 0 and (listed.min() < 0 or listed.max() >= particles)

    if any(in_parts(outside, offsets)):
        return check_range("neighbours", neighbours, 0, particles)
    return None


def check_no_self(counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
    """Check that no particle is its own neighbour, in rows that passed `check_rows`."""

    def first(begin: int, end: int) -> int | None:
        own = np.repeat(np.arange(begin, end, dtype=np.int32), counts[begin:end])
        k = first_true(own == neighbours[offsets[begin] : offsets[end]])
        return None if k is None else int(own[k])

    found = (particle for particle in in_parts(first, offsets) if particle is not None)
    return next((f"particle {i} is listed as its own neighbour" for i in found), None)


def row_sums(offsets: Ints, neighbours: Ints, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sums of the neighbours' weights, modulo 2^64, uint64, shape (particles,)."""
    sums = np.empty(len(offsets) - 1, np.uint64)

    def add(begin: int, end: int) -> None:
        ends = offsets[begin : end + 1]
        running = np.zeros(ends[-1] - ends[0] + 1, np.uint64)
        np.cumsum(weights[neighbours[ends[0] : ends[-1]]], out=running[1:])
        sums[begin:end] = np.diff(running[ends - ends[0]])

    in_parts(add, offsets)
    return sums


def in_parts(work: Callable[[int, int], Result], offsets: Ints) -> list[Result]:
    """Call `work`, in threads, with the first row and the end row of each part of a list."""
    rows = len(offsets) - 1
    cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], ENTRIES))
    return between(np.unique([0, *cuts, rows]).tolist(), work)
