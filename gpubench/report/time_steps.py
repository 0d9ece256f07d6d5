"""Whole steps of a simulation among the regimes: cells rebuilt, re-sorted, or kept with a skin."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, fastest, grouped
from gpubench.report.figures import Axis, Chart, Line, line_chart, panel, time_point
from gpubench.report.machines import StudyRun

SHARE = "moved_share"  # of an outcome: the share of particles that change cells in a step
_NANOSECONDS = 1e6  # in a millisecond
REBUILD, RESORT, SKIN = "rebuild", "re-sort", "skin"
_OPTIONS = (REBUILD, RESORT, SKIN)


def option(cell: Cell) -> str:
    """Return which way a step goes about its cells."""
    if cell.place.skin:
        return SKIN
    return RESORT if cell.replaces else REBUILD


@dataclass(frozen=True)
class Steps:
    """The steps of one workload and size over the time step; by_time_step: ascending."""

    workload: str
    particles: int
    by_time_step: dict[float, list[Cell]]

    @cached_property
    def shares(self) -> dict[float, float] | None:
        """Which share changes cells in a step of each time step; None where some is unknown."""
        found = {}
        for time_step, cells in self.by_time_step.items():
            reported = [(cell.skin, cell.reported.get(SHARE)) for cell in cells]
            told = [(skin, share) for skin, share in reported if isinstance(share, int | float)]
            # Without a skin at best, which has cells of another size.
            known = [share for skin, share in told if not skin] or [share for _, share in told]
            if not known:
                return None
            found[time_step] = float(statistics.median(known))
        return found

    @cached_property
    def best(self) -> dict[float, list[Cell]]:
        """The fastest cell of each option at each time step, fastest first."""
        return {
            time_step: sorted(
                map(fastest, grouped(cells, option).values()), key=attrgetter("median_ms")
            )
            for time_step, cells in self.by_time_step.items()
        }


def gather(run: StudyRun) -> list[Steps]:
    """Return the whole steps of a study, where there are two time steps or more."""
    cells = [c for c in run.timed if c.place.workload and c.place.time_step and c.place.ranks == 1]
    cells.sort(key=lambda cell: cell.place.time_step or 0.0)
    groups = grouped(cells, lambda c: (c.place.workload or "", c.place.particles or 0))
    found = [
        Steps(workload, particles, grouped(own, lambda cell: cell.place.time_step or 0.0))
        for (workload, particles), own in sorted(groups.items(), key=lambda group: group[0])
    ]
    return [steps for steps in found if len(steps.by_time_step) > 1]


def chart(run: StudyRun, slug: str) -> Chart | None:
    """Draw the time of a step against the share that changes cells, or the time step."""
    found = gather(run)
    is_share = all(steps.shares is not None for steps in found)
    panels = [
        panel(
            f"{steps.workload}, {AXES['particles'].say(steps.particles)}",
            _lines(steps, is_share),
            "Time of a step",
            "ns per particle",
        )
        for steps in found
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


def _lines(steps: Steps, is_share: bool) -> list[Line]:
    def key(cell: Cell) -> tuple[int, float]:
        return _OPTIONS.index(option(cell)), cell.place.skin or 0.0

    cells = [cell for own in steps.by_time_step.values() for cell in own]
    skins = sorted({cell.place.skin or 0.0 for cell in cells})
    scale = _NANOSECONDS / steps.particles
    lines = []
    for (kind, skin), own in sorted(grouped(cells, key).items(), key=lambda line: line[0]):
        points = []
        for time_step, alike in grouped(own, lambda cell: cell.place.time_step or 0.0).items():
            x = time_step
            if is_share and steps.shares is not None:
                x = float(f"{100 * steps.shares[time_step]:.3g}")
            points.append(time_point(x, fastest(alike), scale))
        label = f"skin {skin:g}" if skin else _OPTIONS[kind]
        lines.append(Line(label, points, 1 + skins.index(skin) if skin else kind, kind))
    return lines
