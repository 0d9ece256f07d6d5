"""The evidence for answers: measured times of neighbour searches, from results files."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from gpubench.base import gpus, paths
from gpubench.base.errors import UserError
from gpubench.base.roles import study_for
from gpubench.choose.question import GRAPH, PYTHON, words_of
from gpubench.choose.surface import Floats
from gpubench.evidence import results
from gpubench.evidence.crossover import Timed
from gpubench.evidence.declared import group
from gpubench.evidence.files import load_results
from gpubench.evidence.pooling import STATUSES, Measurement, device_of, grouped, started
from gpubench.evidence.ranking import Variant, may_rank, rank, unranked
from gpubench.evidence.records import AnyRecord
from gpubench.problems.neighbours.tasks import TASKS

STUDY = study_for("choose")
MAP = "map"  # the study's sweep over sizes and occupancies, which takes minutes
LAUNCHED = "hot"  # the mode in which every algorithm and library can be timed
SORTED = "sorted"  # the answer of builds that make sorted cells
MODES = {GRAPH: ("graph", LAUNCHED), PYTHON: (LAUNCHED,)}
NOT_MEASURED = "not measured"
LAUNCHED_ALONE = "timed as launched from Python alone, unlike the fastest in a graph"
LOCAL = Path("results/local")
AXES = ("particles", "per_cell", "moved", "contrast", "radii")  # the axes of interpolation
UNMOVED = 0.001  # moves of a smaller fraction of the particles cost almost nothing


class Setting(NamedTuple):
    """The non-numeric properties of an input; there is no interpolation between settings.

    destination: where particles moved to, if any moved. periodic: axes along which the box repeats.
    """

    distribution: str
    order: str
    destination: str | None
    periodic: str

    @property
    def words(self) -> str:
        """A description for users."""
        moved = f", moved {self.destination}" if self.destination else ""
        box = f", periodic {self.periodic}" if self.periodic else ""
        return f"{self.distribution}, {self.order}{moved}{box}"


@dataclass(frozen=True, order=True)
class InputPoint:
    """An input, given by its axes, see `Question`; without a contrast, it is 1."""

    particles: int
    per_cell: float
    moved: float | None
    setting: Setting
    contrast: float = 1.0
    radii: float = 1.0

    @property
    def axes(self) -> list[str]:
        """The axes on which it has a value."""
        return [axis for axis in AXES if getattr(self, axis) is not None]

    @cached_property
    def octaves(self) -> tuple[float, ...]:
        """The values along AXES, in octaves (see `to_octaves`), the unit of all distances."""
        return tuple(to_octaves(axis, getattr(self, axis)) for axis in self.axes)

    @property
    def words(self) -> str:
        """A description for users, without the setting."""
        return words_of(self.particles, self.per_cell, self.moved, self.contrast, self.radii)


def named(distribution: str, contrast: float | None) -> str:
    """Return the distribution of a setting: with and without a contrast, they are others."""
    return distribution if contrast is None else f"{distribution} of a given contrast"


def to_octaves(axis: str, value: float) -> float:
    """Convert a value to octaves: a doubling adds 1, but less for small fractions moved."""
    return math.log2(1 + value / UNMOVED) if axis == "moved" else math.log2(value)


def from_octaves(axis: str, octaves: float) -> float:
    """Convert octaves to a value; the inverse of `to_octaves`."""
    power = math.exp2(octaves)
    return UNMOVED * (power - 1) if axis == "moved" else power


class MachineName(NamedTuple):
    """A measured device. backend: cuda or opencl. device: the vendor's name for it."""

    name: str
    backend: str
    device: str


class Known(NamedTuple):
    """The measurement of a subject on an input.

    why: status and reason if there is no comparable time. ms: the comparable time, see `compared`.
    half_width: the longer side of its interval, in logarithms. is_launched: whether `ms` comes from
    a comparison of launches from Python, for a graph. median_ms, low_ms, high_ms: as timed.
    """

    why: tuple[str, str] | None
    ms: float
    half_width: float
    is_launched: bool
    median_ms: float
    low_ms: float
    high_ms: float
    workspace_bytes: int | None
    peak_bytes: int | None
    library: str | None
    file: str
    commit: str | None

    @classmethod
    def of(cls, measured: Measurement, time: Timed | None, called_from: str) -> Known:
        """Convert a measurement. time: the comparable time, if any."""
        record, source = measured.record, measured.results
        times = (record.median_ms, record.ci95_low_ms, record.ci95_high_ms)
        own, low, high = (math.nan if each is None else each for each in times)
        why = None if time else unranked(record) or (NOT_MEASURED, LAUNCHED_ALONE)
        time = time or Timed(math.nan, math.nan, math.nan)
        half_width = math.log(max(time.high / time.median, time.median / time.low))
        is_launched = record.mode == LAUNCHED and called_from == GRAPH
        return cls(
            why, time.median, half_width, is_launched, own, low, high,
            record.workspace_bytes, record.peak_bytes, record.library, source.path.name,
            source.environment["commit"],
        )  # fmt: skip


Table: TypeAlias = Mapping[Variant, Mapping[InputPoint, Known]]


def files(given: Sequence[Path], device: str | None, study: str = STUDY) -> list[results.Results]:
    """Read results files and folders, by default the local results of the study, else shipped ones.

    device: cuda, opencl or the full name of a device, to read only its results. Default results are
    reduced to those of one GPU. Raises UserError if there are none.
    """
    make_some = f"gpubench run {study}"
    if given:
        found = _of_device(load_results(given, make_some), device)
        if not found:
            raise UserError(f"these results hold nothing that was measured through {device}")
        return found
    for of_study in default_files(study):
        if found := _of_device(map(results.load, of_study), device):
            return _of_one_gpu(found)
    through = f" through {device}" if device else ""
    raise UserError(f"there are no results of the study {study}{through}: `{make_some}` makes some")


