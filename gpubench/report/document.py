"""A report as data: what the templates print, in the order in which they print it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpubench.report import formats, tables, verdict
from gpubench.report.cells import Cell, Machine, StudyRun, Subject
from gpubench.report.figures import Axis, Chart, Drawing, Line, Panel, draw
from gpubench.report.tables import Table

_ORDERS = ("random", "nearly-sorted", "morton", "cell")  # from least to most ordered
_PARTICLES = Axis("particles", "particles")
_PER_CELL = Axis("particles per cell", "number")
_TIME = Axis("median time, ms", "number")


@dataclass(frozen=True)
class FigurePart:
    """A drawn figure."""

    chart: Chart
    drawings: Sequence[Drawing]


@dataclass(frozen=True)
class StudyPart:
    """What a report says about one study on one machine."""

    slug: str
    run: StudyRun
    verdict: Sequence[str]
    fastest: Table | None
    printed: Table | None
    measured: Table | None
    subjects: Sequence[Table]
    subject_notes: Sequence[str]
    kind: str
    cells: Table | None
    figures: Sequence[FigurePart]
    troubles: Table | None
    every_record: Table
    example_command: str


@dataclass(frozen=True)
class MachinePart:
    """What a report says about one machine."""

    slug: str
    machine: Machine
    studies: Sequence[StudyPart]
    environment: Table
    runs: Table


@dataclass(frozen=True)
class Document:
    """A whole report."""

    machines: Sequence[MachinePart]
    comparisons: Sequence[Table]


def build(machines: Sequence[Machine]) -> Document:
    """Work out everything that a report says about these machines."""
    parts: list[MachinePart] = []
    for machine in machines:
        slug = _slug(f"{machine.environment['machine']} {machine.backend}")
        taken = [part.slug for part in parts]
        if slug in taken:  # two devices of one machine under one back end
            slug = f"{slug}-{len(taken) + 1}"
        studies = [_study(run, f"{slug}-{_slug(run.study.name)}") for run in machine.studies]
        parts.append(
            MachinePart(slug, machine, studies, tables.environment(machine), tables.runs(machine))
        )
    shared = dict.fromkeys(run.study.name for machine in machines for run in machine.studies)
    comparisons = [tables.comparison(machines, name) for name in shared]
    return Document(parts, [table for table in comparisons if table is not None])


def _study(run: StudyRun, slug: str) -> StudyPart:
    published = run.study.published
    subject = verdict.best_form(run, published.algorithm) if published else None
    size = verdict.largest_size(run)
    by_size, notes = tables.subjects(run) if run.values("per_cell") else ([], [])
    troubles = tables.troubles(run)
    first = next(iter(run.cells.values()))
    return StudyPart(
        slug=slug,
        run=run,
        verdict=verdict.sentences(run),
        fastest=tables.fastest(run, size) if size is not None else None,
        printed=tables.printed(published) if published else None,
        measured=tables.measured(run, published, subject) if published and subject else None,
        subjects=by_size,
        subject_notes=notes,
        kind=tables.kind(run),
        cells=None if published else tables.headline_cells(run),
        figures=[FigurePart(chart, draw(chart)) for chart in charts(run, slug)],
        troubles=troubles if troubles.rows else None,
        every_record=tables.every_record(run),
        example_command=tables.command(first.headline),
    )


def charts(run: StudyRun, slug: str) -> list[Chart]:
    """Return the figures of a study that its records allow."""
    made = (_times(run, slug), _rounds(run, slug), _copy_share(run, slug), _orders(run, slug))
    return [chart for chart in made if chart is not None]


def _times(run: StudyRun, slug: str) -> Chart | None:
    panels = []
    for per_cell in run.values("per_cell"):
        lines = _lines(
            run,
            [(n, run.at(particles=n, per_cell=per_cell)) for n in run.values("particles")],
            lambda cell: cell.median_ms,
            band=True,
        )
        title = f"{formats.plain(per_cell)} per cell"
        panels.append(Panel(title, lines, _describe("Time against particles", title, lines, "ms")))
    return _chart(
        f"{slug}-time",
        "Time against particles",
        "One panel for each number of particles per cell, all on the same axes, both logarithmic."
        " Bands are the 95 % intervals of the medians; where none shows, it is narrower than"
        " its line.",
        _PARTICLES,
        _TIME,
        panels,
    )


def _rounds(run: StudyRun, slug: str) -> Chart | None:
    sizes, occupancies = run.values("particles"), run.values("per_cell")
    panels = []
    for subject in run.subjects:
        lines = []
        for index, size in enumerate(sizes):
            cells = [run.find(subject, particles=size, per_cell=p) for p in occupancies]
            points = [
                (p, float(cell.headline["outcome"]["rounds"]))
                for p, cell in zip(occupancies, cells, strict=True)
                if cell is not None and cell.ok and "rounds" in cell.headline["outcome"]
            ]
            if points:
                x, y = zip(*points, strict=True)
                lines.append(Line(formats.power(size), x, y, colour=index))
        if lines:
            title = run.labels[subject]
            text = _describe("Rounds against particles per cell", title, lines, "rounds")
            panels.append(Panel(title, lines, text))
    return _chart(
        f"{slug}-rounds",
        "Rounds against occupancy",
        "How often the loop goes round until every particle is linked. A round links at most one"
        " particle of a cell, so the fullest cell sets the least number. One line for each"
        " number of particles.",
        _PER_CELL,
        Axis("rounds", "linear"),
        panels,
    )


def _copy_share(run: StudyRun, slug: str) -> Chart | None:
    paper = verdict.largest_size(run)
    sizes = dict.fromkeys(s for s in (paper, max(run.values("particles"), default=None)) if s)
    panels = []
    for size in sizes:
        lines = _lines(
            run,
            [(p, run.at(particles=size, per_cell=p)) for p in run.values("per_cell")],
            lambda cell: None if cell.copy_share is None else 100 * cell.copy_share,
        )
        title = f"{formats.power(size)} particles"
        text = _describe("Share of the copy bandwidth", title, lines, "%")
        panels.append(Panel(title, lines, text))
    return _chart(
        f"{slug}-bandwidth",
        "Share of the copy bandwidth",
        "The fewest bytes that an algorithm must move, over its median time, as a share of the"
        " bandwidth of a plain copy measured on the same machine (dotted: all of it). Data that"
        " stay in a cache can go above.",
        _PER_CELL,
        Axis("% of copy bandwidth", "number"),
        panels,
        reference=100,
    )


def _orders(run: StudyRun, slug: str) -> Chart | None:
    found = {place.order for _, place in run.cells}
    orders = [o for o in _ORDERS if o in found]
    panels = []
    for size in run.values("particles"):
        for per_cell in run.values("per_cell"):
            at = [run.at(particles=size, per_cell=per_cell, order=order) for order in orders]
            if sum(any(cell.ok for cell in cells) for cells in at) < 2:
                continue
            lines = _lines(run, list(enumerate(at)), lambda cell: cell.median_ms, band=True)
            title = f"{formats.power(size)} particles, {formats.plain(per_cell)} per cell"
            text = _describe("Time against initial order", title, lines, "ms")
            panels.append(Panel(title, lines, text))
    return _chart(
        f"{slug}-order",
        "Effect of the initial order",
        "The same particles given in another order: at random, in cell order with 1 % swapped,"
        " along a Morton curve of the cells, in cell order.",
        Axis("", "names", tuple(_ORDER_NAMES.get(o, o) for o in orders)),
        _TIME,
        panels,
    )


_ORDER_NAMES = {"nearly-sorted": "nearly", "morton": "Morton"}


def _lines(
    run: StudyRun,
    columns: Sequence[tuple[float, Sequence[Cell]]],
    value: Callable[[Cell], float | None],
    band: bool = False,
) -> list[Line]:
    """Make one line for each subject from the cells at each x."""
    lines = []
    for subject in run.subjects:
        points = [
            (x, y, cell.interval_ms if band else (y, y))
            for x, cells in columns
            for cell in cells
            if cell.subject == subject and cell.ok and (y := value(cell))
        ]
        if points:
            xs, ys, intervals = zip(*points, strict=True)
            low, high = zip(*intervals, strict=True)
            colour, variant = _look(run, subject)
            lines.append(Line(run.labels[subject], xs, ys, low, high, colour, variant))
    return lines


def _look(run: StudyRun, subject: Subject) -> tuple[int, int]:
    """Return a subject's colour (by algorithm) and dashes (by form)."""
    algorithms = list(dict.fromkeys(s.algorithm for s in run.subjects))
    siblings = [s for s in run.subjects if s.algorithm == subject.algorithm]
    return algorithms.index(subject.algorithm), siblings.index(subject)


def _chart(
    slug: str,
    title: str,
    caption: str,
    x: Axis,
    y: Axis,
    panels: Sequence[Panel],
    reference: float | None = None,
) -> Chart | None:
    shown = [panel for panel in panels if panel.lines]
    return Chart(slug, title, caption, x, y, shown, reference) if shown else None


def _describe(what: str, where: str, lines: Sequence[Line], unit: str) -> str:
    """Say in words what a panel shows: each line's last value."""
    ends = ", ".join(f"{line.label} {formats.significant(line.y[-1])}" for line in lines)
    return f"{what}, {where}. At the right end, {unit}: {ends}."


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
