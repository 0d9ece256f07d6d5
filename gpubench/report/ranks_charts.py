"""Figures of one rank against several: speed-up, time, communication, scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, Subject, grouped
from gpubench.report.figures import (
    MOST_LINES,
    Axis,
    Chart,
    Line,
    Point,
    line_chart,
    panel,
    rate_point,
    time_point,
)
from gpubench.report.machines import StudyRun
from gpubench.report.ranks import ALONE, Way, find, leader, scaling, sizes, ways

_PARTICLES = Axis(AXES["particles"].label, "size")
_GREY = 5  # index of a colour


def charts(run: StudyRun, slug: str) -> list[Chart | None]:
    """Return the figures of one rank and several that the records allow."""
    subject = leader(run)
    published = run.study.published
    if subject is None or not (ways(run) or (published and published.quantities)):
        return []
    return [
        _speed_up(run, subject, slug),
        _time(run, subject, slug),
        _scaling(run, subject, slug, weak=False),
        _scaling(run, subject, slug, weak=True),
    ]


def _lines(
    run: StudyRun, subject: Subject, every: Sequence[Way], point: Callable[[Cell], Point | None]
) -> list[Line]:
    """Make a line against the particles for each way: a colour a number of ranks."""
    counts = sorted({1, *(way.ranks for way in ways(run))})
    order = [None, *AXES["decomposition"].order([way.decomposition for way in ways(run)])]
    lines = []
    for way in every:
        cells = [cell for size in sizes(run) if (cell := find(run, subject, way, size))]
        points = [made for cell in cells if (made := point(cell))]
        if points:
            variant = max(0, order.index(way.decomposition) - 1)
            lines.append(Line(way.label, points, counts.index(way.ranks), variant))
    return lines


def _published(run: StudyRun, what: str, write: Callable[[float], float]) -> list[Line]:
    """Return the published numbers of one quantity as lines."""
    published = run.study.published
    return [
        Line.through(
            f"published, {quantity.ranks or 1} GPU{'s' if quantity.ranks else ''}",
            published.rows,
            [write(values[index]) for values in published.values],
            _GREY,
            variant=2 + (quantity.ranks is not None),
        )
        for index, quantity in enumerate(published.quantities if published else ())
        if published is not None and quantity.what == what
    ]


def _speed_up(run: StudyRun, subject: Subject, slug: str) -> Chart | None:
    what = "Speed-up against particles"

    def over_one(cell: Cell, of: Callable[[Cell], float | None]) -> Point | None:
        one = find(run, subject, ALONE, cell.place.count)
        own, other = of(cell), of(one) if one else None
        return rate_point(cell.place.count, cell, other / own if own and other else None)

    measured = {
        "Steps": _lines(run, subject, ways(run), lambda c: over_one(c, lambda e: e.median_ms)),
        "Frames": _lines(run, subject, ways(run), lambda c: over_one(c, lambda e: e.frame_ms)),
    }
    if measured["Frames"]:
        measured["Frames"] += _published(run, "speed_up", float)
    return line_chart(
        f"{slug}-speed-up",
        what,
        f"The time on one rank over that on several, of {run.labels[subject]}; dotted: as fast as"
        " one rank. Frames have a picture in them.",
        _PARTICLES,
        Axis("speed-up over one rank", "linear"),
        [panel(title, lines, what, "times") for title, lines in measured.items()],
        reference=1,
    )


def _time(run: StudyRun, subject: Subject, slug: str) -> Chart | None:
    what = "Time against particles"

    def frame(cell: Cell) -> Point | None:
        scale = (cell.frame_ms or 0.0) / cell.median_ms
        return time_point(cell.place.count, cell, scale) if scale else None

    every = [ALONE, *ways(run)]
    steps = _lines(run, subject, every, lambda cell: time_point(cell.place.count, cell))
    frames = _lines(run, subject, every, frame)
    panels = [panel("Steps", steps, what, "ms")]
    if frames:
        frames += _published(run, "frames_per_s", lambda rate: 1e3 / rate)
        panels.append(panel("Frames", frames, what, "ms"))
    theirs = " Published times are those of the published frames per second." if frames else ""
    return line_chart(
        f"{slug}-ranks-time",
        f"{what}, on one rank and on several",
        f"Median of a step of {run.labels[subject]}, and of a step with a picture.{theirs}",
        _PARTICLES,
        Axis("time, ms", "number"),
        panels,
    )


def _scaling(run: StudyRun, subject: Subject, slug: str, *, weak: bool) -> Chart | None:
    """Draw speed-up, or with as many particles on each what is left of it, against ranks."""
    if not weak and len({way.ranks for way in ways(run)}) < 2:
        return None  # the speed-up against particles shows the same
    name = "Weak" if weak else "Strong"
    panels = []
    by_way = grouped(scaling(run, subject, weak=weak), lambda series: series.decomposition)
    for how, found in by_way.items():
        lines = []
        for index, series in enumerate(found[-MOST_LINES:]):
            counts = sorted(series.cells)
            ys = [series.speed(n) * (100 if weak else 1) for n in counts]
            points = [
                Point(n, y, told=series.cells[n].told) for n, y in zip(counts, ys, strict=True)
            ]
            lines.append(Line(series.label, points, index))
        if not weak:
            counts = sorted({int(x) for line in lines for x in line.x})
            lines.append(Line.through("ideal", counts, counts, _GREY, variant=2, marked=False))
        panels.append(panel(str(how), lines, f"{name} scaling", "%" if weak else "times"))
    what = "as many particles on each rank" if weak else "as many particles in all"
    return line_chart(
        f"{slug}-{name.lower()}-scaling",
        f"{name} scaling",
        f"One line for {what}, of {run.labels[subject]}: "
        + ("the time on one rank as a share of that on several." if weak else "speed-up."),
        Axis("ranks", "number"),
        # Logarithmic, so that the ideal is straight.
        Axis("% of the speed of one rank", "linear")
        if weak
        else Axis("speed-up over one rank", "number"),
        panels,
        reference=100 if weak else None,
    )
