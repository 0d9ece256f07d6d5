"""What a report says and shows of one rank against several, and of frames beside steps.

A frame is a step and a picture of it. Speed-up is over one rank, of the same algorithm on as many
particles. All is of the algorithm that is fastest on the most inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpubench.evidence.ranking import Subject
from gpubench.report import formats, tables
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell
from gpubench.report.figures import Axis, Chart, Line, Point, line_chart, panel, rate_point
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Item, Table, number, words
from gpubench.studies.study import Quantity

FRAME = (
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


def way_of(quantity: Quantity) -> Way:
    """Return how the steps of a published column were shared."""
    return Way(quantity.ranks or 1, quantity.decomposition)


def comparison(run: StudyRun) -> Table | None:
    """Return steps and frames on one rank and on several, by the number of particles.

    None where there is only one rank, and no frames.
    """
    subject = leader(run)
    if subject is None or not (ways(run) or any(cell.frame_ms for cell in run.timed)):
        return None
    every = [(way, size) for size in sizes(run) for way in (ALONE, *ways(run))]
    found = [(way, cell) for way, size in every if (cell := find(run, subject, way, size))]
    marks, note = tables.modes(cell for _, cell in found)

    def speed_up(of: Callable[[Cell], float | None]) -> Callable[[tuple[Way, Cell]], Item]:
        def item(each: tuple[Way, Cell]) -> Item:
            one = find(run, subject, ALONE, each[1].place.particles) if each[0].ranks > 1 else None
            return number(ratio(of(one) if one else None, of(each[1])))

        return item

    name = run.labels[subject]
    return Table.of(
        f"Steps and frames of {', '.join(filter(None, (_workload(run), name)))}",
        found,
        (_SIZE.heading, lambda each: _SIZE.count(each[1].place.particles)),
        {
            "Ranks": lambda each: words(each[0].label),
            "Step, ms": lambda each: tables.timed(each[1], marks),
            "Frame, ms": lambda each: number(each[1].frame_ms),
            "Frames/s": lambda each: number(ratio(1e3, each[1].frame_ms)),
            "Speed-up": speed_up(lambda cell: cell.median_ms),
            "Of frames": speed_up(lambda cell: cell.frame_ms),
            "Communication": lambda each: number(each[1].communication, formats.percent),
        },
        notes=[note, FRAME, *([_SPEED_UP] if ways(run) else [])],
    )


def _workload(run: StudyRun) -> str:
    return run.kind["workload"] if len({p.workload for p in run.by_place}) > 1 else ""


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
