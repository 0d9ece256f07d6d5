"""What a report says of whole simulation steps, of which the sort is one part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpubench.report import formats
from gpubench.report.axes import AXES, Axis
from gpubench.report.cells import MODES, Cell, fastest, told_apart
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table
from gpubench.report.scans import Ranking, Scan, rankings, scans

SORTING = ("cell ids", "sort")  # phases that the algorithm of a step is behind
MILLION = 1e6


def sentences(run: StudyRun) -> list[str]:
    """Return what is to be said of steps beyond which is fastest."""
    said = [beside(run)]
    for scan in scans(run) if run.is_simulation else ():
        ranked = rankings(run, scan)
        if scan.axis == "particles":
            said += [_rates(run, scan, ranked), _parts(run, scan, ranked)]
        elif scan.axis == "skin":
            said += [_skins(run, scan)]
        else:
            said += [_time_steps(run, scan, ranked)]
    return [sentence for sentence in said if sentence]


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


def _time_steps(run: StudyRun, scan: Scan, ranked: Sequence[Ranking]) -> str:
    """Say with which time step a unit of time takes least, and how much more others take."""
    first = [ranking.cells[0] for ranking in ranked if ranking.value]
    mode = next((m for m in MODES if all(cell.is_timed(m) for cell in first)), None)
    if mode is None or len(first) < 2:
        return ""
    best = [cell.modes[mode] for cell in first]
    least = min(best, key=_per_unit_ms)
    over = [_per_unit_ms(cell) / _per_unit_ms(least) for cell in best if cell is not least]
    step = AXES["time_step"]
    return (
        f"In {scan.title(Axis.count)}, a unit of time takes least with"
        f" {step.say(least.place.time_step)}: {formats.significant(_per_unit_ms(least))} ms, with"
        f" the others {formats.span(over)} times as long."
    )  # fmt: skip


def _in(run: StudyRun, scan: Scan) -> str:
    """Name the workload where there are several."""
    return f"In {scan.fixed['workload']}, " if len(run.values("workload")) > 1 else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rates(run: StudyRun, scan: Scan, ranked: Sequence[Ranking]) -> str:
    """Say how many particles the fastest step advances in a second, and where that is most."""
    best = max((r.cells[0] for r in ranked), key=lambda cell: cell.record.particle_steps_per_s or 0)
    rate = best.record.particle_steps_per_s
    return _capital(
        f"{_in(run, scan)}at most {formats.significant(rate / MILLION)} million particle-steps per"
        f" second, with {run.labels[best.subject]} at {AXES[scan.axis].say(best.place.particles)}."
    ) if rate else ""  # fmt: skip


def _parts(run: StudyRun, scan: Scan, ranked: Sequence[Ranking]) -> str:
    """Say how much of a step is the sort, in the fastest and in all."""
    best = [r.cells[0] for r in ranked]
    sorting = _percents(best, *SORTING)
    others = [name for name in run.phases if name not in SORTING]
    if not (sorting and others):
        return ""
    longest = max(others, key=lambda name: sum(c.phase_share(name) or 0 for c in best))
    every = [cell for r in ranked for cell in r.cells]
    return _capital(
        f"{_in(run, scan)}cell ids and sort together are {sorting} of the fastest step, the phase"
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
