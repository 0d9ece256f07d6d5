"""The verdict on a study: what is fastest in how many cases, and where that changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import NamedTuple

from gpubench.evidence.crossover import FIRST, Crossing, compare
from gpubench.evidence.declared import Group
from gpubench.evidence.ranking import Subject
from gpubench.report import published
from gpubench.report.axes import AXES, describe, varying
from gpubench.report.cells import Cell, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Table, words
from gpubench.report.scans import Scan, scans, words_of

_MOST_TOLD = 3  # winners of a kind of answer


def gist(run: StudyRun) -> str:
    """Say in one sentence what is fastest, of each kind of answer, on how many inputs."""
    wins: dict[Group, Counter[str]] = {}
    for place in run.by_place:
        for group, cells in grouped(run.ranked_at(place), lambda c: c.ranked.group).items():
            tied = [run.labels[cell.subject] for cell in cells if cell.is_first]
            wins.setdefault(group, Counter())[tied[0] if len(tied) == 1 else "inconclusive"] += 1
    if not wins:
        return "Nothing was timed, so there is nothing to compare."
    said = []
    for group, counts in wins.items():
        answer = f"{words_of(group, wins)}, " if len(wins) > 1 else ""
        cases = [f"{label} in {count}" for label, count in counts.most_common(_MOST_TOLD)]
        others = counts.total() - sum(count for _, count in counts.most_common(_MOST_TOLD))
        cases += [f"others in {others}"] if others else []
        said.append(f"{answer}{counts.total()} cases: {', '.join(cases)}")
    return f"Fastest of {'; of '.join(said)}."


def sentences(run: StudyRun) -> list[str]:
    """Return what else was found, one statement a string."""
    return [*_launched(run), *published.claim(run)]


def _launched(run: StudyRun) -> list[str]:
    """Say where launches from the host have another winner than replays of a graph."""
    names = varying(run.by_place)
    found: dict[str, list[str]] = {}
    for place, cells in run.by_place.items():
        for group, own in grouped(run.ranked_at(place), lambda c: c.ranked.group).items():
            if own[0].mode == "graph" and sum(cell.is_first for cell in own) == 1:
                hot = (c.modes["hot"] for c in cells if "hot" in c.modes)
                others = (c for c in hot if c.rank == 1 and c.ranked.group == group)
                for other in others:
                    if other.subject != own[0].subject:
                        where = describe(place, names)
                        found.setdefault(run.labels[other.subject], []).append(where)
    parts = [f"{label} ({'; '.join(where)})" for label, where in found.items()]
    if not parts:
        return []
    return [f"Launched from the host instead of from a graph, others lead: {', '.join(parts)}."]


class Overtaking(NamedTuple):
    """Where the fastest of a group along a scan is overtaken by another."""

    scan: Scan
    answer: str
    first: Subject
    second: Subject
    crossing: Crossing

    def write(self, place: float | None) -> str:
        """Write a place along the scan."""
        if place is None:
            return "beyond"
        value = 2**place if AXES[self.scan.axis].kind == "size" else place
        return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def overtakings(run: StudyRun, axes: Collection[str] = tuple(AXES)) -> Table | None:
    """Return where the fastest is overtaken along numbers, with 95 % intervals; None nowhere."""
    numeric = (s for s in scans(run) if s.axis in axes and AXES[s.axis].kind != "names")
    found = [each for scan in numeric for each in _along(run, scan)]
    table = Table.of(
        "Where the fastest is overtaken",
        found,
        ("Input", lambda o: ", ".join(filter(None, (o.scan.title, o.answer))) or "all"),
        {
            "Fastest below": lambda o: words(run.labels[o.first]),
            "Above": lambda o: words(run.labels[o.second]),
            "From about": lambda o: words(f"{o.write(o.crossing.at)} {AXES[o.scan.axis].label}"),
            "95 % interval": lambda o: words(
                f"{o.write(o.crossing.low)} to {o.write(o.crossing.high)}"
            ),
        },
        notes=["beyond: of what was measured."],
    )
    return table if found else None


def _along(run: StudyRun, scan: Scan) -> Iterator[Overtaking]:
    is_size = AXES[scan.axis].kind == "size"
    groups: dict[Group, dict[float, dict[Subject, Cell]]] = {}
    for value, cells in scan.columns.items():
        for cell in run.ranked_at(cells[0].place):
            here = groups.setdefault(cell.ranked.group, {}).setdefault(value, {})
            here[cell.subject] = cell
    for group, times in groups.items():
        firsts = ([c.subject for c in own.values() if c.is_first] for own in times.values())
        leaders = dict.fromkeys(tied[0] for tied in firsts if len(tied) == 1)
        for first, second in pairwise(leaders):
            both = {v: own for v, own in times.items() if {first, second} <= own.keys()}
            if len(both) < 2:
                continue
            places = [math.log2(value) if is_size else value for value in both]
            compared = compare(places, [own[first].over(own[second]) for own in both.values()])
            for crossing in compared.crossings:
                if crossing.faster_before == FIRST:
                    answer = words_of(group, groups) if len(groups) > 1 else ""
                    yield Overtaking(scan, answer, first, second, crossing)
