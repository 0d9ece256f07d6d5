"""What a report says of whole simulation steps, of which the sort is one part."""

from __future__ import annotations

from collections.abc import Mapping

from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table
from gpubench.report.scans import rankings, scans


def beside(run: StudyRun) -> str:
    """Say how long a step of each workload takes, as a multiple of the first; "" for one."""
    (first, base), *others = _fastest_steps(run).items() or [("", {})]
    said = []
    for workload, own in others:
        common = [size for size in base if size in own]
        steps = [own[size].median_ms / base[size].median_ms for size in common]
        units = [_per_unit_ms(own[size]) / _per_unit_ms(base[size]) for size in common]
        if common:
            told = f", and a unit of time {formats.span(units)} times" if units != steps else ""
            said.append(
                f"a step of {workload} takes {formats.span(steps)} times as long as one of"
                f" {first}{told}"
            )
    return f"On as many particles, {formats.listing(said)}." if said else ""


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
    groups = [(f"{w}, {AXES['time_step'].say(run.kinds[w]['time_step'])}", 2) for w in found]
    return Table(
        "The fastest step of each workload",
        ["Particles", *(["ms a step", "ms a unit of time"] * len(found))],
        rows,
        groups=groups,
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
