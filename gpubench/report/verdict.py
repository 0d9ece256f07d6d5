"""The verdict on a study: a recommendation and its risk, the winners, and crossovers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import geometric_mean
from typing import NamedTuple

from gpubench.evidence.crossover import FIRST, crossings
from gpubench.evidence.declared import EqualWork
from gpubench.evidence.ranking import Rule, Variant, best_rule, single_choices
from gpubench.report import formats, steps
from gpubench.report.axes import AXES, between, counts, describe, sizes, varying
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Row, Table, words
from gpubench.report.scans import Scan, scans, words_of

# A race: measurements of equal work on one input, fastest first.
Race = Sequence[MeasurementRow]
_Name = Callable[[MeasurementRow], str]
_MOST_NAMED = 3  # maximum number of faster subjects that a risk names
_MOST_SINGLE = 3  # maximum number of single choices listed beside the rule
_COVERS, _BEATS = 0.75, 1 / 3  # of the most-timed subject's inputs: by a choice, by what beats it


class Choice(NamedTuple):
    """A recommendation, how often it is known to be slower (`risk`), and where (`slower_at`)."""

    take: str
    risk: str
    slower_at: str
    rules: Sequence[Rule]


def choose(races: Sequence[Race], name: _Name) -> Choice | None:
    """Find the cheapest simple rule (see `best_rule`) for these races.

    None if no choice ran on every input, or no race has two entrants. name: names a cell's choice.
    """
    able = set.intersection(*({name(cell) for cell in race} for race in races))
    compared = [race for race in races if len(race) > 1]
    compared.sort(key=lambda race: race[0].place.count)
    costs = [(r[0].place.count, {name(c): c.standing.time.median for c in r}) for r in compared]
    singles = [rule for rule in single_choices(costs) if rule.first in able][:_MOST_SINGLE]
    if not singles:
        return None
    best, take = best_rule(singles, [size for size, _ in costs]), singles[0].first
    if best.up_to is not None:
        axis = next(n for n in counts() if getattr(races[0][0].place, n) is not None)
        take = f"{best.first} up to {AXES[axis].say(best.up_to)}, {best.above} above"
    rules = singles if best is singles[0] else [best, *singles]
    taken = []
    for (size, _), race in zip(costs, compared, strict=True):
        wanted = best.first if best.up_to is None or size <= best.up_to else best.above
        taken.append((next(cell for cell in race if name(cell) == wanted), race))
    return Choice(take, *_risk(taken, name), rules)


def _risk(taken: Sequence[tuple[MeasurementRow, Race]], name: _Name) -> tuple[str, str]:
    """Return two texts: how often the choice is known to be slower, and than what; and where.

    taken: the choice's cell in each race, and the race.
    """
    slower = [cell for cell, _ in taken if cell.standing.ratio.low > 1]
    faster = Counter(name(race[0]) for cell, race in taken if cell.standing.ratio.low > 1)
    if not slower:
        alone = sum(race[1].standing.ratio.low > 1 for _, race in taken)
        every = "fastest on all" if alone == len(taken) else "known slower on none of"
        return f"{every} {len(taken)} inputs".replace("all 1 inputs", "the one input"), ""
    worst = max(slower, key=lambda cell: cell.standing.ratio.value)
    times = formats.ratio(worst.standing.ratio.value)
    others = [name for name, _ in faster.most_common()]
    named = " or ".join(others) if len(others) <= _MOST_NAMED else f"one of {len(others)} others"
    often = f"known slower than {named} on {len(slower)} of {len(taken)} inputs, at worst {times}"
    where = between((cell.place for cell in slower), sizes())
    at = describe(worst.place, varying(cell.place for cell, _ in taken))
    return often, f"Slower at {where}; at worst at {at}."


def gist(run: StudyRun) -> str:
    """Recommend a subject for each kind of answer and workload, with risk; list wrong answers."""
    groups = grouped(run.races, lambda race: (race[0].ranked.group, race[0].place.workload or ""))
    if not groups:
        return told({}, "Nothing was timed, so there is nothing to compare.", wrong(run))
    every = {c.subject.algorithm for race in run.races for c in race}
    kinds, workloads = ({*each} for each in zip(*groups, strict=True))
    parts = {}
    for (kind, workload), races in groups.items():
        if not (compared := [race for race in races if len(race) > 1]):
            continue
        about = words_of(kind, kinds) if len(kinds) > 1 else "", workload * (len(workloads) > 1)
        where = ", ".join(filter(None, about))
        named = {c.subject.algorithm for race in compared for c in race}
        is_alone = len(kinds) == 1 == len(named) < len(every)
        where += f" (only {named.pop()} was measured)" if is_alone else ""
        parts[where] = _usual(compared)
    none = steps.gist(run) or "Only one choice was measured for each kind of answer."
    return told(parts, "" if parts else none, wrong(run))


def told(parts: Mapping[str, str], *more: str) -> str:
    """Join recommendations, by purpose, and further sentences into a text."""
    takes = (f"for {what} take {take}" if what else f"take {take}" for what, take in parts.items())
    said = "; ".join(takes)
    return " ".join(filter(None, (f"{said[0].upper()}{said[1:]}." if said else "", *more)))


def _usual(races: Sequence[Race]) -> str:
    """Name the cheapest subject of those timed on most inputs, or what beats it, with its risk."""
    found: dict[Variant, dict[int, MeasurementRow]] = {}
    for number, cell in ((n, cell) for n, race in enumerate(races) for cell in race):
        found.setdefault(cell.subject, {})[number] = cell
    most = max(map(len, found.values()))
    usual = (own for own in found.values() if len(own) >= _COVERS * most)
    best = min(usual, key=lambda own: geometric_mean(c.standing.ratio.value for c in own.values()))
    for own in (own for own in found.values() if len(own) >= _BEATS * most):
        both = own.keys() & best.keys()
        if both and all(races[n][0] is own[n] and best[n].standing.ratio.low > 1 for n in both):
            best = own
    risk, _ = _risk([(cell, races[n]) for n, cell in best.items()], lambda c: c.subject.label)
    gone = f", not measured on {len(races) - len(best)} more" if len(best) < len(races) else ""
    return f"{next(iter(best.values())).subject.label}: {risk}{gone}"


def wrong(run: StudyRun) -> str:
    """Name subjects with wrong answers, the inputs, and the first error; "" if there are none."""
    bad = [cell for cell in run.cells.values() if cell.status == "wrong"]
    parts = []
    for name, own in grouped(bad, lambda cell: cell.subject.algorithm).items():
        odd = [n for n in AXES if all(getattr(c.place, n) != run.common[n] for c in own)]
        found = own[0].ranked.measurement.results.environment["device"]
        where = between((c.place for c in own), [n for n in odd if n not in sizes()] or sizes())
        reason = str(own[0].record.reason).partition(";")[0]
        parts.append(f"{name}, {where}, on a {'CPU' if found.get('is_cpu') else 'GPU'} ({reason})")
    return f"Wrong: {'; '.join(parts)}." if parts else ""


def overtakings(run: StudyRun, axes: Collection[str] = AXES) -> Table:
    """Return a table of crossovers along numeric axes, with 95 % intervals."""
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
            groups.setdefault(cell.ranked.group, {}).setdefault(value, {})[cell.subject] = cell
    for group, times in groups.items():
        title = [scan.title, words_of(group, groups) if len(groups) > 1 else ""]
        firsts = ([c.subject for c in own.values() if c.device_is_first] for own in times.values())
        leaders = dict.fromkeys(tied[0] for tied in firsts if len(tied) == 1)
        for pair in pairwise(leaders):
            both = {v: [own[s] for s in pair] for v, own in times.items() if {*pair} <= {*own}}
            ratios = {v: ratio for v, (a, b) in both.items() if (ratio := a.over(b)) is not None}
            places = [math.log2(value) if is_size else value for value in ratios]
            for crossing in crossings(places, list(ratios.values())) if len(ratios) > 1 else ():
                if crossing.faster_before == FIRST:
                    about = f"{write(crossing.at)} {axis.label}"
                    interval = f"{write(crossing.low)} to {write(crossing.high)}"
                    told = (*(run.labels[subject] for subject in pair), about, interval)
                    yield Row(", ".join(filter(None, title)) or "all", list(map(words, told)))
