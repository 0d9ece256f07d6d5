"""What was measured of one subject at one place: a cell of a study, with its ranks.

A subject is an algorithm in one form; a place is the values of every axis of its input. A cell
holds, for each mode of timing, the measurement that `pool` made and the rank that `rank` gave it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from gpubench.evidence.crossover import Ratio, Timed
from gpubench.evidence.declared import declared, lost
from gpubench.evidence.frame import share_of_bound
from gpubench.evidence.ranking import Ranked
from gpubench.evidence.records import Record as Record
from gpubench.report import formats
from gpubench.report.axes import COUNTS, SIZES

Names = tuple[str, ...]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# The headline of a cell is the first of these that was measured.
HEADLINE_MODES = ("graph", "hot", "cold")
# A phase of that name is a picture, which is no part of a step; phases whose names begin with the
# other one are what several ranks spend on each other.
DRAW, EXCHANGE = "draw", "exchange"
# A sample is long where it is so many times as long as one of nothing, which is a part of it.
LONG = 20
_UNITS_MS = {"s": 1000.0, "ms": 1.0, "us": 0.001}


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key, both in the order in which they come."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


@dataclass(frozen=True, order=True)
class Subject:
    """An algorithm in one of its forms, with its parameters."""

    algorithm: str
    form: str
    parameters: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, record: Record) -> Subject:
        """Return the subject of a record."""
        parameters = tuple(sorted(record["parameters"].items()))
        return cls(record["algorithm"], record["form"], parameters)


@dataclass(frozen=True)
class Place:
    """The input of a measurement: everything about it but what ran on it, and how it was timed."""

    particles: int | None
    per_cell: float | None
    records: int | None
    kept: float | None
    record_bytes: int | None
    nulls: str | None
    pairs: int | None
    matrix: str | None
    surface: str | None
    faces: int | None
    depth: int | None
    distribution: str | None
    order: str | None
    moved: int | None
    destination: str | None
    periodic: tuple[bool, ...] | None
    workload: str | None
    time_step: float | None
    skin: float | None
    ranks: int | None  # of a simulation: 1 or more
    decomposition: str | None
    inputs: int | None  # that take turns; None for one

    @classmethod
    def of(cls, record: Record) -> Place:
        """Return the place of a record."""
        found = {axis.name: record[axis.name] for axis in fields(cls)}
        if found["periodic"] is not None:
            found["periodic"] = tuple(found["periodic"])
        if found["workload"] is not None and found["ranks"] is None:
            found["ranks"] = 1
        return cls(**found)

    @property
    def count(self) -> int:
        """How many particles, records or pairs there are."""
        counts = (self.particles, self.records, self.pairs)
        return next(number for number in counts if number is not None)

    @property
    def kind(self) -> dict[str, Any]:
        """All but the sizes; what moved as a share, so that it is of one kind at every size."""
        found = {name: value for name, value in vars(self).items() if name not in SIZES}
        if self.moved is not None and self.particles:
            found["moved"] = round(self.moved / self.particles, 3)
        return found

    def has(self, **axes: object) -> bool:
        """Say whether it has these values."""
        return all(getattr(self, name) == value for name, value in axes.items())

    def values(self, axes: Names, of_kind: Names) -> tuple[Any, ...]:
        """Return its values on some axes as they are, then on others as in its kind."""
        kind = self.kind
        return *(getattr(self, name) for name in axes), *(kind[name] for name in of_kind)


@dataclass
class Cell:
    """The ranked measurements of one subject at one place, one for each mode."""

    subject: Subject
    place: Place
    by_mode: dict[str, Ranked] = field(default_factory=dict)

    @cached_property
    def shown(self) -> Ranked:
        """The measurement to show: a wrong one if any is, else the first mode that was timed."""
        found = [self.by_mode[mode] for mode in HEADLINE_MODES if mode in self.by_mode]
        for status in ("wrong", "ok", "failed"):
            for each in found:
                if each.measurement.record["status"] == status:
                    return each
        return found[0]

    @property
    def headline(self) -> Record:
        """The record to show."""
        return self.shown.measurement.record

    @property
    def records(self) -> list[Record]:
        """The record of each mode."""
        return [each.measurement.record for each in self.by_mode.values()]

    def in_mode(self, mode: str) -> Cell:
        """Return the cell of one of its modes alone."""
        return replace(self, by_mode={mode: self.by_mode[mode]})

    def is_timed(self, mode: str) -> bool:
        """Say whether it has a time in a mode."""
        return mode in self.by_mode and self.in_mode(mode).ok

    @property
    def days(self) -> set[str]:
        """When the newest run of each mode began, as in 2025-01-31."""
        return {
            max(day_of(timing.results.environment) for timing in each.measurement.timings)
            for each in self.by_mode.values()
        }

    @property
    def replaces(self) -> str | None:
        """The algorithm that builds from nothing what this one updates; None for all others."""
        return declared(self.headline).replaces

    @property
    def lost(self) -> int:
        """How many particles the answer lacks, where its algorithm may lose some."""
        return lost(self.headline)

    @property
    def ok(self) -> bool:
        """Whether the cell has a time and no wrong answer in any mode."""
        return bool(self.headline["status"] == "ok")

    @property
    def mode(self) -> str:
        """The mode of what is shown."""
        return str(self.headline["mode"])

    @property
    def is_first(self) -> bool:
        """Whether nothing that does equal work is known to be faster."""
        return self.shown.is_first

    @property
    def over_first(self) -> Ratio:
        """Its time over that of the fastest that does equal work."""
        assert self.shown.ratio is not None
        return self.shown.ratio

    @property
    def median_ms(self) -> float:
        """Headline median in milliseconds."""
        return float(self.headline["median_ms"])

    @property
    def interval_ms(self) -> tuple[float, float]:
        """Headline 95 % interval of the median in milliseconds."""
        return float(self.headline["ci95_low_ms"]), float(self.headline["ci95_high_ms"])

    @property
    def timed(self) -> Timed:
        """Headline median and interval in milliseconds."""
        return Timed(self.median_ms, *self.interval_ms)

    def over(self, other: Cell) -> Ratio:
        """Divide its time by another."""
        return self.timed.over(other.timed)

    @property
    def overhead_ms(self) -> float | None:
        """What a sample of nothing took in the same mode; older results know it of hot alone."""
        environment = self.shown.measurement.results.environment
        found = environment.get("overhead_ms", {"hot": environment.get("empty_launch_ms")})
        overhead_ms: float | None = found.get(self.mode)
        return overhead_ms

    @property
    def is_short(self) -> bool:
        """Whether the headline's samples are so short that what a measurement adds shows in them.

        False where that was not measured.
        """
        overhead_ms = self.overhead_ms
        if not self.ok or overhead_ms is None:
            return False
        return bool(self.median_ms * self.headline["batch"] < LONG * overhead_ms)

    @property
    def reported(self) -> dict[str, float | str]:
        """What the headline's launch reported beside its answer, as far as it is number or text."""
        outcome = self.headline["outcome"].items()
        return {name: value for name, value in outcome if type(value) in (int, float, str)}

    def number(self, name: str) -> float | None:
        """Return a number that the headline's launch reported; None where it is none."""
        value = self.reported.get(name)
        return None if isinstance(value, str) else value

    def unit_ms(self, unit: str) -> float:
        """Return how many milliseconds one of a unit of published times is for this input."""
        return 0.001 * (self.place.records or 1) if unit == "us/record" else _UNITS_MS[unit]

    @property
    def memory_bytes(self) -> int | None:
        """The most memory on the device, or else what was allocated; None if unknown."""
        peak: int | None = self.headline["peak_bytes"]
        allocated: int | None = self.headline["workspace_bytes"]
        return allocated if peak is None else peak

    @property
    def phases_ms(self) -> dict[str, float]:
        """Time of each phase of a simulation step in milliseconds; empty where it has none."""
        found = (self.headline["phases_ms"] or {}) if self.ok else {}
        return {name: time for name, time in found.items() if name != DRAW}

    @property
    def draw_ms(self) -> float | None:
        """Time to draw a picture on the device in milliseconds; None where it was not timed."""
        return (self.headline["phases_ms"] or {}).get(DRAW) if self.ok else None

    @property
    def frame_ms(self) -> float | None:
        """Time of a step and a picture of it in milliseconds; None where none was drawn."""
        return None if self.draw_ms is None else self.median_ms + self.draw_ms

    @property
    def communication(self) -> float | None:
        """Which part of a step the ranks spend on exchanging; None for one rank."""
        if self.place.ranks in (None, 1):
            return None
        return self.phase_share(*(name for name in self.phases_ms if name.startswith(EXCHANGE)))

    def phase_share(self, *names: str) -> float | None:
        """Return which part of the time of all phases some of them take; None where unknown."""
        found = self.phases_ms
        total = sum(found.values())
        return sum(found.get(name, 0.0) for name in names) / total if total else None

    @property
    def particle_steps_per_s(self) -> float | None:
        """How many particles a simulation advances by a step in a second; None elsewhere."""
        rate = self.headline["particle_steps_per_s"]
        return float(rate) if self.ok and rate else None

    @property
    def copy_share(self) -> float | None:
        """Least traffic over time, as a share of the measured copy bandwidth; None if unknown."""
        return share_of_bound(self.shown.measurement) if self.ok else None

    @property
    def told(self) -> dict[str, str]:
        """What is told of it where it is pointed at: share of the bound, and how to repeat it."""
        share = self.copy_share
        bound = {} if share is None else {"bound": formats.percent(share)}
        return bound | {"command": command(self.headline)}