def default_files(study: str = STUDY) -> list[list[Path]]:
    """Return two lists of a study's results files: local and shipped."""
    return [
        [path for place in sorted(folder.glob("*")) for path in results.files_of(place, study)]
        for folder in (LOCAL, paths.measured_folder())
    ]


def repeats(device: str) -> list[results.Results]:
    """Read the local and shipped runs that give the spread between runs of a device."""
    return _of_device(map(results.load, chain(*default_files(study_for("spread")))), device)


def measured_gpus(found: Iterable[results.Results]) -> list[str]:
    """Return the names of the NVIDIA GPUs in results, most recently measured first."""
    latest = sorted(_of_device(found, "cuda"), key=lambda each: started(each.environment))
    return list(dict.fromkeys(each.environment["device"]["name"] for each in reversed(latest)))


def _of_device(found: Iterable[results.Results], device: str | None) -> list[results.Results]:
    known = ((each, each.environment["device"]) for each in found)
    return [each for each, of in known if device in (None, of["backend"], of["name"])]


def _of_one_gpu(found: list[results.Results]) -> list[results.Results]:
    """Keep one GPU: this machine's if it was measured, else the most recently measured."""
    names = measured_gpus(found)
    if len(names) < 2:
        return found
    kept = next((name for name in gpus.gpu_names() if name in names), names[0])
    return _of_device(found, kept)


def machine(found: Sequence[results.Results]) -> tuple[MachineName, list[results.Results]]:
    """Return the only machine in results, or the only one with CUDA, and its results."""
    by_machine = grouped(found, lambda each: MachineName(*device_of(each.environment)[:3]))
    kept = [key for key in by_machine if key.backend == "cuda"] or list(by_machine)
    if len(kept) > 1:
        names = ", ".join(sorted(f"{key.name} ({key.backend})" for key in kept))
        raise UserError(f"these are results of several machines: {names}: give those of one")
    return kept[0], by_machine[kept[0]]


def compared(
    measured: Sequence[Measurement], called_from: str
) -> tuple[list[tuple[Measurement, Timed | None]], str]:
    """Return measurements with their comparable times, and the caller to which the times apply.

    For the caller `graph`, these are device times from `rank`, only on inputs with graph timings.
    If no input has any, they are times of launches from Python, and the caller is `python`.
    """
    able = [each for each in measured if each.record.mode in MODES[called_from]]
    if called_from == GRAPH:
        timed = (m for m in able if m.record.mode != LAUNCHED and may_rank(m.record))
        graphs = {_work(each) for each in timed}
        able = [each for each in able if _work(each) in graphs]
        if not able:
            return compared(measured, PYTHON)
    ranked = [(each, each.by_device_time) for race in rank(able) for each in race]
    return [(each.measurement, at.time if at else None) for each, at in ranked], called_from


def _work(each: Measurement) -> tuple[Hashable, ...]:
    """Return a key that is equal for measurements ranked together by `rank`."""
    return group(each.record), each.record.study, each.record.input, each.record.inputs


def tables(measured: Iterable[Measurement], called_from: str) -> dict[str, tuple[Table, str]]:
    """Return each task's table, and the caller that it applies to; rebuilds count as `update`."""
    of_tasks = grouped(measured, lambda each: _task(each.record))
    found: dict[str, tuple[Table, str]] = {}
    order = (NOT_MEASURED, *reversed(STATUSES))  # a later status overrides an earlier one
    for task in (each for each in TASKS if each in of_tasks):
        times, way = compared(of_tasks[task], called_from)
        table: dict[Variant, dict[InputPoint, Known]] = {}
        known = [(each.record, Known.of(each, time, way)) for each, time in times]
        known.sort(key=lambda pair: order.index(pair[1].why[0] if pair[1].why else "ok"))
        for record, each in known:
            table.setdefault(Variant.of(record), {})[_place(record)] = each
        if table:
            found[task] = table, way
    return found


def _task(record: AnyRecord) -> str | None:
    """Return the task that a record is evidence for, if any."""
    has_moved = record.at("moved") is not None
    is_alone = (record.inputs or 1) == 1 and has_moved == (record.at("destination") is not None)
    _, task, answer = group(record)
    if answer != (SORTED if task == "build" else None):
        return None  # structures are comparable only by tasks that query them, lists if all are CSR
    fits = record.kind == "particles" and is_alone and (task == "update") == has_moved
    return task if fits else None


def _place(record: AnyRecord) -> InputPoint:
    particles, per_cell = record.at("particles") or 0, record.at("per_cell") or 0.0
    moved = None if record.at("moved") is None else record.at("moved") / particles
    distribution, order = (record.at(name) or "" for name in ("distribution", "order"))
    periodic = "".join(compress("xyz", record.at("periodic") or ()))
    contrast, radii = record.at("contrast"), record.at("radii") or 1.0
    setting = Setting(named(distribution, contrast), order, record.at("destination"), periodic)
    return InputPoint(particles, per_cell, moved, setting, contrast or 1.0, radii)


def matrix(places: Sequence[InputPoint]) -> Floats:
    """Return the octaves of inputs, shape (inputs, axes)."""
    return np.array([place.octaves for place in places], np.float64)
