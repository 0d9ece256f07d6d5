"""What a report says and shows of one rank against several, and of frames beside steps.

A frame is a step and a picture of it. Speed-up is over one rank, of the same algorithm on as many
particles. All is of the algorithm that is fastest on the most inputs, but for what stands beside
a published table, which is of the algorithm of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpubench.evidence.ranking import Subject
from gpubench.report import formats, tables
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell
from gpubench.report.figures import Axis, Chart, Line, Point, line_chart, panel, rate_point
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table
from gpubench.studies.study import Published, Quantity

_FRAME = (
    "A frame is a step and a picture of it drawn on the device, which is timed by itself after the"
    " step."
)
_SPEED_UP = (
    "Speed-up is the time of a step on one rank over that on several; communication is the share"
    " of the phases of a step in which ranks exchange."
)
_SIZE = AXES["particles"]
_GREY = 5  # index of a colour


@dataclass(frozen=True)
class Way:
    """How a step is shared: by how many ranks, and how; None for one rank."""

    ranks: int
    decomposition: str | None

    @property
    def label(self) -> str:
        """A short name for people: "2 ranks, slab"."""
        return "1 rank" if self.ranks == 1 else f"{self.ranks} ranks, {self.decomposition}"


ALONE = Way(1, None)


def ratio(one: float | None, several: float | None) -> float | None:
    """Divide a time on one rank by that on several; None where one of them is missing."""
    return one / several if one and several else None


def ways(run: StudyRun) -> list[Way]:
    """Return in which ways several ranks were timed."""
    places = [cell.place for cell in run.timed]
    found = {(p.ranks or 1, p.decomposition) for p in places if p.ranks not in (None, 1)}
    order = AXES["decomposition"].order([name for _, name in found])
    return [Way(*way) for way in sorted(found, key=lambda way: (way[0], order.index(way[1])))]


def leader(run: StudyRun) -> Subject | None:
    """Return the subject that is fastest on the most inputs; None where nothing was timed."""
    return run.winner(run.timed)


def find(run: StudyRun, subject: Subject, way: Way, particles: float) -> Cell | None:
    """Return a subject's timed cell of so many particles, shared in a way; None without one."""
    cell = run.find(subject, particles=particles, ranks=way.ranks, decomposition=way.decomposition)
    return cell if cell is not None and cell.ok and cell.median_ms else None


def sizes(run: StudyRun) -> list[int]:
    """Return the numbers of particles of which anything was timed."""
    return sorted({cell.place.count for cell in run.timed})


class Match(NamedTuple):
    """A published number, and what was measured of it: the value and its cell, where it was."""

    what: str
    published: float
    cell: Cell | None
    here: float | None

    @property
    def factor(self) -> float | None:
        """How many times better than published it is."""
        if self.here is None:
            return None
        is_time = self.what == "frame_ms"
        return self.published / self.here if is_time else self.here / self.published


def _matches(
    run: StudyRun, published: Published, subject: Subject | None, *, is_paper: bool = False
) -> list[list[Match]]:
    """Return the published table with what was measured: rows and columns as published.

    is_paper: whether a quantity with an algorithm of its own is of that, where it was measured.
    """

    def match(row: float, quantity: Quantity, theirs: float) -> Match:
        own = next((s for s in run.subjects if s.algorithm == quantity.algorithm), None)
        cell = find(run, own, _way_of(quantity), row) if is_paper and own else None
        if cell is None or cell.place.workload != run.kind["workload"]:
            cell = find(run, subject, _way_of(quantity), row) if subject else None
        frame_ms = cell.frame_ms if cell else None
        here = frame_ms
        if quantity.what == "frames_per_s":
            here = 1e3 / frame_ms if frame_ms else None
        elif quantity.what == "speed_up" and subject:
            one = find(run, subject, ALONE, row)
            here = ratio(one.frame_ms if one else None, frame_ms)
        return Match(quantity.what, theirs, cell, here)

    return [
        [match(row, *each) for each in zip(published.quantities, values, strict=True)]
        for row, values in zip(published.rows, published.values, strict=True)
    ]


def _way_of(quantity: Quantity) -> Way:
    return Way(quantity.ranks or 1, quantity.decomposition)


def measured(run: StudyRun, published: Published) -> Table | None:
    """Return a published table of quantities as measured, each beside how it does to that.

    None where nothing of it was measured.
    """
    subject = run.best_form(published.algorithm)
    grid = _matches(run, published, subject, is_paper=True)
    if subject is None or all(match.here is None for line in grid for match in line):
        return None
    marks, note = tables.modes(match.cell for line in grid for match in line if match.cell)
    rows = [
        Row(_SIZE.count(row), [_beside(match, marks) for match in line])
        for row, line in zip(published.rows, grid, strict=True)
    ]
    several = formats.listing(sorted({_way_of(q).label for q in published.quantities if q.ranks}))
    notes = [
        note,
        f"{_FRAME} Several GPUs are {several}.",
        f"{tables.TIMES} is how many times as fast as published"
        f" ({published.device}); a dash stands for not measured.",
    ]
    columns = [_SIZE.heading, *map(str, published.columns)]
    named = dict.fromkeys(run.labels[m.cell.subject] for line in grid for m in line if m.cell)
    caption = f"Measured: {formats.listing(named)}, times in {tables.unit_name(run.unit)}"
    return Table(caption, columns, rows, notes=notes)


