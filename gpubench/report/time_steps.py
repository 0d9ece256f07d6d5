"""Whole steps of a simulation among the regimes: cells rebuilt, re-sorted, or kept with a skin."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from gpubench.evidence.crossover import Ratio
from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, StudyRun
from gpubench.report.figures import Axis, Chart, Line, Panel, describe, line_chart
from gpubench.report.rankings import timed

SHARE = "moved_share"  # of an outcome: the share of particles that change cells in a step
_NANOSECONDS = 1e6  # in a millisecond
REBUILD, RESORT, SKIN = "rebuild", "re-sort", "skin"


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
            every = [(cell.place.skin, cell.number(SHARE)) for cell in cells]
            told = [(skin, share) for skin, share in every if share is not None]
            # Without a skin at best, which has cells of another size.
            known = [share for skin, share in told if not skin] or [share for _, share in told]
            if not known:
                return None
            found[time_step] = float(statistics.median(known))
        return found

    def place(self, time_step: float) -> float:
        """Return where a time step lies on the axis: its share in percent, else itself."""
        return time_step if self.shares is None else float(f"{100 * self.shares[time_step]:.3g}")

    def best(self, time_step: float) -> dict[str, Cell]:
        """Return the fastest cell of each option, fastest first."""
        found: dict[str, Cell] = {}
        for cell in sorted(self.by_time_step[time_step], key=lambda c: c.median_ms):
            found.setdefault(option(cell), cell)
        return found


def gather(run: StudyRun) -> list[Steps]:
    """Return the whole steps of a study, where there are two time steps or more."""
    groups: dict[tuple[str, int], dict[float, list[Cell]]] = {}
    for cell in run.cells.values():
        place = cell.place
        if place.workload and place.time_step and place.ranks == 1 and cell.ok:
            by_time = groups.setdefault((place.workload, place.particles or 0), {})
            by_time.setdefault(place.time_step, []).append(cell)
    return [
        Steps(workload, particles, dict(sorted(by_time.items())))
        for (workload, particles), by_time in sorted(groups.items())
        if len(by_time) > 1
    ]


def sentences(run: StudyRun) -> list[str]:
    """Say which of the options makes the fastest step over the time steps of each size."""
    return [_fastest(run, steps) for steps in gather(run) if _has_choice(steps)]


def _has_choice(steps: Steps) -> bool:
    return any(len(steps.best(time_step)) > 1 for time_step in steps.by_time_step)


def _fastest(run: StudyRun, steps: Steps) -> str:
    told = []
    for time_step in steps.by_time_step:
        best = list(steps.best(time_step).items())
        if len(best) > 1:
            ratio = timed(best[1][1]).over(timed(best[0][1]))
            told.append((time_step, best[0][0], best[0][1], best[1][0], ratio))
    parts = []
    for (first, is_open), group in groupby(told, key=lambda t: (t[1], t[4].is_open)):
        own = list(group)
        where = _where(steps, [each[0] for each in own])
        if is_open:
            parts.append(f"{where} {first} and {own[0][3]} cannot be told apart")
            continue
        factors = formats.span([each[4].value for each in own])
        names = formats.listing(dict.fromkeys(_label(run, each[2]) for each in own))
        nexts = formats.listing(dict.fromkeys(each[3] for each in own))
        parts.append(
            f"{where} a {first} is fastest ({names}; the best {nexts} takes {factors} times as"
            " long)"
        )
    pays = [each[0] for each in told if each[1] == RESORT and not each[4].is_open]
    resorts = [t for t in steps.by_time_step if RESORT in steps.best(t)]
    verdict = ""
    if resorts:
        verdict = (
            f" Re-sorting is the fastest of all at {len(pays)} of {len(resorts)} time steps"
            f"{_saves(steps, resorts)}."
        )
    size = AXES["particles"].say(steps.particles)
    return f"In whole steps of {steps.workload}, {size}: {'; '.join(parts)}.{verdict}"


def _saves(steps: Steps, resorts: Sequence[float]) -> str:
    """Say where a re-sort is at least faster than the rebuild that it saves."""
    ratios: list[tuple[float, Ratio]] = []
    for time_step in resorts:
        best = steps.best(time_step)
        if REBUILD in best:
            ratios.append((time_step, timed(best[REBUILD]).over(timed(best[RESORT]))))
    faster = [time_step for time_step, ratio in ratios if ratio.low > 1]
    if not ratios:
        return ""
    if not faster:
        return ", and nowhere faster than a rebuild"
    if len(faster) == len(ratios):
        return ", and faster than a rebuild at each"
    return f", and faster than a rebuild {_where(steps, faster, in_full=False)}"


def _where(steps: Steps, time_steps: Sequence[float], in_full: bool = True) -> str:
    ends = [f"{value:g}" for value in dict.fromkeys((time_steps[0], time_steps[-1]))]
    said = f"at time step {' to '.join(ends)}"
    if steps.shares is None or not in_full:
        return said
    shares = [100 * steps.shares[time_step] for time_step in time_steps]
    return f"{said} ({formats.span(shares)} % of the particles change cells in each)"


def charts(run: StudyRun, slug: str) -> list[Chart]:
    """Draw the time of a step against the share that changes cells, or the time step."""
    found = gather(run)
    is_share = bool(found) and all(steps.shares is not None for steps in found)
    panels = []
    for steps in found:
        lines = _lines(run, steps, is_share)
        title = f"{steps.workload}, {AXES['particles'].say(steps.particles)}"
        words = describe("Time of a step", title, lines, "ns per particle")
        panels.append(Panel(title, lines, words))
    x = "% of the particles that change cells in a step" if is_share else "time step"
    chart = line_chart(
        f"{slug}-step",
        "One whole step: rebuild, re-sort, or a skin",
        "Time of a whole step over the number of particles, with the cells built anew in each"
        " (circles), re-sorted in each (squares), or kept with lists of neighbours for as long"
        f" as a skin allows (dotted), against the"
        f" {'share of the particles that change cells' if is_share else 'time step'}."
        " Steps include all forces. Only the best algorithm of each option and skin.",
        Axis(x, "number"),
        Axis("median time of a step, ns per particle", "number"),
        panels,
    )
    return [chart] if chart else []


def _lines(run: StudyRun, steps: Steps, is_share: bool) -> list[Line]:
    skins = sorted({c.place.skin or 0.0 for own in steps.by_time_step.values() for c in own})
    points: dict[tuple[str, float], list[tuple[float, Cell]]] = {}
    for time_step, cells in steps.by_time_step.items():
        x = steps.place(time_step) if is_share else time_step
        best: dict[tuple[str, float], Cell] = {}
        for cell in sorted(cells, key=lambda c: c.median_ms):
            best.setdefault((option(cell), cell.place.skin or 0.0), cell)
        for key, cell in best.items():
            points.setdefault(key, []).append((x, cell))
    lines = []
    scale = _NANOSECONDS / steps.particles
    order = {REBUILD: 0, RESORT: 1, SKIN: 2}
    for (kind, skin), own in sorted(points.items(), key=lambda p: (order[p[0][0]], p[0][1])):
        label = f"skin {skin:g}" if kind == SKIN else kind
        colour = order[kind] if kind != SKIN else 1 + skins.index(skin)
        lines.append(
            Line(
                label,
                [x for x, _ in own],
                [scale * c.median_ms for _, c in own],
                [scale * c.interval_ms[0] for _, c in own],
                [scale * c.interval_ms[1] for _, c in own],
                colour,
                {REBUILD: 0, RESORT: 1}.get(kind, 2),
            )
        )
    return lines


def _label(run: StudyRun, cell: Cell) -> str:
    label = run.labels[cell.subject]
    return f"{label} with {AXES['skin'].say(cell.place.skin)}" if cell.place.skin else label


def rows(run: StudyRun) -> list[dict[str, Any]]:
    """Return the best step of each option, for the CSV."""
    return [
        {
            "workload": steps.workload,
            "particles": steps.particles,
            "time_step": time_step,
            "moved_share": None if steps.shares is None else steps.shares[time_step],
            "option": kind,
            "algorithm": cell.subject.algorithm,
            "form": cell.subject.form,
            "skin": cell.place.skin,
            "median_ms": cell.median_ms,
            "ci95_low_ms": cell.interval_ms[0],
            "ci95_high_ms": cell.interval_ms[1],
        }
        for steps in gather(run)
        for time_step in steps.by_time_step
        for kind, cell in steps.best(time_step).items()
    ]
