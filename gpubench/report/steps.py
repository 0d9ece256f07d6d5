"""Complete simulation steps on one rank and on several, with and without drawing a frame."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from gpubench.evidence.crossover import FIRST, Ratio, crossings
from gpubench.evidence.ranking import Variant
from gpubench.report import formats, tables
from gpubench.report.axes import AXES
from gpubench.report.cells import MeasurementRow
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Item, Table, number, words

FRAME = "A frame is a step and a picture of it drawn on the device, timed by itself after the step."
_SPEED_UP = (
    "Speed-up is the time of a step on one rank over that on several, both by the same code in the"
    " mode shown for several; communication is the share of the phases in which ranks exchange."
)
_SIZE = AXES["particles"]


class Way(NamedTuple):
    """Number of ranks and decomposition of a step; the decomposition is None for one rank."""

    ranks: int
    decomposition: str | None

    @property
    def label(self) -> str:
        """A short display name: "2 ranks, slab"."""
        return "1 rank" if self.ranks == 1 else f"{self.ranks} ranks, {self.decomposition}"


ALONE = Way(1, None)


@lru_cache(maxsize=64)
def ways(run: StudyRun) -> tuple[Way, ...]:
    """Return the rank counts and decompositions that were timed, except for one rank."""
    places = (cell.place for cell in run.timed)
    found = {Way(p.ranks, p.decomposition) for p in places if (p.ranks or 1) > 1}
    order = AXES["decomposition"].order([way.decomposition for way in found])
    return tuple(sorted(found, key=lambda way: (way.ranks, order.index(way.decomposition))))


@lru_cache(maxsize=64)
def timed(run: StudyRun, subject: Variant | None) -> dict[tuple[Way, int], MeasurementRow]:
    """Return a subject's timed cells of the most common workload, by `Way` and particles."""
    usual = {name: run.kind[name] for name in ("workload", "time_step", "skin")}
    return {
        (Way(cell.place.ranks or 1, cell.place.decomposition), cell.place.count): cell
        for cell in (run.by_subject.get(subject, ()) if subject else ())
        if cell.ok and cell.median_ms and cell.place.has(**usual)
    }


def alone(run: StudyRun, row: MeasurementRow) -> MeasurementRow | None:
    """Return the row on one rank beside one on several, in its mode and by the same code."""
    found = timed(run, row.subject).get((ALONE, int(row.particles)))
    one = found and found.modes.get(row.mode)
    is_alike = one and (one.commits & row.commits - {None} or not (one.is_old or row.is_old))
    return one if is_alike else None


def speed_ups(run: StudyRun) -> dict[Way, dict[int, Ratio]]:
    """Return by particles how many times as fast as one rank several are, for the usual winner."""
    found: dict[Way, dict[int, Ratio]] = {way: {} for way in ways(run)}
    for (way, particles), row in sorted(timed(run, run.winner(run.timed)).items()):
        if way in found and (one := alone(run, row)) and (ratio := one.over(row)):
            found[way][particles] = ratio
    return found


def gist(run: StudyRun) -> str:
    """Say what several ranks gain on the most particles that one stepped too, or nothing."""
    most = {way.label: max(own.items()) for way, own in speed_ups(run).items() if own}
    gain = "{}: {} as fast as one ({} particles)".format
    said = [gain(on, formats.ratio(r.value), formats.power(n)) for on, (n, r) in most.items()]
    return f"{'; '.join(said)}." if said else ""


def pays(run: StudyRun) -> list[str]:
    """Say above how many particles several ranks beat one, for the most frequent winner."""
    said: list[str] = []
    for way, own in speed_ups(run).items():
        ratios = {math.log2(n): ratio for n, ratio in own.items()}
        for each in crossings(list(ratios), list(ratios.values())) if len(ratios) > 1 else ():
            if each.faster_before == FIRST and each.low and each.high:
                at, low, high = (formats.significant(2**e) for e in each[:3] if e is not None)
                interval = f"(95 %: {low} to {high})"
                said.append(f"{way.label}: pay above {at} particles {interval}")
    return said


def comparison(run: StudyRun) -> Table:
    """Compare steps and frames on one rank and on several, for the most frequent winner."""
    subject = run.winner(run.timed)
    own, order = timed(run, subject), (ALONE, *ways(run))
    steps = sorted(own, key=lambda step: (step[1], order.index(step[0])))
    found = [(way, own[way, n]) for way, n in steps if own[way, n].frame_ms or ways(run)]
    marks, note = tables.modes(cell for _, cell in found)

    def speed_up(each: tuple[Way, MeasurementRow], time: str) -> Item:
        way, cell = each
        one = alone(run, cell) if way.ranks > 1 else None
        one_ms, several_ms = getattr(one, time, None), getattr(cell, time)
        return number(one_ms / several_ms if one_ms and several_ms else None)

    several = len({place.workload for place in run.by_place}) > 1
    named = (run.kind["workload"] if several else "", run.labels[subject] if subject else "")
    return Table.of(
        f"Steps and frames of {', '.join(filter(None, named))}",
        found,
        (_SIZE.heading, lambda each: _SIZE.count(each[1].place.particles)),
        {
            "Ranks": lambda each: words(each[0].label),
            "Step, ms": lambda each: tables.timed(each[1], marks),
            "Frame, ms": lambda each: number(each[1].frame_ms),
            "Frames/s": lambda each: number((ms := each[1].frame_ms) and 1e3 / ms),
            "Speed-up": lambda each: speed_up(each, "median_ms"),
            "Of frames": lambda each: speed_up(each, "frame_ms"),
            "Communication": lambda each: number(each[1].communication, formats.percent),
        },
        notes=[note, FRAME, *([_SPEED_UP] if ways(run) else [])],
    )
