"""Measurements of one subject (algorithm, form, parameters) on one input in one mode.

The code calls a measurement a `cell`, and its input, given by the value on each axis, a `place`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpubench.core.version import version_of
from gpubench.evidence.crossover import Ratio, Timed
from gpubench.evidence.frame import command_of, row_of
from gpubench.evidence.pooling import STATUSES, hashable
from gpubench.evidence.pooling import grouped as grouped
from gpubench.evidence.ranking import MODES, Ranked, Standing, Variant
from gpubench.evidence.records import Record
from gpubench.report import formats
from gpubench.report.axes import AXES, counts, sizes

# The phase that draws a picture, which is not part of a step, and the prefix of the phases in which
# ranks communicate.
DRAW, EXCHANGE = "draw", "exchange"
# A sample is long if it takes at least this many times as long as an empty sample.
LONG = 20
ENERGY = "{joules_per_million} ({low} to {high}), {watts} W, idle {idle_watts}"
COUNTERS = {
    "DRAM, MB": ("dram_bytes", 1e6), "L2, MB": ("l2_bytes", 1e6),
    "L1 wavefronts, 10⁶": ("l1_wavefronts", 1e6), "Warp instructions, 10⁶": ("instructions", 1e6),
    "Issue slots, %": ("issue_percent", 1), "Occupancy, %": ("occupancy_percent", 1),
    "Registers": ("registers", 1),
}  # fmt: skip
_UNITS_MS = {"s": 1000.0, "ms": 1.0, "us": 0.001}


class InputAxes:
    """The input of a measurement: its value on each axis; None on axes it does not have."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        vars(self).update(told)
        self._told = {name: value for name, value in told.items() if value is not None}
        self._hash = hash(tuple(self._told.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputAxes) and self._told == other._told

    def __hash__(self) -> int:
        return self._hash

    def __getattr__(self, axis: str) -> Any:
        if axis in AXES:  # axis of a kind that was read later
            return None
        raise AttributeError(axis)

    @property
    def count(self) -> int:
        """The number of particles, records or pairs."""
        return int(next(n for name in counts() if (n := getattr(self, name)) is not None))

    @cached_property
    def as_kind(self) -> dict[str, Any]:
        """The value on each axis, with `moved` as a fraction, which is comparable across sizes."""
        found = {name: self._told.get(name) for name in AXES}
        if self.moved is not None and self.particles:
            found["moved"] = round(self.moved / self.particles, 3)
        return found

    @cached_property
    def kind(self) -> dict[str, Any]:
        """`as_kind` without the sizes."""
        left_out = sizes()
        return {name: value for name, value in self.as_kind.items() if name not in left_out}

    def has(self, **axes: object) -> bool:
        """Whether the input has the given values on these axes."""
        return all(self._told.get(name) == value for name, value in axes.items())


class MeasurementRow:
    """A row of the frame: each column is an attribute, see `evidence.frame`.

    ranks: 1 or more for a simulation. modes: all rows of this subject and input, by mode.
    """

    if TYPE_CHECKING:

        def __getattr__(self, column: str) -> Any: ...

    def __init__(self, ranked: Ranked) -> None:
        columns = row_of(ranked)
        columns["ranks"] = columns["ranks"] or (1 if columns["workload"] else None)
        columns["periodic"] = hashable(columns["periodic"])
        vars(self).update(columns)
        self.ranked = ranked
        self.record: Record = ranked.measurement.record
        self.ok: bool = self.status == "ok"
        self.subject = Variant.of(self.record)
        self.place = InputAxes({name: columns[name] for name in AXES})
        self.modes: dict[str, MeasurementRow] = {self.mode: self}

    def is_timed(self, mode: str) -> bool:
        """Whether this subject has a time on this input in a mode."""
        return mode in self.modes and self.modes[mode].ok

    @property
    def how(self) -> str:
        """How it was timed, in a word or two."""
        return "graph replay" if self.mode == "graph" else "launched"

    @property
    def standing(self) -> Standing:
        """Its place in the ranking by device time; it must have one."""
        assert self.ranked.by_device_time is not None
        return self.ranked.by_device_time

    def over(self, other: MeasurementRow) -> Ratio | None:
        """Divide its time by that of another row, in the first mode of MODES that both have."""
        for mode in MODES:
            if self.is_timed(mode) and other.is_timed(mode):
                rows = (cell.modes[mode] for cell in (self, other))
                ours, theirs = (Timed(c.median_ms, c.low_ms, c.high_ms) for c in rows)
                return ours.over(theirs)
        return None

    @cached_property
    def is_old(self) -> bool:
        """Whether the timed code has changed since, up to this version of the package."""
        record = self.record
        current = version_of(record.algorithm, self.workload, record.device, record.at("ranks"))
        return current is not None and current != self.version.partition(" ")[0]

    @cached_property
    def commits(self) -> set[str | None]:
        """The commits of the timings that are pooled."""
        return {t.results.environment["commit"] for t in self.ranked.measurement.timings}

    @property
    def is_short(self) -> bool:
        """Whether its samples are short enough to show the sampling overhead, if that is known."""
        known = overhead_ms(self.ranked.measurement.results.environment).get(self.mode) or 0.0
        return self.ok and bool(self.median_ms * self.record.batch < LONG * known)

    @property
    def reported(self) -> dict[str, Any]:
        """The numbers and texts that the launch reported beside its answer, and `memory_mb`."""
        memory = {} if self.memory_bytes is None else {"memory_mb": self.memory_bytes / 1e6}
        every = {**memory, **self.record.outcome}
        return {name: value for name, value in every.items() if type(value) in (int, float, str)}

    @cached_property
    def hardware(self) -> dict[str, Any]:
        """What was read of a launch, by heading: joules; the least bytes it must move; counters."""
        records = [timing.record for timing in self.ranked.measurement.timings[::-1]]
        joules = next(filter(None, (record.energy for record in records)), {})
        counted = next(filter(None, (record.counters for record in records)), {})
        told = {name: formats.significant(value) for name, value in joules.items()}
        found: dict[str, Any] = {"J per 10⁶": ENERGY.format(**told)} if joules else {}
        if counted and (moved := self.record.bytes_moved):
            found |= {"Least, MB": moved / 1e6, "DRAM over least": counted["dram_bytes"] / moved}
        return found | {h: counted[n] / unit for h, (n, unit) in COUNTERS.items() if counted}

    def unit_ms(self, unit: str) -> float:
        """Return a unit of published times in milliseconds, for this input."""
        return 0.001 * (self.records or 1) if unit == "us/record" else _UNITS_MS[unit]

    @property
    def memory_bytes(self) -> int | None:
        """Peak device memory, or else the allocated bytes; None if unknown."""
        peak, allocated = self.record.peak_bytes, self.record.workspace_bytes
        return allocated if peak is None else peak

    @cached_property
    def phases_ms(self) -> dict[str, float]:
        """Time of each phase of a simulation step in milliseconds; empty without phases."""
        found = (self.record.phases_ms or {}) if self.ok else {}
        return {name: time for name, time in found.items() if name != DRAW}

    @property
    def frame_ms(self) -> float | None:
        """Time to compute and draw a step in milliseconds; None if nothing was drawn."""
        drawn = (self.record.phases_ms or {}).get(DRAW) if self.ok else None
        return None if drawn is None else self.median_ms + drawn

    @property
    def communication(self) -> float | None:
        """The fraction of a step that ranks spend on communication; None for one rank."""
        names = (name for name in self.phases_ms if name.startswith(EXCHANGE))
        return None if self.ranks in (None, 1) else self.phase_share(*names)

    def phase_share(self, *names: str) -> float | None:
        """Return the fraction of all phases' time that some phases take; None if unknown."""
        total = sum(self.phases_ms.values())
        return sum(self.phases_ms.get(name, 0.0) for name in names) / total if total else None

    @property
    def told(self) -> dict[str, str]:
        """The text shown on hover: fraction of copy bandwidth, and the command to measure again."""
        bound = {} if self.bound is None else {"bound": formats.percent(self.bound)}
        return bound | {"command": command_of(self.record)}


def overhead_ms(environment: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Return the time of an empty sample in each mode; older results have only warm ones."""
    older = {"hot": environment.get("empty_launch_ms")}
    known: Mapping[str, float | None] = environment.get("overhead_ms", older)
    return known


def shown(cells: Iterable[MeasurementRow]) -> MeasurementRow:
    """Select the row to show: by status, in the order of STATUSES, then by mode, as in MODES."""
    return min(cells, key=lambda cell: (STATUSES.index(cell.status), MODES.index(cell.mode)))


def phases_of(cells: Sequence[MeasurementRow]) -> list[str]:
    """Return the phases of all steps, each after the phase that precedes it within its step."""
    names: list[str] = []
    for found in sorted((cell.phases_ms for cell in cells), key=len, reverse=True):
        place = 0
        for name in found:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names
