"""Whole steps of simulations: workloads beside each other, and cells rebuilt, re-sorted or kept."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, fastest, grouped
from gpubench.report.figures import Axis, Chart, Line, line_chart, panel, time_point
from gpubench.report.machines import StudyRun, usual
from gpubench.report.pages import NOTHING, Item, Row, Table, number

SHARE = "moved_share"  # of an outcome: the share of particles that change cells in a step
_NANOSECONDS = 1e6  # in a millisecond
_PER: Mapping[str, Callable[[Cell], float]] = {
    "step": lambda cell: float(cell.median_ms),
    "unit of time": lambda cell: float(cell.median_ms / cell.place.time_step),
}
_OPTIONS = ("rebuild", "re-sort")


def workloads(run: StudyRun) -> Table | None:
    """Return the fastest step of each workload beside each other; None where there is but one."""
    stepped = [p for p in run.by_place if p.workload and p.time_step and run.ranked_at(p)]
    kinds = {w: usual(own) for w, own in grouped(stepped, lambda place: place.workload).items()}
    found = [
        {p.particles: run.ranked_at(p)[0] for p in stepped if p.kind == kind}
        for kind in kinds.values()
    ]
    rows = [
        Row(
            AXES["particles"].count(size),
            [_beside(own.get(size), found[0].get(size), per) for own in found for per in _PER],
        )
        for size in sorted({place.particles for place in stepped})
    ]
    named = (f"{w}, {AXES['time_step'].say(kind['time_step'])}" for w, kind in kinds.items())
    return Table(
        "The fastest step of each workload",
        ["Particles", *(f"{name}: ms a {of}" for name in named for of in _PER)],
        rows,
        ["A unit of time is that of the workload's model. Small: over the first workload."],
    ) if len(found) > 1 else None  # fmt: skip


def _beside(cell: Cell | None, base: Cell | None, per: str) -> Item:
    """Return a time, and how many times that of another it is."""
    if cell is None:
        return NOTHING
    of = _PER[per]
    over = formats.ratio(of(cell) / of(base)) if base and base is not cell else ""
    return number(of(cell), detail=over)


def over_time_steps(run: StudyRun, slug: str) -> Chart | None:
    """Draw the time of a step against the share that changes cells, or the time step.

    There is a panel for each workload and size with two time steps or more.
    """
    cells = [c for c in run.timed if c.place.workload and c.place.time_step and c.place.ranks == 1]
    cells.sort(key=lambda cell: (cell.workload, cell.particles, cell.time_step))
    found = {
        key: own
        for key, own in grouped(cells, lambda cell: (cell.workload, cell.particles)).items()
        if len({cell.time_step for cell in own}) > 1
    }
    shares = {key: _shares(own) for key, own in found.items()}
    is_share = None not in shares.values()
    panels = [
        panel(
            f"{workload}, {AXES['particles'].say(particles)}",
            _lines(own, shares[workload, particles] if is_share else None, particles),
            "Time of a step",
            "ns per particle",
        )
        for (workload, particles), own in found.items()
    ]
    x = "% of the particles that change cells in a step" if is_share else "time step"
    return line_chart(
        f"{slug}-step",
        "One whole step: rebuild, re-sort, or a skin",
        "Cells built anew in each step (solid), re-sorted in each (dashed), or kept with lists of"
        " neighbours for as long as a skin allows (dotted). Steps include all forces. Only the"
        " best algorithm of each option and skin.",
        Axis(x, "number"),
        Axis("median time of a step, ns per particle", "number"),
        panels,
    )


def _shares(cells: Sequence[Cell]) -> dict[float, float] | None:
    """Return which share changes cells in a step of each time step; None where some is unknown."""
    found = {}
    for time_step, own in grouped(cells, lambda cell: cell.time_step).items():
        # Without a skin at best, which has cells of another size.
        told = [(bool(cell.skin), cell.reported[SHARE]) for cell in own if SHARE in cell.reported]
        if not told:
            return None
        found[time_step] = statistics.median(
            share for has_skin, share in told if has_skin == min(told)[0]
        )
    return found


def _lines(cells: Sequence[Cell], shares: Mapping[float, float] | None, size: int) -> list[Line]:
    """Make a line of the fastest for each option and skin, over shares if they are known."""
    skins = sorted({cell.skin or 0.0 for cell in cells})
    # Built anew, re-sorted, or kept.
    options = grouped(cells, lambda c: (2 if c.skin else int(bool(c.replaces)), c.skin or 0.0))
    lines = []
    for (kind, skin), own in sorted(options.items(), key=lambda line: line[0]):
        points = []
        for time_step, alike in grouped(own, lambda cell: cell.time_step).items():
            x = float(f"{100 * shares[time_step]:.3g}") if shares else time_step
            points.append(time_point(x, fastest(alike), _NANOSECONDS / size))
        label = f"skin {skin:g}" if skin else _OPTIONS[kind]
        lines.append(Line(label, points, 1 + skins.index(skin) if skin else kind, kind))
    return lines
