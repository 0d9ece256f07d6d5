"""What a report says and draws of whole simulation steps, of which the sort is one part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpubench.report import formats, verdict
from gpubench.report.axes import AXES, Axis, describe
from gpubench.report.cells import Cell, StudyRun, Subject, told_apart
from gpubench.report.verdict import Ranking, Scan

SORTING = ("cell ids", "sort")  # phases that the algorithm of a step is behind
MILLION = 1e6


def sentences(run: StudyRun, beside: Sequence[StudyRun]) -> list[str]:
    """Return what is to be said of steps beyond which is fastest; `beside`: the other studies."""
    said = []
    for scan in verdict.scans(run) if run.is_simulation else ():
        ranked = verdict.rankings(run, scan)
        if scan.axis == "particles":
            said += [_rates(run, scan, ranked), _parts(run, scan, ranked)]
            said += [_resorted(run, scan), _alone(run, scan, ranked, beside)]
        elif scan.axis == "skin":
            said += [_skins(run, scan)]
    return [sentence for sentence in said if sentence]


def _rates(run: StudyRun, scan: Scan, ranked: Sequence[Ranking]) -> str:
    """Say how many particles the fastest step advances in a second, and where that is most."""
    best = max((r.fastest for r in ranked), key=lambda cell: cell.particle_steps_per_s or 0)
    rate = best.particle_steps_per_s
    if rate is None:
        return ""
    return (
        f"At most {formats.significant(rate / MILLION)} million particle-steps per second, with"
        f" {run.labels[best.subject]} at {AXES[scan.axis].say(best.place.particles)}."
    )


def _parts(run: StudyRun, scan: Scan, ranked: Sequence[Ranking]) -> str:
    """Say how much of a step is the sort, in the fastest and in all."""
    fastest = [r.fastest for r in ranked]
    sorting = [share for cell in fastest if (share := cell.phase_share(*SORTING)) is not None]
    if not sorting:
        return ""
    others = [name for name in run.phases if name not in SORTING]
    longest = max(others, key=lambda name: sum(c.phase_share(name) or 0 for c in fastest))
    largest = [share for cell in fastest if (share := cell.phase_share(longest)) is not None]
    everywhere = [
        share for r in ranked for c in r.cells if (share := c.phase_share(*SORTING)) is not None
    ]
    return (
        f"Cell ids and sort together are {_percents(sorting)} of the fastest step, the phase"
        f" \u201c{longest}\u201d is {_percents(largest)}; over all algorithms cell ids and sort"
        f" are {_percents(everywhere)}."
    )


def _resorted(run: StudyRun, scan: Scan) -> str:
    """Say where a step is faster with a re-sort than with the full sort that it saves."""
    axis = AXES[scan.axis]
    found: dict[str, list[str]] = {}
    for subject in run.subjects:
        full = run.full_sort(subject)
        compared = verdict.overtaking(run, scan, subject, [full]) if full else None
        if compared is not None:
            found.setdefault(compared.where(axis), []).append(run.labels[subject])
    if not found:
        return ""
    parts = [f"{where} with {formats.listing(labels)}" for where, labels in found.items()]
    return f"Re-sorting instead of sorting anew makes a step faster: {'; '.join(parts)}."


def _alone(run: StudyRun, scan: Scan, ranked: Sequence[Ranking], beside: Sequence[StudyRun]) -> str:
    """Set the order of the algorithms in a step beside that of the sorts by themselves."""
    alone = _sorts_alone(run, beside)
    for ranking in reversed(ranked if alone is not None else ()):
        assert alone is not None
        at = {"particles": ranking.value, "per_cell": alone.common["per_cell"]}
        sorts = {cell.subject: cell for cell in alone.at(**at) if cell.ok}
        steps = {cell.subject: cell for cell in ranking.cells if cell.subject in sorts}
        if len(steps) > 1:
            place = next(iter(sorts.values())).place
            where = describe(place, ("particles", "per_cell", "order"))
            return _compared(
                run, alone.study.name, where, list(steps), sorted(steps, key=_median_in(sorts))
            )
    return ""


def _sorts_alone(run: StudyRun, beside: Sequence[StudyRun]) -> StudyRun | None:
    """Return the study that times most of a step's sorts without the rest of the step, if any."""
    shared = {
        other.study.name: (len(set(run.subjects) & set(other.subjects)), other)
        for other in beside
        if not other.is_simulation
    }
    count, found = max(shared.values(), key=lambda each: each[0], default=(0, None))
    return found if count else None


def _median_in(cells: dict[Subject, Cell]) -> Callable[[Subject], float]:
    return lambda subject: cells[subject].median_ms


def _compared(
    run: StudyRun, study: str, where: str, in_step: Sequence[Subject], alone: Sequence[Subject]
) -> str:
    """Say who is first in either order, and which place it has in the other."""
    count = len(in_step)
    said = f"Of the {count} that {study} times by themselves too ({where}), "
    if in_step[0] == alone[0]:
        moved = sum(a != b for a, b in zip(in_step, alone, strict=True))
        return said + (
            f"{run.labels[alone[0]]} is the fastest in a step and by itself;"
            f" {moved or 'none'} of them change places."
        )
    return said + (
        f"{run.labels[alone[0]]} is the fastest sort and comes"
        f" {formats.ordinal(in_step.index(alone[0]) + 1)} in a step;"
        f" {run.labels[in_step[0]]} makes the fastest step and comes"
        f" {formats.ordinal(alone.index(in_step[0]) + 1)} by itself."
    )


def _skins(run: StudyRun, scan: Scan) -> str:
    """Say which step is the fastest of all skins, and what a skin brings to each algorithm."""
    timed = [cell for value in scan.values(run) for cell in scan.at(run, value) if cell.ok]
    found: dict[str, list[str]] = {}
    for subject in run.subjects:
        own = {cell.place.skin: cell for cell in timed if cell.subject == subject}
        none = own.pop(0, None)
        if none is not None and own:
            best = min(own.values(), key=lambda cell: cell.median_ms)
            found.setdefault(_effect(best, none), []).append(run.labels[subject])
    if not found:
        return ""
    first = min(timed, key=lambda cell: cell.median_ms)
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


def _percents(shares: Sequence[float]) -> str:
    return f"{formats.span([100 * share for share in shares])} %"
