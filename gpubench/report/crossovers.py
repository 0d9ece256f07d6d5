"""Which neighbour search overtakes which as there are more particles, and where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from gpubench.evidence.crossover import FIRST, NEITHER, SECOND, compare
from gpubench.report.cells import Place, grouped
from gpubench.report.rankings import Race, Searches, find, moved_share


def _fixed(place: Place) -> tuple[tuple[str, Any], ...]:
    same = ("per_cell", "distribution", "order", "destination")
    return *((n, getattr(place, n)) for n in same), ("moved_share", moved_share(place))


def rows(searches: Searches) -> list[dict[str, Any]]:
    """Return where any two algorithms cross along the particles, for the CSV.

    All else on their inputs is the same. A pair that does not cross has one row, which says which
    is faster wherever it can be told.
    """
    found = []
    for task in searches.tasks:
        alike = grouped(searches.by_task[task], lambda race: _fixed(race[0].place))
        for fixed, races in alike.items():
            by_size: dict[int, Race] = {}
            for race in races:
                by_size.setdefault(race[0].place.particles or 0, race)
            named = {cell.subject.algorithm for race in by_size.values() for cell in race}
            names = sorted(named, key=searches.algorithms.index)
            for first, second in itertools.combinations(names, 2):
                found += [
                    {"task": task, **dict(fixed)} | row for row in _pair(by_size, first, second)
                ]
    return found


def _pair(by_size: Mapping[int, Race], first: str, second: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of two algorithms, from the sizes at which both were timed."""
    ratios = {
        size: one.over(other)
        for size, race in sorted(by_size.items())
        if (one := find(race, first)) and (other := find(race, second))
    }
    if len(ratios) < 2:
        return
    compared = compare([math.log2(size) for size in ratios], list(ratios.values()))
    names = {FIRST: first, SECOND: second, NEITHER: None, None: None}
    for crossing in compared.each:
        yield {
            "first": first,
            "second": second,
            "smallest_measured": min(ratios),
            "largest_measured": max(ratios),
            "always_faster": None if crossing else names[compared.faster],
            "faster_below": names[crossing.faster_before] if crossing else None,
            "faster_above": names[crossing.faster_after] if crossing else None,
            "particles": _power(crossing.at) if crossing else None,
            "particles_low": _power(crossing.low) if crossing else None,
            "particles_high": _power(crossing.high) if crossing else None,
        }


def _power(exponent: float | None) -> float | None:
    return None if exponent is None else 2**exponent
