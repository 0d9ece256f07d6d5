"""Whole steps of simulations: workloads beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, grouped
from gpubench.report.machines import StudyRun, usual
from gpubench.report.pages import NOTHING, Item, Row, Table, number

_PER: Mapping[str, Callable[[Cell], float]] = {
    "step": lambda cell: float(cell.median_ms),
    "unit of time": lambda cell: float(cell.median_ms / cell.place.time_step),
}


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
