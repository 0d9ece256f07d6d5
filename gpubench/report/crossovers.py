"""Which neighbour search overtakes which as there are more particles, and where."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpubench.evidence.crossover import FIRST, NEITHER, Compared, Crossing, compare
from gpubench.report.cells import Place, grouped
from gpubench.report.figures import Axis, Chart, Line, Point, line_chart, panel
from gpubench.report.rankings import Race, Searches, find, moved_share

_MOST_PAIRS = 6  # lines of a panel


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
    def level(self) -> float:
        """Particles per cell."""
        return float(self.fixed["per_cell"])

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


def _on_the_map(crossed: Sequence[Pair]) -> list[Pair]:
    """Return the pairs on inputs of the commonest kind, which differ in the occupancy."""

    def kind(pair: Pair) -> tuple[Any, ...]:
        return tuple(value for name, value in pair.fixed.items() if name != "per_cell")

    kinds = Counter(kind(pair) for pair in crossed if pair.fixed["moved_share"] is None)
    if not kinds:
        return []
    usual = kinds.most_common(1)[0][0]
    by_level = grouped((p for p in crossed if kind(p) == usual), lambda pair: pair.level)
    sizes = {level: max(len(pair.sizes) for pair in own) for level, own in by_level.items()}
    # An occupancy of designed points alone has sizes too far apart to draw lines between.
    shown = [own for level, own in by_level.items() if 2 * sizes[level] >= max(sizes.values())]
    return list(itertools.chain.from_iterable(shown))


def chart(searches: Searches, slug: str, crossed: Sequence[Pair]) -> Chart | None:
    """Draw where those cross that each win somewhere: particles over occupancy, by task."""
    panels = []
    for task in searches.tasks:
        shown = _on_the_map([pair for pair in crossed if pair.task == task])
        sizes = [size for pair in shown for size in pair.sizes]
        wins = Counter(race[0].subject.algorithm for race in searches.usual_races(task))
        found: dict[tuple[str, str], list[Point]] = {}
        for pair in shown:
            if pair.first in wins and pair.second in wins:
                for crossing in pair.compared.crossings[-1:]:
                    low = min(sizes) if crossing.low is None else 2**crossing.low
                    high = max(sizes) if crossing.high is None else 2**crossing.high
                    point = Point(pair.level, 2**crossing.at, low, high)
                    found.setdefault(pair.names(crossing), []).append(point)
        several = [(names, points) for names, points in found.items() if len(points) > 1]
        several.sort(key=lambda line: -min(wins[name] for name in line[0]))
        lines = [
            Line(f"{few} → {many}", sorted(points), searches.algorithms.index(many), index)
            for index, ((few, many), points) in enumerate(several[:_MOST_PAIRS])
        ]
        panels.append(panel(task, lines, "Crossovers", "particles"))
    return line_chart(
        f"{slug}-crossover",
        "The particles at which one overtakes another",
        "Below a line the first is faster, above it the second; bands: inconclusive.",
        Axis("particles per cell", "number"),
        Axis("particles", "size"),
        panels,
    )


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
