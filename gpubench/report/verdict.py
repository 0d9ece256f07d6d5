"""The verdict on a study in a few sentences, each computed from the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from gpubench.evidence.ranking import Subject
from gpubench.report import formats, overtaking, published
from gpubench.report.axes import AXES, Axis
from gpubench.report.cells import grouped
from gpubench.report.machines import StudyRun
from gpubench.report.scans import (
    Ranking,
    Scan,
    rankings,
    scans,
)

NOTHING_TIMED = "Nothing was timed, so there is nothing to compare."


def sentences(run: StudyRun) -> list[str]:
    """Return the verdict, one statement a string."""
    if not run.timed:
        return [NOTHING_TIMED]
    won = [_winners(run, scan) for scan in scans(run) if scan.axis not in ("skin", "time_step")]
    return [*won, *overtaking.sentences(run), *_launched(run), *published.claim(run)]


def gist(run: StudyRun) -> str:
    """Say in one short sentence what is fastest along the first scan of a study."""
    scan = next(iter(scans(run)), None)
    if scan is None:
        return NOTHING_TIMED
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
    """Return what is fastest at a place, in the order of the study where that is inconclusive."""
    return sorted((cell.subject for cell in ranking.tied), key=run.subjects.index)


def _counted(run: StudyRun, leaders: Sequence[list[Subject]]) -> str:
    """Say in how many cases each subject is fastest."""
    alone = Counter(run.labels[each[0]] for each in leaders if len(each) == 1)
    said = [f"{label} in {count}" for label, count in alone.most_common()]
    together = len(leaders) - alone.total()
    return ", ".join([*said, *([f"{together} inconclusive"] if together else [])])


def _winners(run: StudyRun, scan: Scan) -> str:
    parts, alone = [], []
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
            part = f"{formats.listing(names)} are fastest {where}, which of them is inconclusive"
        elif factors:
            part = (
                f"{names[0]} is fastest {where}:"
                f" the next takes {formats.span(factors)} times as long"
            )
        else:
            alone.append(f"{names[0]} is the only one timed {where}")
            continue
        parts.append(part)
    title = scan.title(Axis.count)
    said = "; ".join(parts or alone)
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
