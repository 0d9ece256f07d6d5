"""Scans of a study's inputs: series that vary along one axis and agree on all others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gpubench.evidence.declared import EqualWork
from gpubench.report.axes import AXES, sizes
from gpubench.report.cells import MeasurementRow, grouped
from gpubench.report.machines import StudyRun

# Kinds of answers, in words.
ANSWERS = {
    "linked": "linked lists",
    "sorted": "sorted cells",
    "limited": "cells of limited size",
    "hashed": "hash grids",
    "tree": "trees",
    "ordered": "filters that keep the order",
    "unordered": "filters that do not keep the order",
    "stable": "stable sorts",
    "unstable": "sorts that are not stable",
    "count": "counts",
    "list": "lists",
}
_APART = ("ranks", "decomposition", "workload")  # axes compared by other modules
_ALWAYS = ("workload", "time_step")  # axes in every title, besides sizes


class Scan(NamedTuple):
    """Inputs that differ on one axis. title: what they share; columns: cells by axis value."""

    axis: str
    title: str
    columns: Mapping[Any, Sequence[MeasurementRow]]

    @property
    def cells(self) -> Iterator[MeasurementRow]:
        """All cells."""
        return (cell for cells in self.columns.values() for cell in cells)


@lru_cache(maxsize=64)
def scans(run: StudyRun) -> list[Scan]:
    """Return scans along the published rows, other numeric axes, named axes; then single inputs."""
    published = run.study.published
    first = published.row_axis if published else ""
    axes = sorted(set(AXES) - {*_APART}, key=list(AXES).index)
    axes.sort(key=lambda axis: (axis != first, AXES[axis].scale == "names"))
    found = [scan for axis in axes for scan in _along(run, axis) if len(scan.columns) > 1]
    covered = {id(cell) for scan in found for cell in scan.cells}
    had = (a for a in axes if any(getattr(place, a) is not None for place in run.by_place))
    alone = (s for s in _along(run, next(had)) if not covered & {id(cell) for cell in s.cells})
    return [*found, *alone]


def _along(run: StudyRun, axis: str) -> Iterator[Scan]:
    """Yield a scan for each combination of values on all other axes."""
    able = [
        cell
        for subject in run.subjects
        for cell in run.by_subject[subject]
        if getattr(cell.place, axis) is not None or axis == "inputs"  # inputs: None means 1
    ]
    others = [name for name in AXES if name != axis]
    groups = grouped(able, lambda cell: tuple(map(cell.place.as_kind.get, others)))
    always = {*sizes(), *_ALWAYS}
    telling = [len(set(values)) > 1 for values in zip(*groups, strict=True)]
    for rest, cells in groups.items():
        said = [
            AXES[name].say(f"{100 * value:g} %" if name == "moved" else value)
            for name, value, tells in zip(others, rest, telling, strict=True)
            if tells and value is not None and (name in always or value != run.common[name])
        ]
        columns = grouped(cells, lambda cell: getattr(cell.place, axis))
        in_order = {value: columns[value] for value in AXES[axis].order(list(columns))}
        yield Scan(axis, ", ".join(said), in_order)


def words_of(group: EqualWork, groups: Collection[EqualWork]) -> str:
    """Describe a group of equal work, in as many words as distinguish it from the others."""
    names = [ANSWERS.get(str(group.answer), group.answer), group.problem, group.task]
    answer, *more = [name.replace("-", " ") for name in names if name] or [""]
    alike = [other for other in groups if other.answer == group.answer and other != group]
    tells = {o.problem != group.problem for o in alike} | {o.task != group.task for o in alike}
    return f"{answer} ({', '.join(more)})" if more and any(tells) else answer
