"""What a report says of whole simulation steps, of which the sort is one part."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.report import formats
from gpubench.report.axes import AXES, Axis
from gpubench.report.cells import Cell, fastest, told_apart
from gpubench.report.machines import StudyRun
from gpubench.report.scans import Ranking, Scan, rankings, scans

SORTING = ("cell ids", "sort")  # phases that the algorithm of a step is behind
MILLION = 1e6


def sentences(run: StudyRun) -> list[str]:
    """Return what is to be said of steps beyond which is fastest."""
    said = []
    for scan in scans(run) if run.is_simulation else ():
        ranked = rankings(run, scan)
        if scan.axis == "particles":
            said += [_rates(run, scan, ranked), _parts(run, ranked)]
        elif scan.axis == "skin":
            said += [_skins(run, scan)]
    return [sentence for sentence in said if sentence]


def _rates(run: StudyRun, scan: Scan, ranked: Sequence[Ranking]) -> str:
    """Say how many particles the fastest step advances in a second, and where that is most."""
    best = max((r.cells[0] for r in ranked), key=lambda cell: cell.record.particle_steps_per_s or 0)
    rate = best.record.particle_steps_per_s
    return (
        f"At most {formats.significant(rate / MILLION)} million particle-steps per second, with"
        f" {run.labels[best.subject]} at {AXES[scan.axis].say(best.place.particles)}."
    ) if rate else ""  # fmt: skip


def _parts(run: StudyRun, ranked: Sequence[Ranking]) -> str:
    """Say how much of a step is the sort, in the fastest and in all."""
    best = [r.cells[0] for r in ranked]
    sorting = _percents(best, *SORTING)
    if not sorting:
        return ""
    others = [name for name in run.phases if name not in SORTING]
    longest = max(others, key=lambda name: sum(c.phase_share(name) or 0 for c in best))
    every = [cell for r in ranked for cell in r.cells]
    return (
        f"Cell ids and sort together are {sorting} of the fastest step, the phase"
        f" \u201c{longest}\u201d is {_percents(best, longest)}; over all algorithms cell ids and"
        f" sort are {_percents(every, *SORTING)}."
    )


def _percents(cells: Sequence[Cell], *names: str) -> str:
    """Say which share of steps some phases take; empty where it is not known."""
    shares = [100 * share for c in cells if (share := c.phase_share(*names)) is not None]
    return f"{formats.span(shares)} %" if shares else ""


def _skins(run: StudyRun, scan: Scan) -> str:
    """Say which step is the fastest of all skins, and what a skin brings to each algorithm."""
    timed = [cell for value in scan.values(run) for cell in scan.at(run, value) if cell.ok]
    found: dict[str, list[str]] = {}
    for subject in run.subjects:
        own = {cell.place.skin: cell for cell in timed if cell.subject == subject}
        none = own.pop(0, None)
        if none is not None and own:
            found.setdefault(_effect(fastest(own.values()), none), []).append(run.labels[subject])
    if not found:
        return ""
    first = fastest(timed)
    skin = f"with {AXES['skin'].say(first.place.skin)}" if first.place.skin else "without a skin"
    parts = [f"{effect} with {formats.listing(labels)}" for effect, labels in found.items()]
    return (
        f"In {scan.title(Axis.count)}, {run.labels[first.subject]} {skin} makes the fastest step;"
        f" a skin makes it {'; '.join(parts)}."
    )


def _effect(best: Cell, none: Cell) -> str:
    if told_apart(best, none):
        factor = formats.significant(none.median_ms / best.median_ms)
        return f"{factor} times as fast at best ({AXES['skin'].say(best.place.skin)})"
    return "slower" if told_apart(none, best) else "neither faster nor slower"
