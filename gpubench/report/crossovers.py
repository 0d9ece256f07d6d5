"""Which neighbour search overtakes which as there are more particles, and where."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpubench.evidence.crossover import FIRST, NEITHER, Compared, Crossing, compare
from gpubench.report import formats, libraries
from gpubench.report.axes import AXES
from gpubench.report.cells import StudyRun
from gpubench.report.figures import Axis, Chart, Line, Panel, describe, line_chart
from gpubench.report.rankings import Field, Race, timed
from gpubench.report.tables import NOTHING, Item, Row, Table

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

    @property
    def always(self) -> str | None:
        """Who is faster wherever it can be told; None where each is somewhere, or nobody."""
        if self.compared.crossings or self.compared.faster in (None, NEITHER):
            return None
        assert self.compared.faster is not None
        return self.name(self.compared.faster)


def pairs(field: Field, task: str) -> list[Pair]:
    """Compare any two algorithms on all inputs of a task that differ in the particles alone."""
    groups: dict[tuple[tuple[str, Any], ...], dict[int, Race]] = {}
    for race in field.races:
        if race.task == task:
            fixed = libraries.place_columns(race.place)
            size = fixed.pop("particles")
            groups.setdefault(tuple(fixed.items()), {}).setdefault(size, race)
    found = []
    for fixed_items, races in groups.items():
        names = sorted(
            {cell.subject.algorithm for race in races.values() for cell in race.cells},
            key=field.algorithms.index,
        )
        for first, second in itertools.combinations(names, 2):
            both = [
                (size, timed(one).over(timed(other)))
                for size in sorted(races)
                for one in [races[size].of(first)]
                for other in [races[size].of(second)]
                if one is not None and other is not None
            ]
            if len(both) > 1:
                sizes, ratios = zip(*both, strict=True)
                compared = compare([math.log2(size) for size in sizes], ratios)
                found.append(Pair(task, dict(fixed_items), first, second, sizes, compared))
    return found


def _on_the_map(crossed: Sequence[Pair]) -> list[Pair]:
    """Return the pairs on inputs of the commonest kind, which differ in the occupancy."""

    def kind(pair: Pair) -> tuple[Any, ...]:
        return tuple(value for name, value in pair.fixed.items() if name != "per_cell")

    kinds = Counter(kind(pair) for pair in crossed if pair.fixed["moved_share"] is None)
    if not kinds:
        return []
    usual = kinds.most_common(1)[0][0]
    found = [pair for pair in crossed if kind(pair) == usual]
    sizes: dict[float, int] = {}
    for pair in found:
        level = pair.fixed["per_cell"]
        sizes[level] = max(sizes.get(level, 0), len(pair.sizes))
    # An occupancy of designed points alone has sizes too far apart to draw lines between.
    return [p for p in found if 2 * sizes[p.fixed["per_cell"]] >= max(sizes.values())]


def table(crossed: Sequence[Pair], task: str) -> Table | None:
    """Return the particles at which pairs cross, a row for each pair that does, or None."""
    shown = _on_the_map(crossed)
    levels = sorted({pair.fixed["per_cell"] for pair in shown})
    found: dict[tuple[str, str], dict[float, tuple[Pair, Crossing]]] = {}
    for pair in shown:
        for crossing in pair.compared.crossings:
            key = pair.name(crossing.faster_before), pair.name(crossing.faster_after)
            found.setdefault(key, {})[pair.fixed["per_cell"]] = (pair, crossing)
    if not found:
        return None
    of_pair = {(p.first, p.second, p.fixed["per_cell"]): p for p in shown}

    def other(few: str, many: str, level: float) -> Item:
        pair = of_pair.get((few, many, level)) or of_pair.get((many, few, level))
        if pair is None or pair.compared.crossings:
            return NOTHING  # not measured, or in the row of the other direction
        if pair.always is None:
            return Item("cannot tell", "none")
        return Item("former always" if pair.always == few else "latter always", "none")

    body = [
        Row(
            f"{few}, then {many}",
            [
                _crossing_item(*crossings[level]) if level in crossings else other(few, many, level)
                for level in levels
            ],
        )
        for (few, many), crossings in sorted(found.items(), key=lambda row: -len(row[1]))
    ]
    return Table(
        f"Particles at which one overtakes another: {task} ({_kind_words(shown[0])})",
        ["Faster with few, then with many particles", *(f"{level:g}" for level in levels)],
        body,
        "particles per cell",
        [
            "Interpolated between sizes in logarithms. Below each number: where the 95 % intervals"
            " leave it open; an ellipsis: to the end of what was measured."
        ],
    )


def _crossing_item(pair: Pair, crossing: Crossing) -> Item:
    ends = [formats.DASH, formats.DASH]
    for index, end in enumerate((crossing.low, crossing.high)):
        ends[index] = "\N{HORIZONTAL ELLIPSIS}" if end is None else formats.significant(2**end)
    return Item(formats.significant(2**crossing.at), detail=f"{ends[0]} to {ends[1]}")


def _kind_words(pair: Pair) -> str:
    return ", ".join(AXES[name].say(pair.fixed[name]) for name in ("distribution", "order"))


def charts(field: Field, slug: str, crossed: Sequence[Pair]) -> list[Chart]:
    """Draw where those cross that each win somewhere: particles over occupancy, by task."""
    panels = []
    for task in field.tasks:
        shown = _on_the_map([pair for pair in crossed if pair.task == task])
        wins = Counter(race.winner.subject.algorithm for race in field.usual_races(task))
        lines: dict[tuple[str, str], list[tuple[float, Crossing]]] = {}
        for pair in shown:
            if pair.first in wins and pair.second in wins:
                for crossing in pair.compared.crossings[-1:]:
                    key = pair.name(crossing.faster_before), pair.name(crossing.faster_after)
                    lines.setdefault(key, []).append((pair.fixed["per_cell"], crossing))
        kept = sorted(
            ((pair, points) for pair, points in lines.items() if len(points) > 1),
            key=lambda line: -min(wins[line[0][0]], wins[line[0][1]]),
        )[:_MOST_PAIRS]
        sizes = [size for pair in shown for size in pair.sizes]
        drawn = [
            Line(
                f"{few} → {many}",
                [level for level, _ in points],
                [2**c.at for _, c in points],
                [min(sizes) if c.low is None else 2**c.low for _, c in points],
                [max(sizes) if c.high is None else 2**c.high for _, c in points],
                field.algorithms.index(many),
                index,
            )
            for index, ((few, many), unsorted) in enumerate(kept)
            for points in [sorted(unsorted, key=lambda point: point[0])]
        ]
        panels.append(Panel(task, drawn, describe("Crossovers", task, drawn, "particles")))
    chart = line_chart(
        f"{slug}-crossover",
        "The particles at which one overtakes another",
        "Below a line the first is faster, above it the second; bands: inconclusive.",
        Axis("particles per cell", "number"),
        Axis("particles", "size"),
        panels,
    )
    return [chart] if chart else []


def rows(run: StudyRun) -> list[dict[str, Any]]:
    """Return where any two algorithms cross along the particles, for the CSV.

    A pair that does not cross has one row, which says who is always faster.
    """
    field = Field.of(run)
    return [
        {
            "task": pair.task,
            **pair.fixed,
            "first": pair.first,
            "second": pair.second,
            "smallest_measured": pair.sizes[0],
            "largest_measured": pair.sizes[-1],
            "always_faster": pair.always,
            "faster_below": pair.name(crossing.faster_before) if crossing else None,
            "faster_above": pair.name(crossing.faster_after) if crossing else None,
            "particles": 2**crossing.at if crossing else None,
            "particles_low": _power(crossing.low) if crossing else None,
            "particles_high": _power(crossing.high) if crossing else None,
            "measured_below": _power(crossing.between[0]) if crossing else None,
            "measured_above": _power(crossing.between[1]) if crossing else None,
        }
        for task in field.tasks
        for pair in pairs(field, task)
        for crossing in pair.compared.each
    ]


def _power(exponent: float | None) -> float | None:
    return None if exponent is None else 2**exponent
