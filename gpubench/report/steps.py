"""Whole steps of simulations: workloads beside each other, and cells rebuilt, re-sorted or kept."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, fastest, grouped
from gpubench.report.figures import Axis, Chart, Line, line_chart, panel, time_point
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table
from gpubench.report.scans import rankings, scans

SHARE = "moved_share"  # of an outcome: the share of particles that change cells in a step
_NANOSECONDS = 1e6  # in a millisecond
_OPTIONS = ("rebuild", "re-sort", "skin")


def workloads(run: StudyRun) -> Table | None:
    """Return the fastest step of each workload beside each other; None where there is but one."""
    found = _fastest_steps(run)
    if len(found) < 2:
        return None
    base = next(iter(found.values()))
    rows = []
    for size in sorted({size for own in found.values() for size in own}):
        items = []
        for own in found.values():
            cell, other = own.get(size), base.get(size)
            if cell is None:
                items += [NOTHING, NOTHING]
                continue
            for value in (_per_step_ms, _per_unit_ms):
                over = "" if other in (None, cell) else formats.ratio(value(cell) / value(other))
                items.append(Item(formats.significant(value(cell)), detail=over))
        rows.append(Row(AXES["particles"].count(size), items))
    named = [f"{w}, {AXES['time_step'].say(run.kinds[w]['time_step'])}" for w in found]
    return Table(
        "The fastest step of each workload",
        ["Particles", *(f"{w}: ms a {of}" for w in named for of in ("step", "unit of time"))],
        rows,
        notes=["A unit of time is that of the workload's model. Small: over the first workload."],
    )


def _fastest_steps(run: StudyRun) -> Mapping[str, Mapping[int, Cell]]:
    """Return the fastest step of each workload by its number of particles."""
    found = scans(run) if run.is_simulation else []
    along = [scan for scan in found if scan.axis == "particles" and scan.fixed["time_step"]]
    return {
        scan.fixed["workload"]: {r.value: r.cells[0] for r in rankings(run, scan)} for scan in along
    }


def _per_step_ms(cell: Cell) -> float:
    return float(cell.median_ms)


def _per_unit_ms(cell: Cell) -> float:
    return float(cell.median_ms / cell.place.time_step)


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


def over_time_steps(run: StudyRun, slug: str) -> Chart | None:
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
