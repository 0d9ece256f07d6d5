"""Which sort overtakes which along the inputs of a study of keys, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from gpubench.evidence.crossover import FIRST, compare
from gpubench.report.axes import AXES
from gpubench.report.cells import grouped
from gpubench.report.machines import StudyRun
from gpubench.report.scans import Ranking, rankings, scans

ALONG = ("key_count", "keys_moved", "key_bits")


def sentences(run: StudyRun) -> list[str]:
    """Say where the fastest along a scan is overtaken by the next, with the 95 % interval."""
    said = []
    for scan in scans(run):
        if scan.axis in ALONG:
            for kind, ranked in grouped(rankings(run, scan), lambda r: r.answer).items():
                title = ", ".join(filter(None, (scan.title(), kind)))
                said += [f"{title}: {each}." for each in _overtakings(run, scan.axis, ranked)]
    return said


def _overtakings(run: StudyRun, axis: str, ranked: Sequence[Ranking]) -> list[str]:
    said = []
    is_size = AXES[axis].kind == "size"
    leaders = dict.fromkeys(r.cells[0].subject for r in ranked if len(r.tied) == 1)
    for first, second in pairwise(leaders):
        times = {r.value: {cell.subject: cell for cell in r.cells} for r in ranked}
        both = {v: cells for v, cells in times.items() if first in cells and second in cells}
        if len(both) < 2:
            continue
        places = [math.log2(value) if is_size else value for value in both]
        found = compare(places, [cells[first].over(cells[second]) for cells in both.values()])
        for crossing in found.crossings:
            if crossing.faster_before != FIRST:
                continue
            ends = (crossing.low, crossing.at, crossing.high)
            low, at, high = (
                "beyond what was measured" if x is None else _written(2**x if is_size else x)
                for x in ends
            )
            said.append(
                f"{run.labels[second]} overtakes {run.labels[first]} at about {at}"
                f" {AXES[axis].label} (interval: {low} to {high})"
            )
    return said


def _written(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
