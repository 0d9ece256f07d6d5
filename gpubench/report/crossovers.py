"""Which neighbour search overtakes which as there are more particles, and where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpubench.evidence.crossover import FIRST, NEITHER, Compared, Crossing, compare
from gpubench.report.cells import Place, grouped
from gpubench.report.rankings import Race, Searches, find, moved_share


@dataclass(frozen=True)
class Pair:
    """Two algorithms over the sizes at which both were timed, all else the same.

    fixed: what is the same. sizes: ascending. compared: along the logarithm of the particles to
    base two.
    """

    task: str
    fixed: Mapping[str, Any]
    first: str
    second: str
    sizes: Sequence[int]
    compared: Compared

    def name(self, side: int) -> str:
        """Return which of the two a side is."""
        return self.first if side == FIRST else self.second

    def names(self, crossing: Crossing) -> tuple[str, str]:
        """Return which is faster before a crossing, and which after it."""
        return self.name(crossing.faster_before), self.name(crossing.faster_after)

    @property
    def always(self) -> str | None:
        """The one that is faster wherever it can be told; None where each is, or neither."""
        if self.compared.crossings or self.compared.faster in (None, NEITHER):
            return None
        return self.name(self.compared.faster or 0)


def _fixed(place: Place) -> tuple[tuple[str, Any], ...]:
    same = ("per_cell", "distribution", "order", "destination")
    return *((n, getattr(place, n)) for n in same), ("moved_share", moved_share(place))


@lru_cache(maxsize=64)  # a page and a CSV tell of the same
def pairs(searches: Searches, task: str) -> list[Pair]:
    """Compare any two algorithms on all inputs of a task that differ in the particles alone."""
    found = []
    alike = grouped(searches.by_task.get(task, []), lambda race: _fixed(race[0].place))
    for fixed, races in alike.items():
        by_size: dict[int, Race] = {}
        for race in races:
            by_size.setdefault(race[0].place.particles or 0, race)
        named = {cell.subject.algorithm for race in by_size.values() for cell in race}
        names = sorted(named, key=searches.algorithms.index)
        for first, second in itertools.combinations(names, 2):
            both = [
                (size, one.over(other))
                for size, race in sorted(by_size.items())
                if (one := find(race, first)) and (other := find(race, second))
            ]
            if len(both) > 1:
                sizes, ratios = zip(*both, strict=True)
                compared = compare([math.log2(size) for size in sizes], ratios)
                found.append(Pair(task, dict(fixed), first, second, sizes, compared))
    return found


def rows(searches: Searches) -> list[dict[str, Any]]:
    """Return where any two algorithms cross along the particles, for the CSV.

    A pair that does not cross has one row, which says which is always faster.
    """
    return [
        {
            "task": pair.task,
            **pair.fixed,
            "first": pair.first,
            "second": pair.second,
            "smallest_measured": pair.sizes[0],
            "largest_measured": pair.sizes[-1],
            "always_faster": pair.always,
            "faster_below": pair.names(crossing)[0] if crossing else None,
            "faster_above": pair.names(crossing)[1] if crossing else None,
            "particles": 2**crossing.at if crossing else None,
            "particles_low": _power(crossing.low) if crossing else None,
            "particles_high": _power(crossing.high) if crossing else None,
        }
        for task in searches.tasks
        for pair in pairs(searches, task)
        for crossing in pair.compared.each
    ]


def _power(exponent: float | None) -> float | None:
    return None if exponent is None else 2**exponent
