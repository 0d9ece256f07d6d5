"""The verdict on a study in a few sentences, each computed from the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from gpubench.evidence.ranking import Subject
from gpubench.report import formats, overtaking, published, ranks, steps
from gpubench.report.axes import AXES, Axis, describe
from gpubench.report.cells import grouped
from gpubench.report.machines import StudyRun
from gpubench.report.scans import (
    Ranking,
    Scan,
    kinds_of_answer,
    rankings,
    scans,
)

_NO_TIME = {"skipped": "could not be made here", "failed": "failed"}
_STEPS = ("skin", "time_step")  # axes of which `steps` speaks
NOTHING_TIMED = "Nothing was timed, so there is nothing to compare."


def sentences(run: StudyRun) -> list[str]:
    """Return the verdict, one statement a string."""
    if not run.timed:
        return [NOTHING_TIMED, *_trouble(run)]
    return [
        *(_winners(run, scan) for scan in scans(run) if scan.axis not in _STEPS),
        *overtaking.sentences(run),
        *_launched(run),
        *_bounds(run),
        *_orders(run),
        *steps.sentences(run),
        *ranks.sentences(run),
        *published.sentences(run),
        *_products(run),
        *_trouble(run),
    ]


def gist(run: StudyRun) -> str:
    """Say in one short sentence what is fastest along the first scan of a study."""
    scan = next(iter(scans(run)), None)
    if scan is None:
        return NOTHING_TIMED
    if workloads := steps.beside(run):
        return workloads
    by_kind = grouped(rankings(run, scan), lambda ranking: ranking.answer)
    leaders = {kind: [_leaders(run, r) for r in own] for kind, own in by_kind.items()}
    if all(each == own[0] for own in leaders.values() for each in own):
        return _winners(run, scan)
    most = max(map(len, leaders.values()))
    said = "; ".join(
        f"{f'{kind}: ' if kind else ''}{_counted(run, own)}" for kind, own in leaders.items()
    )
    return f"Fastest, by {AXES[scan.axis].label} ({most} cases): {said}."


def _leaders(run: StudyRun, ranking: Ranking) -> list[Subject]:
    """Return what is fastest at a place, in the order of the study where that cannot be told."""
    return sorted((cell.subject for cell in ranking.tied), key=run.subjects.index)


def _counted(run: StudyRun, leaders: Sequence[list[Subject]]) -> str:
    """Say in how many cases each subject is fastest."""
    alone = Counter(run.labels[each[0]] for each in leaders if len(each) == 1)
    said = [f"{label} in {count}" for label, count in alone.most_common()]
    together = len(leaders) - alone.total()
    return ", ".join([*said, *([f"{together} inconclusive"] if together else [])])


def _winners(run: StudyRun, scan: Scan) -> str:
    parts = []
    axis = AXES[scan.axis]
    for (kind, tied), group in groupby(
        rankings(run, scan), key=lambda r: (r.answer, _leaders(run, r))
    ):
        same = list(group)
        values = [r.value for r in same if r.value is not None]
        where = f"at {axis.say(*values)}" if values else "there"
        where = f"of {kind} {where}" if kind else where
        names = [run.labels[subject] for subject in tied]
        factors = [r.factor for r in same if r.factor is not None]
        if len(names) > 1:
            part = (
                f"{formats.listing(names)} are fastest {where}, which of them is inconclusive:"
                " the 95 % intervals of their ratios include 1"
            )
        elif factors:
            part = (
                f"{names[0]} is fastest {where}:"
                f" the next takes {formats.span(factors)} times as long"
            )
        else:
            part = f"{names[0]} is the only one timed {where}"
        parts.append(part)
    title = scan.title(Axis.count)
    said = "; ".join(parts)
    return f"{'In' if run.is_simulation else 'At'} {title}, {said}." if title else f"{said}."


def _launched(run: StudyRun) -> list[str]:
    """Say where launches from the host have another winner than replays of a graph."""
    found: dict[str, list[str]] = {}
    for scan in scans(run)[:1]:
        for ranking in rankings(run, scan):
            first = ranking.cells[0]
            if len(ranking.tied) > 1 or first.mode != "graph":
                continue
            for cell in run.by_place[first.place]:
                hot = cell.modes.get("hot")
                is_other = hot is not None and hot.rank == 1 and cell.subject != first.subject
                if is_other and hot and hot.ranked.group == first.ranked.group:
                    where = AXES[scan.axis].write(ranking.value)
                    found.setdefault(run.labels[cell.subject], []).append(where)
    parts = [f"{label} (at {formats.listing(values)})" for label, values in found.items()]
    if not parts:
        return []
    return [f"Launched from the host instead of from a graph, others lead: {'; '.join(parts)}."]


def _bounds(run: StudyRun) -> list[str]:
    """Say which share of the copy bandwidth the fastest reach at the end of the first scan."""
    scan = next(iter(scans(run)), None)
    if scan is None:
        return []
    value = scan.values(run)[-1]
    found = {}
    for ranking in rankings(run, scan):
        best = ranking.cells[0]
        if ranking.value == value and best.bound is not None:
            found[ranking.answer] = formats.percent(best.bound)
            if best.place.key_count:
                rate = formats.significant(best.place.key_count / best.median_ms / 1e6)
                found[ranking.answer] += f" ({rate} Gkeys/s)"
    where = f"At {AXES[scan.axis].say(value)}, the" if value is not None else "The"
    if "" in found:
        return [
            f"{where} fastest reaches {found['']} of the copy bandwidth with the bytes that it must"
            " move."
        ]
    told = ", ".join(f"{answer} {share}" for answer, share in found.items())
    return [
        f"{where} fastest reach these shares of the copy bandwidth with the bytes that they must"
        f" move: {told}."
    ] if told else []  # fmt: skip


def _orders(run: StudyRun) -> list[str]:
    """Say what it costs that particles come in the least ordered way, at the largest size."""
    orders = AXES["order"].order(list({place.order for _, place in run.cells} - {None}))
    if run.is_simulation or len(orders) < 2:
        return []
    most, least = orders[-1], orders[0]
    sizes = [cell.place for cell in run.timed if cell.place.order == least]
    if not sizes:
        return []
    place = max(sizes, key=lambda place: (place.count, place.per_cell or 0))
    at = {"particles": place.particles, "per_cell": place.per_cell}
    known = [[run.find(s, **at, order=order) for order in (most, least)] for s in run.subjects]
    both = [(one, two) for one, two in known if one and two and one.ok and two.ok]
    if not both:
        return []
    ratios = {two.subject: two.median_ms / one.median_ms for one, two in both}
    low, high = (run.labels[pick(ratios, key=lambda s: ratios[s])] for pick in (min, max))
    return [
        f"At {describe(place, at)}, {least} order takes {formats.span(list(ratios.values()))} times"
        f" as long as {most} order: least with {low}, most with {high}."
    ]


def _products(run: StudyRun) -> list[str]:
    """Say where what is compared does not leave the same thing behind."""
    kinds = kinds_of_answer(run)
    if {"ordered", "unordered"} <= kinds.keys():
        loose = sorted(kinds["unordered"])
        verb = "does" if len(loose) == 1 else "do"
        return [
            f"{formats.listing(loose)} {verb} not keep the order of the records; the others do."
        ]
    table = run.study.published
    if table is None or table.algorithms or not {"linked", "sorted"} <= kinds.keys():
        return []
    return [
        "Linked lists and sorted orders are not the same product: a list leaves the particles"
        " where they are, which saves time in building it and costs time in every query."
    ]


def _trouble(run: StudyRun) -> list[str]:
    statuses = Counter(record["status"] for record in run.records)
    wrong, total = statuses["wrong"], len(run.records)
    said = []
    if wrong:
        said.append(f"{wrong} of {total} measurements gave a wrong answer and have no time.")
    elif statuses["ok"]:
        said.append("Every answer was checked, and none was wrong.")
    rest = [f"{statuses[s]} {words}" for s, words in _NO_TIME.items() if statuses[s]]
    if rest:
        said.append(f"Of {total} measurements, {formats.listing(rest)}.")
    if wrong or rest:
        said.append("The reasons are below.")
    return [" ".join(said)] if said else []
