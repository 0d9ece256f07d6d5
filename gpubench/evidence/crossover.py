"""Crossovers of two measured curves, with their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

FIRST, SECOND, NEITHER = -1, 1, 0  # which of two curves is faster; NEITHER: inconclusive


class Ratio(NamedTuple):
    """The ratio of two times, with an interval propagated from the intervals of both."""

    value: float
    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Whether the interval contains 1, so the comparison is inconclusive."""
        return self.low <= 1 <= self.high


class Timed(NamedTuple):
    """A median with the ends of its 95 % interval, in any unit of time."""

    median: float
    low: float
    high: float

    def over(self, other: Timed) -> Ratio:
        """Divide by another time that was measured independently.

        Half-widths of the logarithms' intervals add in quadrature.
        """
        if not (self.low > 0 and other.low > 0):
            return Ratio(self.median / other.median if other.median else math.inf, 0.0, math.inf)
        down = math.hypot(math.log(self.median / self.low), math.log(other.high / other.median))
        up = math.hypot(math.log(self.high / self.median), math.log(other.median / other.low))
        value = self.median / other.median
        return Ratio(value, value * math.exp(-down), value * math.exp(up))


class Crossing(NamedTuple):
    """A crossover: the place at which another of two curves becomes the faster one (lower time).

    at: where they are equal. low, high: ends of the range in which the comparison is inconclusive;
    None for an end that no measured place bounds.
    faster_before: which is faster below the crossover, FIRST or SECOND.
    """

    at: float
    low: float | None
    high: float | None
    faster_before: int


def crossings(places: Sequence[float], ratios: Sequence[Ratio]) -> list[Crossing]:
    """Return the crossovers of two curves, given ratios of first to second, places ascending.

    The logarithms of the ratio and of its interval's ends are interpolated linearly between places.
    A crossover is a zero of the log ratio. Where its interval contains 0, neither is known faster.
    """
    value, low, high = ([math.log(end) for end in each] for each in zip(*ratios, strict=True))
    zeros = _zeros(places, value)
    breaks = sorted({*places, *zeros, *_zeros(places, low), *_zeros(places, high)})
    stretches = list(pairwise(breaks))
    middles = [(begin + end) / 2 for begin, end in stretches]
    is_first, is_second = np.interp(middles, places, high) < 0, np.interp(middles, places, low) > 0
    sides = np.select([is_first, is_second], [FIRST, SECOND], NEITHER)
    told = []  # ranges in which one curve is known to be faster
    for which, group in groupby(zip(stretches, sides.tolist(), strict=True), lambda each: each[1]):
        members = [stretch for stretch, _ in group]
        if which != NEITHER:
            told.append((members[0][0], members[-1][1], which))
    # Where an end is inconclusive, only the medians tell which curve is faster beyond it.
    if told and sum(zero < told[0][0] for zero in zeros) % 2:
        told.insert(0, (-math.inf, -math.inf, -told[0][2]))
    if told and sum(zero > told[-1][1] for zero in zeros) % 2:
        told.append((math.inf, math.inf, -told[-1][2]))
    found = []
    for (_, begin, before), (end, _, after) in pairwise(told):
        if before != after:
            inside = [zero for zero in zeros if begin <= zero <= end] or [begin]
            low_end, high_end = (x if math.isfinite(x) else None for x in (begin, end))
            found.append(Crossing(inside[len(inside) // 2], low_end, high_end, before))
    return found


def _zeros(places: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return the zeros of the linear interpolation between places, ascending."""
    points = list(zip(places, values, strict=True))
    crossed = (pair for pair in pairwise(points) if pair[0][1] * pair[1][1] < 0)
    within = (x0 + (x1 - x0) * (y0 / (y0 - y1)) for (x0, y0), (x1, y1) in crossed)
    return sorted([*within, *(x for x, y in points if y == 0)])
