"""Tables of the papers beside what was measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpubench.evidence.declared import EqualWork
from gpubench.evidence.ranking import Variant
from gpubench.report import formats, steps
from gpubench.report.axes import AXES
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table, words
from gpubench.report.scans import words_of
from gpubench.report.tables import TIMES, modes, timed, unit_name
from gpubench.studies.claims import CLAIMS
from gpubench.studies.study import Published

Forms = Mapping[str, Variant | None]  # which subject stands for each algorithm


class Match(NamedTuple):
    """A published value and what was measured of it, if anything: its cell and its value.

    better: how many times better than published it is; None where that says nothing.
    """

    theirs: float
    cell: MeasurementRow | None
    here: float | None = None
    better: float | None = None


def matches(run: StudyRun, published: Published, forms: Forms) -> list[list[Match]]:
    """Return the published table with what was measured: rows and columns as published."""

    def match(row: int, column: int) -> Match:
        # A column with an algorithm of its own is of the table's where that was not measured.
        for name in (column_algorithm(published, column), published.algorithm):
            subject = forms.get(name)
            cell = _cell(run, published, row, column, subject) if subject else None
            is_other = cell and published.quantities and cell.place.workload != run.kind["workload"]
            if cell and not is_other:
                break
        return _match(run, published, (row, column), None if is_other else cell)

    columns = range(len(published.columns))
    return [[match(row, column) for column in columns] for row in range(len(published.rows))]


def _cell(
    run: StudyRun, published: Published, row: int, column: int, subject: Variant
) -> MeasurementRow | None:
    size = published.rows[row]
    if published.quantities:
        return steps.find(run, subject, steps.way_of(published.quantities[column]), size)
    axes = dict(published.axes) | {published.row_axis: size}
    if not published.algorithms:
        axes[published.column_axis] = published.columns[column]
    return run.find(subject, **axes)


def _match(
    run: StudyRun, published: Published, at: tuple[int, int], cell: MeasurementRow | None
) -> Match:
    """Return what was measured of the published value in a row and a column."""
    theirs = published.values[at[0]][at[1]]
    if cell is None or not cell.ok or not cell.median_ms:
        return Match(theirs, cell)
    if not published.quantities:
        better = theirs * cell.unit_ms(published.unit) / cell.median_ms
        return Match(theirs, cell, cell.median_ms / cell.unit_ms(run.unit), better)
    what, frame_ms = published.quantities[at[1]].what, cell.frame_ms
    if frame_ms is None:
        return Match(theirs, cell)
    if what == "speed_up":
        one = steps.find(run, cell.subject, steps.ALONE, published.rows[at[0]])
        return Match(theirs, cell, steps.ratio(one.frame_ms if one else None, frame_ms))
    if what == "frames_per_s":
        return Match(theirs, cell, 1e3 / frame_ms, 1e3 / frame_ms / theirs)
    return Match(theirs, cell, frame_ms, theirs / frame_ms)


def column_algorithm(published: Published, index: int) -> str:
    """Return which of our algorithms the numbers of a published column belong beside."""
    if published.quantities:
        return published.quantities[index].algorithm or published.algorithm
    return published.algorithms[index] if published.algorithms else published.algorithm


def paper_forms(run: StudyRun, published: Published) -> dict[str, Variant | None]:
    """Return the forms that the paper describes: the first of each algorithm that a study names."""
    first = {subject.algorithm: subject for subject in reversed(run.subjects)}
    columns = range(len(published.columns))
    return {name: first.get(name) for name in (column_algorithm(published, i) for i in columns)} | {
        published.algorithm: first.get(published.algorithm)
    }


# Tables of a study's page.


def as_published(published: Published) -> Table:
    """Return the table as published."""
    axis = AXES[published.row_axis]
    rows = [
        Row(axis.count(row), [Item(text) for text in texts])
        for row, texts in zip(published.rows, published.texts, strict=True)
    ]
    return Table(
        f"Published: {published.device}, {unit_name(published.unit)}",
        _columns(published, [""] * len(published.columns)),
        rows,
        [published.note],
    )


def measured(run: StudyRun, published: Published) -> list[Table]:
    """Return the published table as measured, each value with how much better it is.

    Once for the forms that the paper describes and, where they are others, once for the best.
    Empty where nothing of it was measured.
    """
    paper = paper_forms(run, published)
    by_name = grouped(run.timed, lambda cell: cell.subject.algorithm)
    ours = {name: published.algorithm if published.quantities else name for name in paper}
    best = {name: run.winner(by_name.get(own, ())) for name, own in ours.items()}
    # An algorithm of a column counts only where it was measured.
    is_best = matches(run, published, paper) == matches(run, published, best)
    which = "the paper's variant" + ", which is the best" * is_best
    tables = [_measured(run, published, paper, which)]
    if not is_best:
        tables.append(_measured(run, published, best, "the best variant"))
    return [table for table in tables if table]


def _measured(run: StudyRun, published: Published, forms: Forms, which: str) -> Table | None:
    grid = matches(run, published, forms)
    every = [match for line in grid for match in line]
    if not any(match.cell for match in every):
        return None
    marks, note = modes(match.cell for match in every)
    rows = [
        Row(AXES[published.row_axis].count(row), [_item(match, marks) for match in line])
        for row, line in zip(published.rows, grid, strict=True)
    ]
    labels = [
        run.labels[subject] if (subject := forms[column_algorithm(published, i)]) else "not timed"
        for i in range(len(published.columns))
    ]
    notes = [note]
    if several := sorted({steps.way_of(q).label for q in published.quantities if q.ranks}):
        notes.append(f"{steps.FRAME} Several GPUs are {formats.listing(several)}.")
    if any(match.better for match in every):
        notes.append(f"{TIMES}: times as fast as published ({published.device}).")
    used = dict.fromkeys(run.labels[match.cell.subject] for match in every if match.cell)
    shown = which if published.algorithms else f"{formats.listing(used)}, {which}"
    columns = _columns(published, [f": {label}" for label in labels])
    return Table(f"Measured: {shown}, {unit_name(run.unit)}", columns, rows, notes)


def _item(match: Match, marks: Mapping[str, str]) -> Item:
    detail = formats.ratio(match.better) if match.better else ""
    is_missing = match.cell is not None and match.cell.ok and match.here is None
    return NOTHING if is_missing else timed(match.cell, marks, detail, value=match.here)


def _columns(published: Published, labels: Sequence[str]) -> list[str]:
    head = AXES[published.row_axis].heading
    if published.algorithms:
        named = zip(published.columns, labels, strict=True)
        return [head, *(f"{column}{label}" for column, label in named)]
    if published.quantities:
        return [head, *map(str, published.columns)]
    return [head, *(AXES[published.column_axis].say(c) for c in published.columns)]


# What is said.


def claim(run: StudyRun) -> list[str]:
    """Set the ratio of two columns beside what the paper claims of it, if it claims any."""
    published = run.study.published
    if published is None or run.study.name not in CLAIMS:
        return []
    name, claimed = CLAIMS[run.study.name]
    theirs, here = ratios(run, published)
    if not theirs or not here:
        return []
    said = published.claim or f"the ratio is {name}"
    return [
        f"The paper says: \u201c{said}\u201d, which is"
        f" {formats.span([claimed(row) for row in published.rows])} in its table. Its own numbers"
        f" give {formats.span(theirs)}; here the ratio of the paper's variants is"
        f" {formats.span(here)}."
    ]


def ratios(run: StudyRun, published: Published) -> tuple[list[float], list[float]]:
    """Divide each column of another algorithm by the nearest of the published algorithm.

    Before it if there is one before, else after it: a table may hold both for several cards.
    Returns all ratios as published, and those of the paper's variants measured here.
    """
    grid = matches(run, published, paper_forms(run, published))
    own = [i for i, name in enumerate(published.algorithms) if name == published.algorithm]
    theirs, here = [], []
    for over, name in enumerate(published.algorithms):
        if name != published.algorithm:
            under = max((i for i in own if i < over), default=own[0])
            theirs += [line[over].theirs / line[under].theirs for line in grid]
            pairs = ((line[over].cell, line[under].cell) for line in grid)
            here += [one.over(other) for one, other in pairs if one and other]
    return theirs, [ratio.value for ratio in here if ratio is not None]


# Rows of the front page.

HEADINGS = ("Row", "Published", "Measured, variant of the paper", "Measured, best variant")
BELOW = "Below each: the variant, and how many times faster than published, over all rows."


def overview(run: StudyRun, link: str) -> Iterator[Row]:
    """Yield a row for each kind of answer: one published value beside those measured.

    Below each stands how many times faster than published it is, from the least to the most over
    all rows of the published table.
    """
    published = run.study.published
    if published is None:
        return
    grid = matches(run, published, paper_forms(run, published))
    for head, columns in _told_columns(published):
        shown = columns[len(columns) // 2]  # the middle one of several values of an axis
        own = {(row, i): line[i] for row, line in enumerate(grid) for i in columns}
        best = _best(run, published, own)
        places = [row for found in best.values() for row, column in found if column == shown]
        last = max(places, default=len(grid) - 1)
        at = AXES[published.row_axis].say(published.rows[last])
        if not (published.algorithms or published.quantities):
            at += f", {AXES[published.column_axis].say(published.columns[shown])}"
        unit = "frames/s" if published.quantities else unit_name(published.unit)
        theirs = words(f"{published.texts[last][shown]} {unit}", published.device)
        for group, found in best.items():
            items = (_against(run, each, (last, shown), unit) for each in (own, found))
            answer = words_of(group, best) if len(best) > 1 else head
            title = ": ".join(filter(None, (run.study.title, answer)))
            yield Row(title, [words(at), theirs, *items], link)


def _told_columns(published: Published) -> Iterator[tuple[str, list[int]]]:
    """Yield the columns that rows of the front page are of, and what tells them apart."""
    if published.quantities:
        for index, quantity in enumerate(published.quantities):
            if quantity.what == "frames_per_s":
                yield steps.way_of(quantity).label, [index]
        return
    names = [column_algorithm(published, i) for i in range(len(published.columns))]
    columns = [i for i, name in enumerate(names) if name == published.algorithm]
    yield "", columns[:1] if published.algorithms else columns  # one card of several


def _best(
    run: StudyRun, published: Published, own: Mapping[tuple[int, int], Match]
) -> dict[EqualWork, dict[tuple[int, int], Match]]:
    """Return the fastest of all that does equal work, of each kind of answer."""
    best: dict[EqualWork, dict[tuple[int, int], Match]] = {}
    for at, match in own.items():
        ranked = run.ranked_at(match.cell.place) if match.cell else []
        for group, alike in grouped(ranked, lambda cell: cell.ranked.group).items():
            if match.cell and group.problem == match.cell.ranked.group.problem:
                found = _match(run, published, at, alike[0])
                if found.here is not None:
                    best.setdefault(group, {})[at] = found
    return best


def _against(
    run: StudyRun, found: Mapping[tuple[int, int], Match], at: tuple[int, int], unit: str
) -> Item:
    match = found.get(at)
    better = [each.better for each in found.values() if each.better is not None]
    if match is None or match.cell is None or match.here is None:
        return NOTHING
    value = match.here
    if unit.startswith("µs ") and value < 1e-3:
        value, unit = 1e6 * value, f"ps {unit[3:]}"
    label = run.labels[match.cell.subject]
    return words(f"{formats.significant(value)} {unit}", f"{label}, {formats.span(better)}{TIMES}")