def command(record: Record) -> str:
    """Return the command that measures the cell of a record again."""
    launcher = [] if record["ranks"] is None else ["mpirun", "-n", str(record["ranks"])]
    words = [*launcher, "gpubench", "run", record["study"], "--device", record["device"]]
    words += ["--algorithms", record["algorithm"]]
    sizes = [record[name] for name in COUNTS if record[name] is not None]
    if sizes:
        words += ["--particles", str(sizes[0])]
    if record["per_cell"] is not None:
        words += ["--per-cell", f"{record['per_cell']:g}"]
    if record["inputs"] is not None:
        words += ["--inputs", str(record["inputs"])]
    return shlex.join(words)


def told_apart(faster: Cell, slower: Cell) -> bool:
    """Say whether the 95 % interval of the ratio of two medians lies above 1."""
    return slower.over(faster).low > 1


def fastest(cells: Iterable[Cell]) -> Cell:
    """Return the cell with the lowest median."""
    return min(cells, key=lambda cell: cell.median_ms)


def phases_of(cells: Sequence[Cell]) -> list[str]:
    """Return the names of the phases of some steps, in the order in which they come.

    What only some steps have comes behind what it follows there.
    """
    names: list[str] = []
    for found in sorted((cell.phases_ms for cell in cells), key=len, reverse=True):
        place = 0
        for name in found:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names


def day_of(environment: dict[str, Any]) -> str:
    """Return the day on which a run began."""
    return str(environment["started"])[:10]
