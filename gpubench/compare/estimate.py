"""How long a comparison of two codes will take, before it begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpubench.compare.pairs import Job
from gpubench.core import registry
from gpubench.core.contracts import BACKENDS
from gpubench.studies.plan import plan
from gpubench.studies.selection import Selection
from gpubench.studies.study import parse_study

# To start a pair of processes takes some 3 s, and each cell 0.6 s: it took 0.56 s on an H200, and
# 0.75 s on two cores of a CPU.
START_S, CELL_S = 3.0, 0.6


def in_words(
    job: Job,
    device: Mapping[str, Any],
    looks: Sequence[int],
    seconds: float,
    only: Collection[str] | None = None,
) -> str:
    """Say how long a comparison will take.

    device: as in a results file. looks: numbers of pairs after which it looks at the data. seconds:
    no pair is begun after so long, but for those of the first look. only: keys of the cells that
    are measured; None for all of the job.
    """
    cells = cells_of(job, device) if only is None else len(only)
    each = START_S + cells * CELL_S
    first, most = looks[0] * each, looks[-1] * each
    longest = max(first, min(most, seconds))
    more = f"; up to {_duration(longest)} where cells are inconclusive" if longest > first else ""
    what = f"{cells} cell{'s' if cells > 1 else ''}"
    return f"{what} in {looks[0]} pairs of processes: about {_duration(first)}{more}"


def cells_of(job: Job, device: Mapping[str, Any]) -> int:
    """Count what a job measures on a device, given as in a results file.

    As the worker does: of launches and their graph, the graph alone. What needs another back end
    does not count.
    """
    given = dict(job.selection)
    if given.get("quick") is None:
        given["quick"] = bool(device.get("is_cpu"))
    absent = BACKENDS - {device["backend"]}
    count = 0
    for group in plan(parse_study(job.study, job.text), Selection(**given)):
        sweep = group.sweep
        modes = [mode for mode in sweep.modes if mode != "hot" or "graph" not in sweep.modes]
        able = [
            subject
            for subject in sweep.subjects
            if not absent & registry.find_algorithm(subject.algorithm).forms[subject.form].requires
        ]
        count += 0 if absent & sweep.requires else len(able) * len(modes)
    return count


def _duration(seconds: float) -> str:
    """Write a duration as people estimate it: 40 s, 3 min."""
    return f"{max(10, round(seconds, -1)):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
