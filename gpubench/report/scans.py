"""Ways through the inputs of a study, and what is fastest and overtakes what along them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from gpubench.evidence.declared import Group
from gpubench.report.axes import AXES, COUNTS, Axis
from gpubench.report.cells import Cell, grouped
from gpubench.report.machines import StudyRun

# Kinds of answers, in words.
ANSWERS = {
    "linked": "linked lists",
    "sorted": "sorted cells",
    "limited": "cells of limited size",
    "ordered": "filters that keep the order",
    "unordered": "filters that do not keep the order",
    "stable": "stable sorts",
    "unstable": "sorts that are not stable",
    "count": "counts",
    "list": "lists",
}
KEY_AXES = (
    "value_bytes", "key_order", "key_type", "key_entropy", "key_bits", "keys_moved", "segment_keys",
)  # fmt: skip
_FEWEST_STEPS = 3  # time steps that make a scan


@dataclass(frozen=True)
class Scan:
    """One axis to go along, and what stays as it is meanwhile.

    usual: axes that stay as they mostly are, of which the title says nothing.
    """

    axis: str
    fixed: dict[str, Any] = field(default_factory=dict)
    usual: frozenset[str] = frozenset()

    def values(self, run: StudyRun) -> list[Any]:
        """Return the values along the axis at which anything was measured."""
        return run.values(self.axis, **self.fixed) or [run.common[self.axis]]

    def at(self, run: StudyRun, value: Any) -> list[Cell]:
        """Return the cell of each subject at one value."""
        return run.at(**{**self.fixed, self.axis: value})

    def title(self, write: Callable[[Axis, Any], str] = Axis.write) -> str:
        """Say what stays as it is."""
        return ", ".join(
            AXES[name].phrase.format(write(AXES[name], value))
            for name, value in self.fixed.items()
            if name not in self.usual
        )


class Ranking(NamedTuple):
    """What was ranked together at one value of a scan, fastest first.

    answer: the group of equal work, in words; "" where there is only one.
    """

    value: Any
    cells: Sequence[Cell]
    answer: str = ""

    @property
    def tied(self) -> list[Cell]:
        """The fastest and every cell that it is not known to be faster than."""
        return [cell for cell in self.cells if cell.is_first]

    @property
    def factor(self) -> float | None:
        """How many times longer the next takes; None without a next that can be told apart."""
        if len(self.tied) > 1 or len(self.cells) < 2:
            return None
        return self.cells[1].over_first.value


@lru_cache(maxsize=64)
def scans(run: StudyRun) -> list[Scan]:
    """Return the ways through a study: the first is that of its published table.

    Without algorithms for columns, it goes along the particles per cell at the largest size; for
    a workload along the particles, and along the skin or the time step wherever that varies.
    """
    if run.is_simulation:
        return [scan for scan in _simulations(run) if rankings(run, scan)]
    published = run.study.published
    streams = [axis for axis in COUNTS if axis != "particles" and run.values(axis)]
    main = streams[0] if streams else "per_cell"
    fixed: dict[str, Any] = {}
    if published is not None:
        main = published.row_axis if published.column_axis == "algorithm" else main
        fixed = {k: v for k, v in published.axes.items() if v in run.values(k)}
    timed = {cell.place.particles for cell in run.timed}
    sizes = [size for size in run.values("particles") if size in timed]
    if published is not None and published.row_axis == "particles":
        sizes = [size for size in sizes if size in published.rows] or sizes
    size = max(sizes, default=None)
    if main != "particles" and size is not None:
        fixed = {"particles": size} | fixed
    if main == "key_count":
        return [scan for scan in _of_keys(run) if rankings(run, scan)]
    fixed.pop(main, None)
    found = [Scan(main, fixed)]
    if main == "moved":
        others = run.values("destination", **{main: run.common[main]})
        found += [
            Scan(main, fixed | {"destination": d}) for d in others if d != fixed.get("destination")
        ]
    if main == "records" and len(run.values("kept")) > 1:
        rest = {k: v for k, v in fixed.items() if k != "kept"}
        found.append(Scan("kept", {"records": run.common["records"]} | rest))
    return [scan for scan in found if rankings(run, scan)]


def _of_keys(run: StudyRun) -> list[Scan]:
    """Return scans along the number of keys, for each width of value, then along all else."""
    usual = {name: run.common[name] for name in KEY_AXES}
    widths = run.values("value_bytes", **{n: v for n, v in usual.items() if n != "value_bytes"})
    widths.sort(key=lambda width: width != usual["value_bytes"])  # the usual one first
    found = [Scan("key_count", usual | {"value_bytes": width}) for width in widths]
    for axis in ("keys_moved", "key_entropy", "key_bits", "segment_keys"):
        tried: dict[Any, set[Any]] = {}
        for _, place in run.cells:
            if getattr(place, axis) is not None:
                rest = tuple(getattr(place, n) for n in ("key_count", *KEY_AXES) if n != axis)
                tried.setdefault(rest, set()).add(getattr(place, axis))
        names = [name for name in ("key_count", *KEY_AXES) if name != axis]
        found += [
            Scan(axis, dict(zip(names, rest, strict=True)))
            for rest, values in tried.items()
            if len(values) > 1
        ]
    return [
        Scan(scan.axis, scan.fixed, frozenset(n for n, v in usual.items() if scan.fixed.get(n) == v)
             - {"value_bytes"})
        for scan in found
    ]  # fmt: skip


def _simulations(run: StudyRun) -> list[Scan]:
    """Return a scan along the particles for each workload, then those along skin or time step."""
    sizes, others = [], []
    for workload in run.values("workload"):
        usual = {name: run.kinds[workload][name] for name in ("time_step", "skin")}
        sizes.append(Scan("particles", {"workload": workload} | usual))
        for axis, rest, fewest in (
            ("skin", ("particles", "time_step"), 2),
            ("time_step", ("particles", "skin"), _FEWEST_STEPS),
        ):
            tried: dict[Any, set[Any]] = {}
            for _, place in run.cells:
                if place.workload == workload:
                    at = tuple(getattr(place, name) for name in rest)
                    tried.setdefault(at, set()).add(getattr(place, axis))
            others += [
                Scan(axis, {"workload": workload, **dict(zip(rest, at, strict=True))})
                for at, values in tried.items()
                if len(values) >= fewest
            ]
    return [*sizes, *others]


def grids(run: StudyRun) -> list[Scan]:
    """Return the scans of a study; that along the particles per cell once for each size."""
    found = scans(run)
    if found and found[0].axis == "per_cell" and run.values("per_cell"):
        return [Scan("per_cell", {"particles": size}) for size in run.values("particles")]
    return found


def rankings(run: StudyRun, scan: Scan) -> list[Ranking]:
    """Return what was ranked at each value along a scan: on one input, the commonest there.

    Each group of equal work has rankings of its own.
    """
    found: dict[Group, list[Ranking]] = {}
    for value in scan.values(run):
        places = Counter(cell.place for cell in scan.at(run, value) if cell.ok)
        for place, _ in places.most_common(1):
            for group, cells in grouped(run.ranked_at(place), lambda c: c.ranked.group).items():
                found.setdefault(group, []).append(Ranking(value, cells))

    def place_in_study(group: Group) -> int:
        return min(run.subjects.index(c.subject) for r in found[group] for c in r.cells)

    return [
        ranking._replace(answer=words_of(group, found) if len(found) > 1 else "")
        for group in sorted(found, key=place_in_study)
        for ranking in found[group]
    ]


def words_of(group: Group, groups: Collection[Group]) -> str:
    """Say what a group of equal work answers, as far as it takes to tell it from others."""
    answer = ANSWERS.get(str(group.answer), group.answer or "")
    problem = (group.problem or "").replace("-", " ")
    alike = [other for other in groups if other.answer == group.answer]
    return answer if answer and len(alike) == 1 else f"{answer} ({problem})" if answer else problem