def _beside(match: Match, marks: Mapping[str, str]) -> Item:
    if match.here is None or match.cell is None or match.factor is None:
        return NOTHING
    text = formats.significant(match.here)
    if match.what == "speed_up":
        return Item(text)
    return Item(text, detail=formats.ratio(match.factor), mark=marks.get(match.cell.mode, ""))


def overview(run: StudyRun, published: Published, link: str) -> list[Row]:
    """Return a row of the front page for each column of frames, at its last row measured."""
    paper = next((s for s in run.subjects if s.algorithm == published.algorithm), None)
    if paper is None:
        return []
    grids = [
        (paper, _matches(run, published, paper, is_paper=True)),
        (leader(run) or paper, _matches(run, published, leader(run) or paper)),
    ]
    rows = []
    for index, quantity in enumerate(published.quantities):
        columns = [(subject, [line[index] for line in grid]) for subject, grid in grids]
        known = [n for n, match in enumerate(columns[0][1]) if match.here is not None]
        if quantity.what != "frames_per_s" or not known:
            continue
        items = []
        for subject, column in columns:
            factors = [match.factor for match in column if match.factor is not None]
            here, cell = column[known[-1]].here, column[known[-1]].cell
            label = run.labels[cell.subject if cell else subject]
            detail = f"{label}, {formats.span(factors)}{tables.TIMES}"
            time = Item(f"{formats.significant(here or 0)} frames/s", "words", detail)
            items.append(NOTHING if here is None else time)
        theirs = f"{published.texts[known[-1]][index]} frames/s"
        at = Item(_SIZE.say(published.rows[known[-1]]), "words")
        head = f"{run.study.title}: {_way_of(quantity).label}"
        rows.append(Row(head, [at, Item(theirs, "words", published.device), *items], link))
    return rows


def comparison(run: StudyRun) -> Table | None:
    """Return steps and frames on one rank and on several, by the number of particles.

    None where there is only one rank, and no frames.
    """
    subject = leader(run)
    if subject is None or not (ways(run) or any(cell.frame_ms for cell in run.timed)):
        return None
    found = [
        (way, cell, find(run, subject, ALONE, size) if way.ranks > 1 else None)
        for size in sizes(run)
        for way in [ALONE, *ways(run)]
        if (cell := find(run, subject, way, size))
    ]
    marks, note = tables.modes(cell for _, cell, _ in found)
    rows = [
        Row(
            _SIZE.count(cell.place.particles),
            [
                Item(way.label, "name"),
                tables.timed(cell, marks),
                _number(cell.frame_ms),
                _number(1e3 / cell.frame_ms if cell.frame_ms else None),
                _number(ratio(one.median_ms if one else None, cell.median_ms)),
                _number(ratio(one.frame_ms if one else None, cell.frame_ms)),
                _number(cell.communication, formats.percent),
            ],
        )
        for way, cell, one in found
    ]
    of = f"{run.kind['workload']}, " if len(run.values("workload")) > 1 else ""
    columns = ["Ranks", "Step, ms", "Frame, ms", "Frames/s", "Speed-up", "Of frames"]
    return Table(
        f"Steps and frames of {of}{run.labels[subject]}",
        [_SIZE.heading, *columns, "Communication"],
        rows,
        notes=[note, _FRAME, *([_SPEED_UP] if ways(run) else [])],
    )


def _number(value: float | None, write: Callable[[float], str] = formats.significant) -> Item:
    """Return a number, or a dash."""
    return NOTHING if value is None else Item(write(value))


def chart(run: StudyRun, slug: str) -> Chart | None:
    """Draw the speed-up over one rank against the particles, beside the published one."""
    subject, published = leader(run), run.study.published
    if subject is None:
        return None
    title = "Speed-up against particles"
    panels = {"Steps": _lines(run, subject, lambda cell: cell.median_ms)}
    if frames := _lines(run, subject, lambda cell: cell.frame_ms):
        panels["Frames"] = frames + [
            Line.through(
                f"published, {quantity.ranks} GPUs",
                published.rows,
                [values[index] for values in published.values],
                _GREY,
                variant=3,
            )
            for index, quantity in enumerate(published.quantities if published else ())
            if published and quantity.what == "speed_up"
        ]
    return line_chart(
        f"{slug}-speed-up",
        title,
        f"The time on one rank over that on several, of {run.labels[subject]}; dotted: as fast as"
        " one rank. Frames have a picture in them.",
        Axis(_SIZE.label, "size"),
        Axis("speed-up over one rank", "linear"),
        [panel(name, lines, title, "times") for name, lines in panels.items()],
        reference=1,
    )


def _lines(run: StudyRun, subject: Subject, of: Callable[[Cell], float | None]) -> list[Line]:
    """Make a line against the particles for each way: a colour a number of ranks."""

    def point(way: Way, size: int) -> Point | None:
        one, cell = (find(run, subject, each, size) for each in (ALONE, way))
        return rate_point(size, cell, ratio(of(one), of(cell))) if one and cell else None

    counts = sorted({1, *(way.ranks for way in ways(run))})
    order = AXES["decomposition"].order([way.decomposition for way in ways(run)])
    found = {way: [p for n in sizes(run) if (p := point(way, n))] for way in ways(run)}
    return [
        Line(way.label, points, counts.index(way.ranks), order.index(way.decomposition))
        for way, points in found.items()
        if points
    ]
