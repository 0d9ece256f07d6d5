"""Where two measured curves cross, and how certain that is.

Knows nothing of studies: numbers in, numbers out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

FIRST, SECOND, NEITHER = -1, 1, 0  # which of two is faster; NEITHER: inconclusive


class Ratio(NamedTuple):
    """The ratio of two times, with the interval that their own intervals allow."""

    value: float
    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Whether the interval leaves inconclusive on which side of 1 it lies."""
        return self.low <= 1 <= self.high


class Timed(NamedTuple):
    """A median with the ends of its 95 % interval, in any unit of time."""

    median: float
    low: float
    high: float

    def over(self, other: Timed) -> Ratio:
        """Divide by another that was measured independently.

        Half-widths of the intervals, as logarithms, add up as their squares do.
        """
        if not (self.low > 0 and other.low > 0):
            return Ratio(self.median / other.median if other.median else math.inf, 0.0, math.inf)
        down = math.hypot(math.log(self.median / self.low), math.log(other.high / other.median))
        up = math.hypot(math.log(self.high / self.median), math.log(other.median / other.low))
        value = self.median / other.median
        return Ratio(value, value * math.exp(-down), value * math.exp(up))


class Crossing(NamedTuple):
    """Where two curves meet, so that the other one is below from there on.

    at: where they are equal. low, high: between which it is inconclusive which is below; None
    where that goes on to the first or last place measured.
    faster_before: FIRST or SECOND.
    """

    at: float
    low: float | None
    high: float | None
    faster_before: int


def crossings(places: Sequence[float], ratios: Sequence[Ratio]) -> list[Crossing]:
    """Return where two curves cross, from the ratios of the first to the second, places ascending.

    Between two places the logarithm of the ratio, and of either end of its interval, is a line.
    A crossing lies where that of the ratio is 0; it is inconclusive where 0 lies between
    those of the ends.
    """
    curves = [
        [math.log(getattr(ratio, name)) for ratio in ratios] for name in ("value", "low", "high")
    ]
    zeros, *others = (_zeros(places, curve) for curve in curves)

    def side(place: float) -> int:
        low, high = (float(np.interp(place, places, curve)) for curve in curves[1:])
        return FIRST if high < 0 else SECOND if low > 0 else NEITHER

    breaks = sorted({*places, *zeros, *itertools.chain(*others)})
    stretches = [(begin, end, side((begin + end) / 2)) for begin, end in pairwise(breaks)]
    told = []  # from where to where which of them is faster
    for which, group in groupby(stretches, lambda stretch: stretch[2]):
        members = list(group)
        if which != NEITHER:
            told.append((members[0][0], members[-1][1], which))
    # Beyond an open end the medians alone say which is faster.
    if told and sum(zero < told[0][0] for zero in zeros) % 2:
        told.insert(0, (-math.inf, -math.inf, -told[0][2]))
    if told and sum(zero > told[-1][1] for zero in zeros) % 2:
        told.append((math.inf, math.inf, -told[-1][2]))
    found = []
    for (_, low, before), (high, _, after) in pairwise(told):
        if before != after:
            inside = [zero for zero in zeros if low <= zero <= high] or [low]
            ends = [end if math.isfinite(end) else None for end in (low, high)]
            found.append(Crossing(inside[len(inside) // 2], ends[0], ends[1], before))
    return found


def _zeros(places: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return where a line from place to place is 0, ascending."""
    points = list(zip(places, values, strict=True))
    found = [x for x, y in points if y == 0]
    found += [
        x0 + (x1 - x0) * (y0 / (y0 - y1)) for (x0, y0), (x1, y1) in pairwise(points) if y0 * y1 < 0
    ]
    return sorted(found)
