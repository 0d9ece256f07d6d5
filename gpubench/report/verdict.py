"""The verdict on a study: what is fastest in how many cases, and where that changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from gpubench.evidence.crossover import FIRST, crossings
from gpubench.evidence.declared import EqualWork
from gpubench.evidence.ranking import Variant
from gpubench.report.axes import AXES
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Row, Table, words
from gpubench.report.scans import Scan, scans, words_of

_MOST_TOLD = 3  # winners of a kind of answer
_NO_WINNER = ("inconclusive", "only one measured")


def gist(run: StudyRun) -> str:
    """Say in one sentence what is fastest, of each kind of answer, on how many inputs.

    Where only one was measured, nothing is fastest.
    """
    wins = _wins(run, "device_is_first")
    if not wins:
        return "Nothing was timed, so there is nothing to compare."
    return f"Fastest {run.clock} of {_said(wins)}."


def of_graphs(run: StudyRun) -> str:
    """Say the same of graphs alone, where what was launched leaves more of it open."""
    alone = _wins(run.only(lambda cell: cell.is_timed("graph"), "graph"), "is_first")
    every = _wins(run, "device_is_first")
    unclear = [sum(each["inconclusive"] for each in wins.values()) for wins in (alone, every)]
    return f"By graph replay alone, of {_said(alone)}." if alone and unclear[0] < unclear[1] else ""


def _wins(run: StudyRun, first: str) -> dict[EqualWork, Counter[str]]:
    """Count on how many inputs each is first. first: the column that says so."""
    wins: dict[EqualWork, Counter[str]] = {}
    for place in run.by_place:
        for group, cells in grouped(run.ranked_at(place), lambda c: c.ranked.group).items():
            tied = [run.labels[cell.subject] for cell in cells if getattr(cell, first)]
            found = tied[0] if len(tied) == 1 else _NO_WINNER[len(cells) == 1]
            wins.setdefault(group, Counter())[found] += 1
    return wins


def _said(wins: Mapping[EqualWork, Counter[str]]) -> str:
    said = []
    for group, counts in wins.items():
        answer = f"{words_of(group, wins)}, " if len(wins) > 1 else ""
        winners = Counter({name: n for name, n in counts.items() if name not in _NO_WINNER})
        told = dict(winners.most_common(_MOST_TOLD))
        told["others"] = winners.total() - sum(told.values())
        told |= {name: counts[name] for name in _NO_WINNER}
        cases = ", ".join(f"{name} in {count}" for name, count in told.items() if count)
        said.append(f"{answer}{counts.total()} cases: {cases}")
    return "; of ".join(said)


def overtakings(run: StudyRun, axes: Collection[str] = AXES) -> Table:
    """Return where the fastest is overtaken along numbers, with 95 % intervals."""
    along = (s for s in scans(run) if s.axis in axes and AXES[s.axis].scale != "names")
    rows = [row for scan in along for row in _overtaken(run, scan)]
    columns = ["Input", "Fastest below", "Above", "From about", "95 % interval"]
    is_open = any("beyond" in item.text for row in rows for item in row.items)
    notes = ["beyond: where nothing was measured."] * is_open
    return Table("Where the fastest is overtaken", columns, rows, notes)


def _overtaken(run: StudyRun, scan: Scan) -> Iterator[Row]:
    axis = AXES[scan.axis]
    is_size = axis.scale == "size"

    def write(place: float | None) -> str:
        if place is None:
            return "beyond"
        value = 2**place if is_size else place
        return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"

    groups: dict[EqualWork, dict[float, dict[Variant, MeasurementRow]]] = {}
    for value, cells in scan.columns.items():
        for cell in run.ranked_at(cells[0].place):
            here = groups.setdefault(cell.ranked.group, {}).setdefault(value, {})
            here[cell.subject] = cell
    for group, times in groups.items():
        title = [scan.title, words_of(group, groups) if len(groups) > 1 else ""]
        firsts = ([c.subject for c in own.values() if c.device_is_first] for own in times.values())
        leaders = dict.fromkeys(tied[0] for tied in firsts if len(tied) == 1)
        for pair in pairwise(leaders):
            one, other = pair
            both = {v: own[one].over(own[other]) for v, own in times.items() if {*pair} <= {*own}}
            ratios = {value: ratio for value, ratio in both.items() if ratio is not None}
            if len(ratios) < 2:
                continue
            places = [math.log2(value) if is_size else value for value in ratios]
            for crossing in crossings(places, list(ratios.values())):
                if crossing.faster_before == FIRST:
                    about = f"{write(crossing.at)} {axis.label}"
                    interval = f"{write(crossing.low)} to {write(crossing.high)}"
                    told = (*(run.labels[subject] for subject in pair), about, interval)
                    yield Row(", ".join(filter(None, title)) or "all", list(map(words, told)))
