"""The verdict on a study in a few sentences, each computed from the records."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any

from gpubench.evidence import declared
from gpubench.report import formats
from gpubench.report.axes import AXES, COUNTS, Axis
from gpubench.report.cells import Cell, StudyRun, Subject, told_apart
from gpubench.studies.claims import CLAIMS
from gpubench.studies.study import Published

# Kinds of answers, in words.
ANSWERS = {
    "linked": "linked lists",
    "sorted": "sorted cells",
    "limited": "cells of limited size",
    "ordered": "filters that keep the order",
    "unordered": "filters that do not keep the order",
    "count": "counts",
    "list": "lists",
}


@dataclass(frozen=True)
class Scan:
    """One axis to go along, and what stays as it is meanwhile."""

    axis: str
    fixed: dict[str, Any] = field(default_factory=dict)

    def values(self, run: StudyRun) -> list[Any]:
        """Return the values along the axis at which anything was measured."""
        return run.values(self.axis, **self.fixed) or [run.common[self.axis]]

    def at(self, run: StudyRun, value: Any) -> list[Cell]:
        """Return the cell of each subject at one value."""
        return run.at(**{**self.fixed, self.axis: value})

    def title(self, write: Callable[[Axis, Any], str] = Axis.write) -> str:
        """Say what stays as it is."""
        return ", ".join(
            AXES[name].phrase.format(write(AXES[name], value)) for name, value in self.fixed.items()
        )


@dataclass(frozen=True)
class Ranking:
    """The timed cells of one kind of answer at one place, fastest first.

    value: where that is along the axis of a scan. answer: the kind, in words; None where there is
    only one. tied: those that the fastest cannot be told
    apart from, itself included.
    """

    value: Any
    cells: list[Cell]
    answer: str | None = None

    @property
    def fastest(self) -> Cell:
        """The cell with the lowest median."""
        return self.cells[0]

    @property
    def tied(self) -> list[Cell]:
        """The fastest and every cell that it is not known to be faster than."""
        return [c for c in self.cells if c is self.fastest or not told_apart(self.fastest, c)]

    @property
    def factor(self) -> float | None:
        """How many times longer the next takes; None without a next that can be told apart."""
        if len(self.tied) > 1 or len(self.cells) < 2 or not self.fastest.median_ms:
            return None
        return self.cells[1].median_ms / self.fastest.median_ms


@dataclass(frozen=True)
class Match:
    """A printed number in the printed unit, and the cell that belongs beside it, if measured."""

    printed: float
    unit: str
    cell: Cell | None

    @property
    def speedup(self) -> float | None:
        """Printed over measured time."""
        if self.cell is None or not self.cell.ok or not self.cell.median_ms:
            return None
        return self.printed * self.cell.unit_ms(self.unit) / self.cell.median_ms


@dataclass(frozen=True)
class Pair:
    """Two columns of a published table by their places in it, one to be divided by the other."""

    over: int
    under: int


def largest_size(run: StudyRun) -> int | None:
    """Return the largest particle count of the published table that was timed, else of any."""
    timed = {p.particles for (_, p), cell in run.cells.items() if cell.ok}
    sizes = [size for size in run.values("particles") if size in timed]
    published = run.study.published
    if published is not None and published.row_axis == "particles":
        sizes = [size for size in sizes if size in published.rows] or sizes
    return max(sizes, default=None)


def scans(run: StudyRun) -> list[Scan]:
    """Return the ways through a study: the first is that of its published table.

    Without algorithms for columns, it goes along the particles per cell at the largest size; for
    a workload along the particles, and along the skin wherever that varies.
    """
    if run.is_simulation:
        return [scan for scan in _simulations(run) if rankings(run, scan)]
    published = run.study.published
    streams = [axis for axis in COUNTS if axis != "particles" and run.values(axis)]
    main = streams[0] if streams else "per_cell"
    fixed: dict[str, Any] = {}
    if published is not None:
        main = published.row_axis if published.column_axis == "algorithm" else main
        fixed = {k: v for k, v in published.axes.items() if v in run.values(k)}
    size = largest_size(run)
    if main != "particles" and size is not None:
        fixed = {"particles": size} | fixed
    fixed.pop(main, None)
    found = [Scan(main, fixed)]
    if main == "moved":
        others = run.values("destination", **{main: run.common[main]})
        found += [
            Scan(main, fixed | {"destination": d}) for d in others if d != fixed.get("destination")
        ]
    if main == "records" and len(run.values("kept")) > 1:
        rest = {k: v for k, v in fixed.items() if k != "kept"}
        found.append(Scan("kept", {"records": run.common["records"]} | rest))
    return [scan for scan in found if rankings(run, scan)]


def _simulations(run: StudyRun) -> list[Scan]:
    """Return a scan along the particles for each workload, then those along the skin."""
    sizes, skins = [], []
    for workload in run.values("workload"):
        usual = {name: run.kind[name] for name in ("time_step", "skin")}
        sizes.append(Scan("particles", {"workload": workload} | usual))
        tried: dict[tuple[int | None, float | None], set[float | None]] = {}
        for _, place in run.cells:
            if place.workload == workload:
                tried.setdefault((place.particles, place.time_step), set()).add(place.skin)
        skins += [
            Scan("skin", {"workload": workload, "particles": particles, "time_step": time_step})
            for (particles, time_step), values in tried.items()
            if len(values) > 1
        ]
    return [*sizes, *skins]


def grids(run: StudyRun) -> list[Scan]:
    """Return the scans of a study; that along the particles per cell once for each size."""
    found = scans(run)
    if found and found[0].axis == "per_cell" and run.values("per_cell"):
        return [Scan("per_cell", {"particles": size}) for size in run.values("particles")]
    return found


def rankings(run: StudyRun, scan: Scan) -> list[Ranking]:
    """Rank the subjects at each value along a scan with anything timed.

    Only what ran on one input is ranked: the commonest there. What lost particles never is. Each
    kind of answer has rankings of its own, since it is not the same work.
    """
    ranked: dict[str | None, list[Ranking]] = {}
    for value in scan.values(run):
        cells = [cell for cell in scan.at(run, value) if cell.ok and not lost(cell)]
        if not cells:
            continue
        place = Counter(cell.place for cell in cells).most_common(1)[0][0]
        by_kind: dict[str | None, list[Cell]] = {}
        for cell in cells:
            if cell.place == place:
                kind = declared.declared(cell.headline).answer
                by_kind.setdefault(kind, []).append(cell)
        for kind, alike in by_kind.items():
            one = Ranking(value, sorted(alike, key=lambda c: c.median_ms), kind)
            ranked.setdefault(kind, []).append(one)
    several = len(ranked) > 1
    return [
        replace(each, answer=ANSWERS.get(str(kind), kind) if several else None)
        for kind, of_kind in ranked.items()
        for each in of_kind
    ]


def lost(cell: Cell) -> int:
    """Return how many particles an answer lacks, where its algorithm may lose some."""
    return declared.lost(cell.headline)


def best_form(run: StudyRun, algorithm: str) -> Subject | None:
    """Return the subject of an algorithm that is fastest on most of the inputs, or None.

    A tie goes to the subject that the study names first.
    """
    best: dict[Any, Cell] = {}
    for (subject, place), cell in run.cells.items():
        if subject.algorithm == algorithm and cell.ok:
            best[place] = min(best.get(place, cell), cell, key=lambda c: c.median_ms)
    wins = Counter(cell.subject for cell in best.values())
    return max(run.subjects, key=lambda s: wins[s]) if wins else None


def matches(
    run: StudyRun, published: Published, forms: Mapping[str, Subject | None]
) -> list[list[Match]]:
    """Return the published table with what was measured: rows and columns as printed.

    forms: which subject stands for each algorithm.
    """
    grid = []
    for row, values in zip(published.rows, published.values, strict=True):
        line = []
        for index, value in enumerate(values):
            subject = forms.get(column_algorithm(published, index))
            axes = dict(published.axes) | {published.row_axis: row}
            if not published.algorithms:
                axes[published.column_axis] = published.columns[index]
            cell = run.find(subject, **axes) if subject else None
            line.append(Match(value, published.unit, cell))
        grid.append(line)
    return grid


def column_algorithm(published: Published, index: int) -> str:
    """Return which of our algorithms the numbers of a printed column belong beside."""
    return published.algorithms[index] if published.algorithms else published.algorithm


def best_forms(run: StudyRun, published: Published) -> dict[str, Subject | None]:
    """Return the best form of each algorithm of a published table."""
    names = published.algorithms or (published.algorithm,)
    return {name: best_form(run, name) for name in names}


def pairs(published: Published) -> list[Pair]:
    """Return each column of another algorithm with the nearest of the published algorithm.

    Before it if there is one before, else after it: a table may hold both for several cards.
    """
    own = [i for i, name in enumerate(published.algorithms) if name == published.algorithm]
    found = []
    for index, name in enumerate(published.algorithms):
        if name != published.algorithm:
            before = [i for i in own if i < index]
            found.append(Pair(index, before[-1] if before else own[0]))
    return found


def measured_ratio(over: Match, under: Match) -> float | None:
    """Return the ratio of two measured times, None where one is missing."""
    if over.cell is None or under.cell is None or not (over.cell.ok and under.cell.ok):
        return None
    return over.cell.median_ms / under.cell.median_ms if under.cell.median_ms else None


@dataclass(frozen=True)
class Overtaking:
    """Where along a scan a subject is told apart as faster than another.

    values: of the scan, where both were timed. faster: those at which it is. crossing: where
    the medians become equal, the last time if there are several: on a line in logarithms through
    the two nearest values at which they are told apart.
    """

    subject: Subject
    values: list[Any]
    faster: list[Any]
    crossing: float | None

    def where(self, axis: Axis) -> str:
        """Say where."""
        if not self.faster:
            return "nowhere"
        if self.faster == self.values:
            return (
                f"throughout, at {axis.say(*self.values)}"
                if len(self.values) < 3
                else (
                    f"throughout, from {axis.write(self.values[0])} to {axis.say(self.values[-1])}"
                )
            )
        if self.faster == self.values[-len(self.faster) :]:
            return (
                f"from {axis.say(self.faster[0])} on"
                if len(self.faster) > 1
                else f"only at {axis.say(self.faster[0])}"
            )
        if self.faster == self.values[: len(self.faster)] and len(self.faster) > 1:
            return f"up to {axis.say(self.faster[-1])}"
        return f"only at {axis.say(*self.faster)}"


def overtaking(
    run: StudyRun, scan: Scan, subject: Subject, rivals: Sequence[Subject]
) -> Overtaking | None:
    """Compare a subject with the fastest of its rivals along a scan; None if never both timed."""
    both = []
    for value in scan.values(run):
        cells = {cell.subject: cell for cell in scan.at(run, value) if cell.ok}
        against = [cells[rival] for rival in rivals if rival in cells]
        if subject in cells and against:
            both.append((value, cells[subject], min(against, key=lambda c: c.median_ms)))
    if not both:
        return None
    apart = [
        (x, math.log(own.median_ms / other.median_ms))
        for x, own, other in both
        if told_apart(own, other) or told_apart(other, own)
    ]
    crossing = None
    for (x0, y0), (x1, y1) in pairwise(apart):
        if y0 * y1 < 0 and x0 > 0:
            crossing = x0 * (x1 / x0) ** (y0 / (y0 - y1))
    faster = [value for value, own, other in both if told_apart(own, other)]
    return Overtaking(subject, [value for value, _, _ in both], faster, crossing)


def rivals(run: StudyRun) -> tuple[list[Subject], list[Subject]]:
    """Return the forms of the algorithm that a study is about, and all other subjects.

    That algorithm is the first that the study names.
    """
    first = run.study.subjects[0].algorithm if run.study.subjects else ""
    own = [subject for subject in run.subjects if subject.algorithm == first]
    return own, [subject for subject in run.subjects if subject not in own]


def overtakings(run: StudyRun) -> list[Overtaking]:
    """Return where each rival overtakes the algorithm that a study without a print is about."""
    own, others = rivals(run)
    if run.study.published is not None or run.is_simulation or not own:
        return []
    found = [overtaking(run, scan, other, own) for scan in scans(run)[:1] for other in others]
    return [each for each in found if each is not None and len(each.values) > 1]


def sentences(
    run: StudyRun, beside: Sequence[StudyRun] = (), more: Sequence[str] = ()
) -> list[str]:
    """Return the verdict, one statement a string.

    beside: the machine's other studies. more: statements that belong to this kind of study.
    """
    if not any(cell.ok for cell in run.cells.values()):
        return ["Nothing was timed, so there is nothing to compare.", *_trouble(run)]
    return [
        *(_winners(run, scan) for scan in scans(run) if scan.axis != "skin"),
        *_overtaken(run),
        *([] if run.is_simulation else _resorts(run)),
        *more,
        *_published(run),
        *_ratios(run),
        *_products(run, beside),
        *_trouble(run),
    ]


def _winners(run: StudyRun, scan: Scan) -> str:
    parts = []
    axis = AXES[scan.axis]
    grouped = groupby(rankings(run, scan), key=lambda r: (r.answer, _leaders(run, r)))
    for (kind, tied), group in grouped:
        same = list(group)
        values = [r.value for r in same if r.value is not None]
        where = f"at {axis.say(*values)}" if values else "there"
        where = f"of {kind} {where}" if kind else where
        names = [run.labels[subject] for subject in tied]
        factors = [r.factor for r in same if r.factor is not None]
        if len(names) > 1:
            part = (
                f"{formats.listing(names)} are fastest {where}, which of them is inconclusive:"
                " the 95 % intervals of their ratios include 1"
            )
        elif factors:
            part = (
                f"{names[0]} is fastest {where}:"
                f" the next takes {formats.span(factors)} times as long"
            )
        else:
            part = f"{names[0]} is the only one timed {where}"
        parts.append(part)
    title = scan.title(Axis.count)
    said = "; ".join(parts)
    where = "In" if run.is_simulation else "At"
    return f"{where} {title}, {said}." if title else f"{said}."


def _leaders(run: StudyRun, ranking: Ranking) -> list[Subject]:
    """Return what is fastest at a place, in the order of the study where that cannot be told."""
    return sorted((cell.subject for cell in ranking.tied), key=run.subjects.index)


def gist(run: StudyRun) -> str:
    """Say in one short sentence what is fastest along the first scan of a study."""
    scan = next(iter(scans(run)), None)
    if scan is None:
        return "Nothing was timed, so there is nothing to compare."
    leaders: dict[str | None, list[list[Subject]]] = {}
    for ranking in rankings(run, scan):
        leaders.setdefault(ranking.answer, []).append(_leaders(run, ranking))
    if all(each == own[0] for own in leaders.values() for each in own):
        return _winners(run, scan)
    most = max(map(len, leaders.values()))
    said = "; ".join(
        f"{f'{kind}: ' if kind else ''}{_counted(run, own)}" for kind, own in leaders.items()
    )
    return f"Fastest, by {AXES[scan.axis].label} ({most} cases): {said}."


def _counted(run: StudyRun, leaders: Sequence[list[Subject]]) -> str:
    """Say in how many cases each subject is fastest."""
    alone = Counter(run.labels[each[0]] for each in leaders if len(each) == 1)
    said = ", ".join(f"{label} in {count}" for label, count in alone.most_common())
    if together := len(leaders) - alone.total():
        said += f"{', ' if said else ''}{together} inconclusive"
    return said


def _overtaken(run: StudyRun) -> list[str]:
    found = overtakings(run)
    if not found:
        return []
    axis = AXES[scans(run)[0].axis]
    name = rivals(run)[0][0].algorithm
    groups: dict[str, list[str]] = {}
    for each in found:
        groups.setdefault(each.where(axis), []).append(run.labels[each.subject])
    parts = []
    for where, labels in groups.items():
        few = formats.listing(labels) if len(labels) <= 4 else f"{len(labels)} of the {len(found)}"
        parts.append(f"{where}: {few}")
    return [f"Where each rival is faster than the best form of {name}: {'; '.join(parts)}."]


def _resorts(run: StudyRun) -> list[str]:
    said = []
    for subject in run.subjects:
        full = run.full_sort(subject)
        parts = []
        for scan in scans(run) if full else []:
            found = overtaking(run, scan, subject, [full] if full else [])
            if found is not None:
                other = AXES["destination"].write(scan.fixed.get("destination"))
                aim = f" ({other})" if scan.axis == "moved" else ""
                parts.append(found.where(AXES[scan.axis]) + aim)
        if parts and full:
            said.append(
                f"{run.labels[subject]} is faster than its full sort, {run.labels[full]},"
                f" {'; '.join(parts)}."
            )
    return said


def _published(run: StudyRun) -> list[str]:
    """Say how each algorithm of the published table does against the print and the fastest."""
    published = run.study.published
    if published is None or published.quantities:
        return []
    if published.algorithms:
        return _published_columns(run, published)
    said = []
    [*main] = scans(run)[:1]
    ranked = [r for scan in main for r in rankings(run, scan)]
    for subject in run.subjects:
        own = [(r, c) for r in ranked for c in r.cells if c.subject == subject]
        if subject.algorithm != published.algorithm or not own:
            continue
        parts = []
        grid = matches(run, published, {published.algorithm: subject})
        if ratios := [m.speedup for line in grid for m in line if m.speedup is not None]:
            cells = len(published.rows) * len(published.columns)
            parts.append(
                f"runs {formats.span(ratios)} times as fast here as printed for"
                f" {published.device} ({len(ratios)} of {cells} cells of"
                f" {run.study.table or 'the published table'})"
            )
        behind = [c.median_ms / r.fastest.median_ms for r, c in own if told_apart(r.fastest, c)]
        if behind:
            where = "" if len(behind) == len(own) else f" in {len(behind)} of {len(own)} columns"
            parts.append(
                f"takes {formats.span(behind)} times as long as the fastest at"
                f" {main[0].title()}{where}"
            )
        if parts:
            said.append(
                f"The algorithm of the paper, {run.labels[subject]}, {', and '.join(parts)}."
            )
    return said


def _published_columns(run: StudyRun, published: Published) -> list[str]:
    forms = best_forms(run, published)
    grid = matches(run, published, forms)
    parts = []
    for index, column in enumerate(published.columns):
        subject = forms[column_algorithm(published, index)]
        ratios = [line[index].speedup for line in grid]
        known = [ratio for ratio in ratios if ratio is not None]
        if subject and known:
            parts.append(
                f"{run.labels[subject]} {formats.span(known)} times as fast as {column}"
                f" ({len(known)} of {len(published.rows)} rows)"
            )
    if not parts:
        where = run.study.table or "the published table"
        return [f"None of the inputs of {where} was measured here."]
    return [f"Against the print for {published.device}: {'; '.join(parts)}."]


def _ratios(run: StudyRun) -> list[str]:
    """Set the ratio of two columns beside what the paper claims of it."""
    published = run.study.published
    if published is None or run.study.name not in CLAIMS:
        return []
    name, claim = CLAIMS[run.study.name]
    grid = matches(run, published, best_forms(run, published))
    said = []
    printed, here = [], []
    for pair in pairs(published):
        printed += [line[pair.over].printed / line[pair.under].printed for line in grid]
        ratios = [measured_ratio(line[pair.over], line[pair.under]) for line in grid]
        here = [ratio for ratio in ratios if ratio is not None]
    if printed and here:
        claimed = [claim(row) for row in published.rows]
        words = published.claim or f"the ratio is {name}"
        said.append(
            f"The paper says: \u201c{words}\u201d, which is {formats.span(claimed)} in its table."
            f" Its own numbers give {formats.span(printed)}; here the ratio is"
            f" {formats.span(here)}."
        )
    return said


def _products(run: StudyRun, beside: Sequence[StudyRun]) -> list[str]:
    """Say where what is compared does not leave the same thing behind."""
    answers: dict[str | None, set[str]] = {}
    for cell in run.cells.values():
        kind = declared.declared(cell.headline).answer
        answers.setdefault(kind, set()).add(cell.subject.algorithm)
    said = []
    if {"ordered", "unordered"} <= answers.keys():
        loose = sorted(answers["unordered"])
        verb = "does" if len(loose) == 1 else "do"
        said.append(
            f"{formats.listing(loose)} {verb} not keep the order of the records; the others do."
        )
    said += _repetition(run)
    if not (run.study.published and {"linked", "sorted"} <= answers.keys()):
        return said
    if run.study.published.algorithms:
        return said
    text = "Linked lists and sorted orders are not the same product: a list leaves the particles"
    text += " where they are, which saves time in building it and costs time in every query."
    ratios = [ratio for other in beside for ratio in _query_ratios(other)]
    if ratios:
        text += (
            f" On this machine a neighbour query over linked lists takes {formats.span(ratios)}"
            " times as long as over sorted cells, where the particles come in random order."
        )
    return [*said, text]


def _repetition(run: StudyRun) -> list[str]:
    """Say of each random generator that reports its cycles how short they are."""
    reports = {
        run.labels[subject]: (tail, cycle, longest)
        for (subject, _), cell in run.cells.items()
        if cell.ok
        if (tail := cell.number("tail")) is not None
        if (cycle := cell.number("cycle")) is not None
        if (longest := cell.number("longest_cycle")) is not None
    }
    return [
        f"The recurrence of {label} repeats itself: from r₀ = 0 on after"
        f" {formats.plain(tail + cycle)} draws, the last"
        f" {formats.plain(cycle)} of them again and again; and from whatever start, it"
        f" ends in a cycle of at most {formats.plain(longest)} draws."
        for label, (tail, cycle, longest) in reports.items()
    ]


def _query_ratios(run: StudyRun) -> list[float]:
    """Return linked over sorted for every input in random order that both were timed on."""
    found = []
    for (subject, place), linked in run.cells.items():
        if subject.form.endswith("-linked"):
            form = subject.form.replace("-linked", "-sorted")
            cells = run.cells.get((Subject(subject.algorithm, form, subject.parameters), place))
            if place.order == "random" and cells and cells.ok and linked.ok:
                found.append(linked.median_ms / cells.median_ms)
    return found


_NO_TIME = {"skipped": "could not be made here", "failed": "failed"}


def _trouble(run: StudyRun) -> list[str]:
    statuses = Counter(record["status"] for record in run.records)
    wrong, total = statuses["wrong"], len(run.records)
    said = []
    if wrong:
        said.append(f"{wrong} of {total} measurements gave a wrong answer and have no time.")
    elif statuses["ok"]:
        said.append("Every answer was checked, and none was wrong.")
    rest = [f"{statuses[s]} {words}" for s, words in _NO_TIME.items() if statuses[s]]
    if rest:
        said.append(f"Of {total} measurements, {formats.listing(rest)}.")
    if wrong or rest:
        said.append("The reasons are below.")
    return [" ".join(said)] if said else []
