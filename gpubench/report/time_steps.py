"""Whole steps of a simulation among the regimes: cells rebuilt, re-sorted, or kept with a skin."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, fastest, grouped
from gpubench.report.figures import Axis, Chart, Line, line_chart, panel, time_point
from gpubench.report.machines import StudyRun

SHARE = "moved_share"  # of an outcome: the share of particles that change cells in a step
_NANOSECONDS = 1e6  # in a millisecond
_OPTIONS = ("rebuild", "re-sort", "skin")


def _option(cell: Cell) -> int:
    """Return which of the options a step takes to bring its cells up to date."""
    if cell.place.skin:
        return 2
    return 1 if cell.replaces else 0


def _shares(by_time_step: Mapping[float, Sequence[Cell]]) -> dict[float, float] | None:
    """Return which share changes cells in a step of each time step; None where some is unknown."""
    found = {}
    for time_step, cells in by_time_step.items():
        reported = [(cell.skin, cell.reported.get(SHARE)) for cell in cells]
        told = [(skin, share) for skin, share in reported if isinstance(share, int | float)]
        # Without a skin at best, which has cells of another size.
        known = [share for skin, share in told if not skin] or [share for _, share in told]
        if not known:
            return None
        found[time_step] = float(statistics.median(known))
    return found


def chart(run: StudyRun, slug: str) -> Chart | None:
    """Draw the time of a step against the share that changes cells, or the time step.

    There is a panel for each workload and size with two time steps or more.
    """
    cells = [c for c in run.timed if c.place.workload and c.place.time_step and c.place.ranks == 1]
    cells.sort(key=lambda cell: (cell.workload, cell.particles, cell.time_step))
    groups = {
        key: grouped(own, lambda cell: cell.time_step)
        for key, own in grouped(cells, lambda cell: (cell.workload, cell.particles)).items()
    }
    found = {key: own for key, own in groups.items() if len(own) > 1}
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


def _lines(
    by_time_step: Mapping[float, Sequence[Cell]], shares: dict[float, float] | None, particles: int
) -> list[Line]:
    """Make a line of the fastest for each option and skin, over shares if they are known."""
    cells = [cell for own in by_time_step.values() for cell in own]
    skins = sorted({cell.skin or 0.0 for cell in cells})
    options = grouped(cells, lambda cell: (_option(cell), cell.skin or 0.0))
    lines = []
    for (kind, skin), own in sorted(options.items(), key=lambda line: line[0]):
        points = []
        for time_step, alike in grouped(own, lambda cell: cell.time_step).items():
            x = float(f"{100 * shares[time_step]:.3g}") if shares else time_step
            points.append(time_point(x, fastest(alike), _NANOSECONDS / particles))
        label = f"skin {skin:g}" if skin else _OPTIONS[kind]
        lines.append(Line(label, points, 1 + skins.index(skin) if skin else kind, kind))
    return lines
