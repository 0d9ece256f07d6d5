"""Tables of the papers beside what was measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpubench.evidence.declared import Group
from gpubench.evidence.ranking import Subject
from gpubench.report import formats, ranks
from gpubench.report.axes import AXES
from gpubench.report.cells import MODES, Cell, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table
from gpubench.report.scans import words_of
from gpubench.report.tables import TIMES, modes, timed, unit_name
from gpubench.studies.claims import CLAIMS
from gpubench.studies.study import Published


@dataclass(frozen=True)
class Match:
    """A published number in its unit, and the cell that belongs beside it, if measured."""

    published: float
    unit: str
    cell: Cell | None

    @property
    def speedup(self) -> float | None:
        """Published over measured time."""
        return None if self.cell is None else self.over(self.cell)

    def over(self, cell: Cell) -> float | None:
        """Return the published time over that of any cell; None where that has none."""
        if not cell.ok or not cell.median_ms:
            return None
        return self.published * cell.unit_ms(self.unit) / float(cell.median_ms)


Grid = Sequence[Sequence[Match]]


def matches(run: StudyRun, published: Published, forms: Mapping[str, Subject | None]) -> Grid:
    """Return the published table with what was measured: rows and columns as published.

    forms: which subject stands for each algorithm.
    """

    def match(row: float, index: int, value: float) -> Match:
        subject = forms.get(column_algorithm(published, index))
        axes = dict(published.axes) | {published.row_axis: row}
        if not published.algorithms:
            axes[published.column_axis] = published.columns[index]
        return Match(value, published.unit, run.find(subject, **axes) if subject else None)

    return [
        [match(row, index, value) for index, value in enumerate(values)]
        for row, values in zip(published.rows, published.values, strict=True)
    ]


def column_algorithm(published: Published, index: int) -> str:
    """Return which of our algorithms the numbers of a published column belong beside."""
    return published.algorithms[index] if published.algorithms else published.algorithm


def paper_forms(run: StudyRun, published: Published) -> dict[str, Subject | None]:
    """Return the forms that the paper describes: the first of each algorithm that a study names."""
    first = {subject.algorithm: subject for subject in reversed(run.subjects)}
    return {name: first.get(name) for name in published.algorithms or (published.algorithm,)}


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
            theirs += [line[over].published / line[under].published for line in grid]
            here += [_measured_ratio(line[over].cell, line[under].cell) for line in grid]
    return theirs, [ratio for ratio in here if ratio is not None]


def _measured_ratio(over: Cell | None, under: Cell | None) -> float | None:
    """Divide times of one mode: the first in which both are timed; None where there is none."""
    if over is None or under is None or not (over.ok and under.ok):
        return None
    for mode in MODES:
        if over.is_timed(mode) and under.is_timed(mode) and under.modes[mode].median_ms:
            return float(over.modes[mode].median_ms / under.modes[mode].median_ms)
    return None


# Tables of a study's page.


def as_published(published: Published) -> Table:
    """Return the table as published."""
    axis = AXES[published.row_axis]
    rows = [
        Row(axis.count(row), [Item(text) for text in texts])
        for row, texts in zip(published.rows, published.texts, strict=True)
    ]
    notes = [published.note] if published.note else []
    unit = unit_name(published.unit)
    if published.quantities:
        columns = [axis.heading, *map(str, published.columns)]
        return Table(f"Published: {published.device}, times in {unit}", columns, rows, notes=notes)
    columns = _columns(published, [""] * len(published.columns))
    over = _over(published, f"time, {unit}")
    return Table(f"Published: {published.device}, {unit}", columns, rows, over, notes)


def measured(run: StudyRun, published: Published) -> list[Table]:
    """Return the published table as measured, each time with the speed-up over the published.

    Once for the forms that the paper describes and, where they are others, once for the best.
    Empty where nothing of it was measured.
    """
    if published.quantities:
        table = ranks.measured(run, published)
        return [table] if table else []
    paper = paper_forms(run, published)
    best = {name: run.best_form(name) for name in paper}
    which = "the paper's variant" + ", which is the best" * (best == paper)
    tables = [_measured(run, published, paper, which)]
    if best != paper:
        tables.append(_measured(run, published, best, "the best variant"))
    return [table for table in tables if table]


def _measured(
    run: StudyRun, published: Published, forms: Mapping[str, Subject | None], which: str
) -> Table | None:
    grid = matches(run, published, forms)
    if not any(match.cell for line in grid for match in line):
        return None
    marks, note = modes(match.cell for line in grid for match in line)
    rows = []
    for row, line in zip(published.rows, grid, strict=True):
        items = [
            timed(m.cell, marks, formats.ratio(m.speedup) if m.speedup else "", unit=run.unit)
            for m in line
        ]
        rows.append(Row(AXES[published.row_axis].count(row), items))
    notes = [note]
    if any(match.speedup for line in grid for match in line):
        notes.append(f"{TIMES} is the published time over the measured one ({published.device}).")
    labels = [
        run.labels[subject] if (subject := forms[column_algorithm(published, i)]) else "not timed"
        for i in range(len(published.columns))
    ]
    median = f"median, {unit_name(run.unit)}"
    shown = which if published.algorithms else f"{labels[0]}, {which}"
    columns = _columns(published, [f": {label}" for label in labels])
    return Table(f"Measured: {shown}, {median}", columns, rows, _over(published, median), notes)


def _columns(published: Published, labels: Sequence[str]) -> list[str]:
    head = AXES[published.row_axis].heading
    if published.algorithms:
        named = zip(published.columns, labels, strict=True)
        return [head, *(f"{column}{label}" for column, label in named)]
    return [head, *(AXES[published.column_axis].count(c) for c in published.columns)]


def _over(published: Published, what: str) -> str:
    over = "Algorithm" if published.algorithms else AXES[published.column_axis].heading
    return f"{over}; {what}"


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
    words = published.claim or f"the ratio is {name}"
    return [
        f"The paper says: \u201c{words}\u201d, which is"
        f" {formats.span([claimed(row) for row in published.rows])} in its table. Its own numbers"
        f" give {formats.span(theirs)}; here the ratio of the paper's variants is"
        f" {formats.span(here)}."
    ]


# Rows of the front page.

HEADINGS = ("Row", "Published", "Measured, variant of the paper", "Measured, best variant")


def overview(run: StudyRun, link: str) -> list[Row]:
    """Return a row for each kind of answer: one published time beside those measured.

    Below each time stands how many times faster than published it is, from the least to the most
    over all rows of the published table.
    """
    published = run.study.published
    if published is None:
        return []
    if published.quantities:
        return ranks.overview(run, published, link)
    names = [column_algorithm(published, i) for i in range(len(published.columns))]
    columns = [i for i, name in enumerate(names) if name == published.algorithm]
    # One card of several, or the middle one of several values of an axis.
    columns = columns[:1] if published.algorithms else columns
    shown = columns[len(columns) // 2]
    grid = matches(run, published, paper_forms(run, published))
    best: dict[Group, dict[tuple[int, int], Cell]] = {}
    for row, line in enumerate(grid):
        for column in columns:
            cell = line[column].cell
            ranked = run.ranked_at(cell.place) if cell else []
            for group, alike in grouped(ranked, lambda cell: cell.ranked.group).items():
                if cell and group.problem == cell.ranked.group.problem:
                    best.setdefault(group, {})[row, column] = alike[0]
    last = max((row for found in best.values() for row, column in found if column == shown),
               default=len(grid) - 1)  # fmt: skip
    own = {(row, i): line[i].cell for row, line in enumerate(grid) for i in columns}
    at = AXES[published.row_axis].say(published.rows[last])
    if not published.algorithms:
        at += f", {AXES[published.column_axis].say(published.columns[shown])}"
    unit = unit_name(published.unit)
    theirs = Item(f"{published.texts[last][shown]} {unit}", "words", published.device)
    rows = []
    for group, found in best.items():
        items = (_against(run, grid, cells, (last, shown)) for cells in (own, found))
        answer = f": {words_of(group, best)}" if len(best) > 1 else ""
        rows.append(Row(f"{run.study.title}{answer}", [Item(at, "words"), theirs, *items], link))
    return rows


def _against(
    run: StudyRun, grid: Grid, cells: Mapping[tuple[int, int], Cell | None], at: tuple[int, int]
) -> Item:
    cell = cells.get(at)
    ratios = [r for (row, i), c in cells.items() if c and (r := grid[row][i].over(c)) is not None]
    if cell is None or not cell.ok or not ratios:
        return NOTHING
    time = cell.median_ms / cell.unit_ms(run.unit)
    unit = unit_name(run.unit)
    if unit.startswith("µs ") and time < 1e-3:
        time, unit = 1e6 * time, f"ps {unit[3:]}"
    label = run.labels[cell.subject]
    detail = f"{label}, {formats.span(ratios)}{TIMES}"
    return Item(f"{formats.significant(time)} {unit}", "words", detail)
