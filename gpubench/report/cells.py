"""Measurements of one subject (algorithm, form, parameters) at one place in one mode.

A place is the values of every axis of an input.
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

# A phase of that name is a picture, which is no part of a step; phases whose names begin with the
# other one are what several ranks spend on each other.
DRAW, EXCHANGE = "draw", "exchange"
# A sample is long where it is so many times as long as one of nothing, which is a part of it.
LONG = 20
_UNITS_MS = {"s": 1000.0, "ms": 1.0, "us": 0.001}


class InputAxes:
    """The input of a measurement: its value on each axis; None on those that it does not have."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        vars(self).update(told)
        self._told = {name: value for name, value in told.items() if value is not None}
        self._hash = hash(tuple(self._told.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputAxes) and self._told == other._told

    def __hash__(self) -> int:
        return self._hash

    def __getattr__(self, axis: str) -> Any:
        if axis in AXES:  # of a kind that was read later
            return None
        raise AttributeError(axis)

    @property
    def count(self) -> int:
        """How many particles, records or pairs there are."""
        return int(next(n for name in counts() if (n := getattr(self, name)) is not None))

    @cached_property
    def as_kind(self) -> dict[str, Any]:
        """The value on each axis; what moved as a share, so that it is the same at every size."""
        found = {name: self._told.get(name) for name in AXES}
        if self.moved is not None and self.particles:
            found["moved"] = round(self.moved / self.particles, 3)
        return found

    @cached_property
    def kind(self) -> dict[str, Any]:
        """The same without the sizes."""
        left_out = sizes()
        return {name: value for name, value in self.as_kind.items() if name not in left_out}

    def has(self, **axes: object) -> bool:
        """Whether it has these values."""
        return all(self._told.get(name) == value for name, value in axes.items())


class MeasurementRow:
    """A row of the frame: each column is an attribute, see `evidence.frame`.

    ranks: at least 1 for a simulation. modes: rows of this subject and place, this one included.
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
        """Whether there is a time in a mode."""
        return mode in self.modes and self.modes[mode].ok

    @property
    def how(self) -> str:
        """In a word, how it was timed."""
        return "graph replay" if self.mode == "graph" else "launched"

    @property
    def standing(self) -> Standing:
        """Where it stands by device time, of what does."""
        assert self.ranked.by_device_time is not None
        return self.ranked.by_device_time

    def over(self, other: MeasurementRow) -> Ratio | None:
        """Divide its time by another, in the first mode in which both have one."""
        for mode in MODES:
            if self.is_timed(mode) and other.is_timed(mode):
                rows = (cell.modes[mode] for cell in (self, other))
                ours, theirs = (Timed(c.median_ms, c.low_ms, c.high_ms) for c in rows)
                return ours.over(theirs)
        return None

    @cached_property
    def is_old(self) -> bool:
        """Whether this version of the package has newer code for what was timed."""
        current = version_of(self.record.algorithm, self.workload, self.record.device)
        return current is not None and current != self.version.partition(" ")[0]

    @property
    def is_short(self) -> bool:
        """Whether samples are so short that what a measurement adds shows in them, if known."""
        known = overhead_ms(self.ranked.measurement.results.environment).get(self.mode) or 0.0
        return self.ok and bool(self.median_ms * self.record.batch < LONG * known)

    @property
    def reported(self) -> dict[str, Any]:
        """What the launch reported beside its answer, as far as it is number or text."""
        outcome = self.record.outcome.items()
        return {name: value for name, value in outcome if type(value) in (int, float, str)}

    def unit_ms(self, unit: str) -> float:
        """Return a unit of published times in milliseconds, for this input."""
        return 0.001 * (self.records or 1) if unit == "us/record" else _UNITS_MS[unit]

    @property
    def memory_bytes(self) -> int | None:
        """The most memory on the device, or else what was allocated; None if unknown."""
        peak, allocated = self.record.peak_bytes, self.record.workspace_bytes
        return allocated if peak is None else peak

    @cached_property
    def phases_ms(self) -> dict[str, float]:
        """Time of each phase of a simulation step in milliseconds; empty where it has none."""
        found = (self.record.phases_ms or {}) if self.ok else {}
        return {name: time for name, time in found.items() if name != DRAW}

    @property
    def frame_ms(self) -> float | None:
        """Time of a step and a picture of it in milliseconds; None where none was drawn."""
        drawn = (self.record.phases_ms or {}).get(DRAW) if self.ok else None
        return None if drawn is None else self.median_ms + drawn

    @property
    def communication(self) -> float | None:
        """Which part of a step the ranks spend on exchanging; None for one rank."""
        names = (name for name in self.phases_ms if name.startswith(EXCHANGE))
        return None if self.ranks in (None, 1) else self.phase_share(*names)

    def phase_share(self, *names: str) -> float | None:
        """Return the fraction of all phases' time that some take; None where unknown."""
        total = sum(self.phases_ms.values())
        return sum(self.phases_ms.get(name, 0.0) for name in names) / total if total else None

    @property
    def told(self) -> dict[str, str]:
        """What is told of it where it is pointed at: share of the bound, and how to repeat it."""
        bound = {} if self.bound is None else {"bound": formats.percent(self.bound)}
        return bound | {"command": command_of(self.record)}


def overhead_ms(environment: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Return the time of an empty sample in each mode; older results know only hot ones."""
    older = {"hot": environment.get("empty_launch_ms")}
    known: Mapping[str, float | None] = environment.get("overhead_ms", older)
    return known


def shown(cells: Iterable[MeasurementRow]) -> MeasurementRow:
    """Select the headline mode: a wrong one, otherwise the first of MODES that was timed."""
    return min(cells, key=lambda cell: (STATUSES.index(cell.status), MODES.index(cell.mode)))


def phases_of(cells: Sequence[MeasurementRow]) -> list[str]:
    """Return the names of all phases in order; those of some steps follow their predecessor."""
    names: list[str] = []
    for found in sorted((cell.phases_ms for cell in cells), key=len, reverse=True):
        place = 0
        for name in found:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names
