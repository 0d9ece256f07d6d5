"""Published tables beside our measurements."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench.evidence.ranking import MODES, Variant
from gpubench.report import formats, steps
from gpubench.report.axes import AXES
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Item, Row, Table
from gpubench.report.tables import TIMES, modes, timed, unit_name
from gpubench.studies.study import Published

Forms = Mapping[str, Variant | None]  # the variant that represents each algorithm
_NOT_MEASURED = Item("not measured", "none")


class Match(NamedTuple):
    """A published value (`theirs`), our value (`here`), and by which factor ours is `better`."""

    theirs: float
    cell: MeasurementRow | None
    here: float | None = None
    better: float | None = None


Matches = Mapping[tuple[int, int], Match]  # keys: row and column


def matches(run: StudyRun, published: Published, forms: Forms) -> Matches:
    """Match a published table with measurements.

    All measurements are in one mode: the one with the most times; if several, the first in MODES.
    """
    every = itertools.product(range(len(published.rows)), range(len(published.columns)))
    cells = {at: _cell(run, published, *at, forms) for at in every}
    known = [cell for cell in cells.values() if cell is not None]
    mode = max(MODES, key=lambda mode: sum(cell.is_timed(mode) for cell in known))
    in_mode = {at: cell and cell.modes.get(mode) for at, cell in cells.items()}
    return {at: _match(run, published, at, cell) for at, cell in in_mode.items()}


def _cell(
    run: StudyRun, published: Published, row: int, column: int, forms: Forms
) -> MeasurementRow | None:
    size, subject = published.rows[row], forms[column_algorithm(published, column)]
    if subject is None:
        return None
    if published.quantities:
        shared = published.quantities[column]
        way = steps.Way(shared.ranks or 1, shared.decomposition)
        return steps.timed(run, subject).get((way, int(size)))
    axes = dict(published.axes) | {published.row_axis: size}
    if not published.algorithms:
        axes[published.column_axis] = published.columns[column]
    return run.find(subject, **axes)


def _match(
    run: StudyRun, published: Published, at: tuple[int, int], cell: MeasurementRow | None
) -> Match:
    """Match the published value in a row and a column with its measurement."""
    theirs = published.values[at[0]][at[1]]
    if cell is None or not cell.ok or not cell.median_ms:
        return Match(theirs, cell)
    if not published.quantities:
        better = theirs * cell.unit_ms(published.unit) / cell.median_ms
        return Match(theirs, cell, cell.median_ms / cell.unit_ms(run.unit), better)
    what, frame_ms = published.quantities[at[1]].what, cell.frame_ms
    if frame_ms is None or what == "speed_up":  # shown by `steps.comparison`
        return Match(theirs, cell)
    if what == "frames_per_s":
        return Match(theirs, cell, 1e3 / frame_ms, 1e3 / frame_ms / theirs)
    return Match(theirs, cell, frame_ms, theirs / frame_ms)


def column_algorithm(published: Published, index: int) -> str:
    """Return the algorithm that a published column is compared with."""
    return published.algorithms[index] if published.algorithms else published.algorithm


def variants(run: StudyRun, published: Published) -> tuple[Forms, Forms]:
    """Return each algorithm's variant as in the paper, and its best variant.

    The paper's variant is the first that the study names; None if it was not measured.
    """
    swept = (subject for sweep in run.study.sweeps for subject in sweep.subjects)
    named = [(each.algorithm, each.form) for each in (*run.study.subjects, *swept)]
    first = dict(reversed(named))
    names = {published.algorithm, *published.algorithms}
    cells = grouped(run.timed, lambda cell: cell.subject.algorithm)
    measured = {(s.algorithm, s.form): s for s in reversed(run.subjects)}
    paper = {name: measured.get((name, first[name])) for name in names}
    return paper, {name: run.winner(cells.get(name, ())) for name in names}


def as_published(published: Published) -> Table:
    """Return the table as published."""
    axis = AXES[published.row_axis]
    lines = zip(published.rows, published.texts, strict=True)
    rows = [Row(axis.count(row), list(map(Item, texts))) for row, texts in lines]
    title = f"Published: {published.device}, {unit_name(published.unit)}"
    return Table(title, _columns(published, [""] * len(rows[0].items)), rows, [published.note])


def measured(run: StudyRun, published: Published) -> list[Table]:
    """Return the table with our times: of the paper's variants, then of the best if different."""
    paper, best = variants(run, published)
    which = {"the paper's variant": paper, "the best variant": best}
    if paper == best:
        which = {"the paper's variant, which is the best": paper}
    tables = (_measured(run, published, forms, name) for name, forms in which.items())
    return [table for table in tables if table]


def _measured(run: StudyRun, published: Published, forms: Forms, which: str) -> Table | None:
    grid = matches(run, published, forms)
    every = [match for match in grid.values() if match.cell]
    if not every:
        return None
    marks, note = modes(match.cell for match in every)
    items = {at: _item(match, marks) for at, match in grid.items()}
    columns = sorted({column for (_, column), item in items.items() if item != _NOT_MEASURED})
    sizes = map(AXES[published.row_axis].count, published.rows)
    rows = [Row(size, [items[row, i] for i in columns]) for row, size in enumerate(sizes)]
    subjects = [forms[column_algorithm(published, i)] for i in range(len(published.columns))]
    labels = [f": {run.labels[subject]}" if subject else "" for subject in subjects]
    head, *heads = _columns(published, labels)
    notes = [note]
    notes += [steps.FRAME] if published.quantities else []
    if any(match.better for match in every):
        notes.append(f"{TIMES}: times as fast as published ({published.device}).")
    used = dict.fromkeys(run.labels[match.cell.subject] for match in every if match.cell)
    shown = which if published.algorithms else f"{formats.listing(used)}, {which}"
    title = f"Measured: {shown}, {unit_name(run.unit)}"
    gone = [name for i, name in enumerate(heads) if i not in columns]
    notes += [f"Not measured: {formats.listing(gone)}."] if gone else []
    return Table(title, [head, *(heads[i] for i in columns)], rows, notes) if columns else None


def _item(match: Match, marks: Mapping[str, str]) -> Item:
    if match.cell is None or (match.cell.ok and match.here is None):
        return _NOT_MEASURED
    detail = formats.ratio(match.better) if match.better else ""
    return timed(match.cell, marks, detail, value=match.here)


def _columns(published: Published, labels: Sequence[str]) -> list[str]:
    head = AXES[published.row_axis].heading
    if published.algorithms:
        named = zip(published.columns, labels, strict=True)
        return [head, *(f"{column}{label}" for column, label in named)]
    if published.quantities:
        return [head, *map(str, published.columns)]
    return [head, *(AXES[published.column_axis].say(c) for c in published.columns)]


def faster(run: StudyRun) -> str:
    """Say by what factor our times beat the published ones, and how they were timed; "" if none."""
    published, said = run.study.published, []
    for forms in variants(run, published) if published else ():
        grid = matches(run, published, forms).values() if published else ()
        found = [(match.better, match.cell.how) for match in grid if match.better and match.cell]
        if not found:
            return ""
        said.append(f"{formats.span([better for better, _ in found])} ({found[0][1]})")
    best = f", the best {said[-1]}" if len({*said}) > 1 else ""
    return f"Times as fast as published: the paper's variant {said[0]}{best}." if said else ""
