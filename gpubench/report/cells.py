"""Results put in order: machines, studies, and what was measured in each cell of a study.

A cell is one subject (an algorithm in one form) at one place (the values of every axis of its
input). It holds a record for each mode of timing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from gpubench.core import registry
from gpubench.evidence.crossover import Timed
from gpubench.evidence.declared import declared
from gpubench.evidence.pooling import device_of, pool
from gpubench.evidence.results import Record as Record
from gpubench.evidence.results import Results
from gpubench.report.axes import AXES, SIZES
from gpubench.studies.study import Study, StudyError, load_study, parse_study

Names = tuple[str, ...]

# The headline of a cell is the first of these that was measured.
HEADLINE_MODES = ("graph", "hot", "cold")
# A phase of that name is a picture, which is no part of a step; phases whose names begin with the
# other one are what several ranks spend on each other.
DRAW, EXCHANGE = "draw", "exchange"
# A sample is long where it is so many times as long as one of nothing, which is a part of it.
LONG = 20


@dataclass(frozen=True, order=True)
class Subject:
    """An algorithm in one of its forms, with its parameters."""

    algorithm: str
    form: str
    parameters: tuple[tuple[str, float], ...] = ()


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
    """The records of one subject at one place, one for each mode.

    bandwidths: the copy bandwidth in GB/s measured in the run that each record is from.
    overheads_ms: what a sample of nothing took there in the same mode, in milliseconds.
    days: when the newest run of each began, as in 2025-01-31.
    """

    subject: Subject
    place: Place
    by_mode: dict[str, Record] = field(default_factory=dict)
    bandwidths: dict[str, float | None] = field(default_factory=dict)
    overheads_ms: dict[str, float | None] = field(default_factory=dict)
    days: dict[str, str] = field(default_factory=dict)

    @cached_property
    def headline(self) -> Record:
        """The record to show: a wrong one if there is any, else the first mode that was timed."""
        modes = [m for m in HEADLINE_MODES if m in self.by_mode]
        records = [self.by_mode[m] for m in modes]
        for status in ("wrong", "ok", "failed"):
            for record in records:
                if record["status"] == status:
                    return record
        return records[0]

    def in_mode(self, mode: str) -> Cell:
        """Return the cell of one of its modes alone."""
        return replace(self, by_mode={mode: self.by_mode[mode]})

    @property
    def replaces(self) -> str | None:
        """The algorithm that builds from nothing what this one updates; None for all others."""
        return declared(self.headline).replaces

    @property
    def ok(self) -> bool:
        """Whether the cell has a time and no wrong answer in any mode."""
        return bool(self.headline["status"] == "ok")

    @property
    def median_ms(self) -> float:
        """Headline median in milliseconds."""
        return float(self.headline["median_ms"])

    @property
    def interval_ms(self) -> tuple[float, float]:
        """Headline 95 % interval of the median in milliseconds."""
        return float(self.headline["ci95_low_ms"]), float(self.headline["ci95_high_ms"])

    @property
    def is_short(self) -> bool:
        """Whether the headline's samples are so short that what a measurement adds shows in them.

        False where that was not measured.
        """
        overhead_ms = self.overheads_ms.get(self.headline["mode"])
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
        if unit == "us/record":
            return 0.001 * (self.place.records or 1)
        return {"s": 1000.0, "ms": 1.0, "us": 0.001}[unit]

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
        record, bandwidth = self.headline, self.bandwidths[self.headline["mode"]]
        if not self.ok or not record["bytes_moved"] or not bandwidth or not self.median_ms:
            return None
        return float(record["bytes_moved"] / (self.median_ms * 1e6) / bandwidth)


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


def told_apart(faster: Cell, slower: Cell) -> bool:
    """Say whether the 95 % interval of the ratio of two medians lies above 1."""
    one, other = (Timed(cell.median_ms, *cell.interval_ms) for cell in (slower, faster))
    return one.over(other).low > 1


@dataclass
class StudyRun:
    """What one machine measured in one study.

    replaced: number of records of older code or failed attempts, which newer ones replace.
    """

    study: Study
    cells: dict[tuple[Subject, Place], Cell]
    replaced: int = 0

    @property
    def records(self) -> list[Record]:
        """Every record shown, in the order in which they were measured."""
        return [record for cell in self.cells.values() for record in cell.by_mode.values()]

    @property
    def dates(self) -> str:
        """The day or days of what is shown, as `Machine.dates`."""
        return _dates({day for cell in self.cells.values() for day in cell.days.values()})

    @property
    def is_simulation(self) -> bool:
        """Whether its times are those of whole steps of a workload."""
        return any(place.workload for _, place in self.cells)

    @cached_property
    def has_many_sizes(self) -> bool:
        """Whether it has steps of more sizes than algorithms, so that a table goes along them."""
        timed = [cell for cell in self.cells.values() if cell.phases_ms]
        sizes = {cell.place.particles for cell in timed}
        return len(sizes) > len({cell.subject for cell in timed}) > 0

    @property
    def unit(self) -> str:
        """What its times are shown in: milliseconds, or as printed where that is per record."""
        printed = self.study.published.unit if self.study.published else "ms"
        return printed if printed == "us/record" else "ms"

    @cached_property
    def full_sorts(self) -> dict[str, str]:
        """Which algorithm builds from nothing what each of those updates that update."""
        found = {cell.subject.algorithm: cell.replaces for cell in self.cells.values()}
        return {update: full for update, full in found.items() if full is not None}

    def full_sort(self, subject: Subject) -> Subject | None:
        """Return what builds from nothing what a subject updates, in the same form, if it does."""
        full = self.full_sorts.get(subject.algorithm)
        return Subject(full, subject.form) if full else None

    @cached_property
    def subjects(self) -> list[Subject]:
        """Subjects in the order of the study, then those that it does not name."""
        named = [(s.algorithm, s.form) for s in self.study.subjects]
        found = list(dict.fromkeys(subject for subject, _ in self.cells))
        rank = {pair: index for index, pair in reversed(list(enumerate(named)))}
        return sorted(found, key=lambda s: rank.get((s.algorithm, s.form), len(named)))

    @cached_property
    def labels(self) -> dict[Subject, str]:
        """Shortest name of each subject that tells it from the others."""
        forms = Counter(
            algorithm for algorithm, _ in {(s.algorithm, s.form) for s in self.subjects}
        )
        sets = Counter((s.algorithm, s.form) for s in self.subjects)
        labels = {}
        for subject in self.subjects:
            label = subject.algorithm
            if forms[subject.algorithm] > 1:
                label += f" {subject.form}"
            if sets[subject.algorithm, subject.form] > 1 and subject.parameters:
                given = (f"{name}={value:.12g}" for name, value in subject.parameters)
                label = " ".join((label, *given))
            labels[subject] = label
        return labels

    @cached_property
    def phases(self) -> list[str]:
        """Names of the phases of a step with the fewest ranks, in the order in which they come."""
        ranks = self.common["ranks"]
        return phases_of([cell for cell in self.cells.values() if cell.place.ranks == ranks])

    @cached_property
    def common(self) -> dict[str, Any]:
        """The commonest value of each axis: what tables hold on the axes that they do not show."""
        places = _fewest_ranks([place for _, place in self.cells])
        return {
            axis.name: Counter(getattr(p, axis.name) for p in places).most_common(1)[0][0]
            for axis in fields(Place)
        }

    @cached_property
    def kind(self) -> dict[str, Any]:
        """The commonest kind of input, with as few ranks as there are."""
        return _commonest([p.kind for p in _fewest_ranks([place for _, place in self.cells])])

    @cached_property
    def _found(
        self,
    ) -> dict[Any, dict[tuple[Any, ...], list[Cell]]]:
        """Cells by their values on some axes, for each subject and choice of axes; see `select`."""
        return {}

    @cached_property
    def _of(self) -> dict[Subject, tuple[dict[str, Any], list[Cell]]]:
        """The kind of input and the cells of each subject.

        The kind is the commonest of the study, or where a subject has none of that (Table 3 of
        Rozen has re-sorts among full sorts) its own commonest.
        """
        cells: dict[Subject, list[Cell]] = {}
        for cell in self.cells.values():
            cells.setdefault(cell.subject, []).append(cell)
        found = {}
        for subject, own in cells.items():
            kinds = [cell.place.kind for cell in own]
            fewest = [place.kind for place in _fewest_ranks([cell.place for cell in own])]
            found[subject] = (self.kind if self.kind in kinds else _commonest(fewest), own)
        return found

    def select(self, subject: Subject, free: str = "", **axes: object) -> list[Cell]:
        """Return a subject's cells at these values, of its kind on the other axes but `free`."""
        kind, own = self._of.get(subject, ({}, []))
        rest = {name: v for name, v in kind.items() if name not in axes and name != free}
        names = tuple(axes), tuple(rest)
        if (subject, names) not in self._found:
            # A report asks at each value of an axis: to look through all cells each time would
            # take the square of their number.
            found = self._found[subject, names] = {}
            for cell in own:
                found.setdefault(cell.place.values(*names), []).append(cell)
        return self._found[subject, names].get((*axes.values(), *rest.values()), [])

    def find(self, subject: Subject, **axes: object) -> Cell | None:
        """Return a subject's cell at these values, of its kind and of common sizes otherwise."""
        sizes = {name: self.common[name] for name in SIZES}
        return next(iter(self.select(subject, **(sizes | axes))), None)

    def at(self, **axes: object) -> list[Cell]:
        """Return the cell of each subject that has one there, in the order of the subjects."""
        found = (self.find(subject, **axes) for subject in self.subjects)
        return [cell for cell in found if cell is not None]

    def values(self, axis: str, **axes: object) -> list[Any]:
        """Return the values of one axis among cells of the usual kind at these values of others.

        Numbers ascend; names are in the order of the report.
        """
        found = {
            getattr(cell.place, axis)
            for subject in self.subjects
            for cell in self.select(subject, axis, **axes)
        } - {None}
        if all(isinstance(value, int | float) for value in found):
            return sorted(found)
        seen = [getattr(place, axis) for _, place in self.cells]
        return AXES[axis].order([value for value in seen if value in found])


@dataclass
class Machine:
    """One device of one machine, with every run on it, oldest first."""

    runs: list[Results]
    studies: list[StudyRun]

    @property
    def environment(self) -> dict[str, Any]:
        """The environment of the newest run."""
        return self.runs[-1].environment

    @property
    def device_name(self) -> str:
        """The maker's name of the device."""
        return str(self.environment["device"]["name"])

    @property
    def dates(self) -> str:
        """The day or days of its runs: "on 2025-01-31", or "from ... to ..."."""
        return _dates({_day(run.environment) for run in self.runs})

    @property
    def is_cpu(self) -> bool:
        """Whether the times are those of a CPU."""
        return bool(self.environment["device"].get("is_cpu"))

    @property
    def backend(self) -> str:
        """The back end: cuda or opencl."""
        return str(self.environment["device"]["backend"])


def machines(results: Sequence[Results]) -> list[Machine]:
    """Group results by device, GPUs first; each cell has the one time that `pool` says."""
    groups: dict[tuple[str, ...], list[Results]] = {}
    for result in results:
        groups.setdefault(device_of(result.environment), []).append(result)
    found = [_machine(sorted(runs, key=_started)) for runs in groups.values()]
    return sorted(found, key=lambda machine: machine.is_cpu)


def study_of(name: str, text: str | None = None) -> Study:
    """Load a study; one that this version does not ship is read from the text in its results.

    Where there is none, or this version cannot read it, the study has a name alone.
    """
    if name in registry.studies():
        return load_study(name)
    why = ""
    if text is not None:
        try:
            return parse_study(name, text)
        except StudyError as error:
            why = f"The study in these results cannot be read: {error}."
    return Study(
        name=name,
        title=name,
        paper=None,
        table=None,
        question=why,
        seed=0,
        published=None,
        sweeps=(),
        subjects=(),
    )


def _text_of(name: str, runs: Sequence[Results]) -> str | None:
    """Return the newest text of a study in results."""
    found = [run for run in runs if run.study is not None and run.records]
    of_study = [run for run in found if run.records[0]["study"] == name]
    return max(of_study, key=_started).study if of_study else None


def _started(result: Results) -> datetime:
    return datetime.fromisoformat(result.environment["started"])


def _machine(runs: list[Results]) -> Machine:
    studies: dict[str, StudyRun] = {}
    for measured in pool(runs):
        record, environment = measured.record, measured.results.environment
        name, mode = record["study"], record["mode"]
        if name not in studies:
            studies[name] = StudyRun(study_of(name, _text_of(name, runs)), {})
        study = studies[name]
        subject, place = _subject(record), _place(record)
        cell = study.cells.setdefault((subject, place), Cell(subject, place))
        study.replaced += measured.replaced
        cell.by_mode[mode] = record
        cell.bandwidths[mode] = environment["copy_bandwidth_gb_s"]
        cell.overheads_ms[mode] = _overhead_ms(environment, mode)
        cell.days[mode] = max(_day(each.results.environment) for each in measured.timings)
    return Machine(runs, list(studies.values()))


def _day(environment: dict[str, Any]) -> str:
    return str(environment["started"])[:10]


def _dates(days: Collection[str]) -> str:
    first, last = min(days), max(days)
    return f"on {first}" if first == last else f"from {first} to {last}"


def _overhead_ms(environment: dict[str, Any], mode: str) -> float | None:
    """Return what a sample of nothing takes; older results know it of hot samples alone."""
    found = environment.get("overhead_ms", {"hot": environment.get("empty_launch_ms")})
    overhead_ms: float | None = found.get(mode)
    return overhead_ms


def _subject(record: Record) -> Subject:
    parameters = tuple(sorted(record["parameters"].items()))
    return Subject(record["algorithm"], record["form"], parameters)


def _place(record: Record) -> Place:
    found = {axis.name: record[axis.name] for axis in fields(Place)}
    if found["periodic"] is not None:
        found["periodic"] = tuple(found["periodic"])
    if found["workload"] is not None and found["ranks"] is None:
        found["ranks"] = 1
    return Place(**found)


def _fewest_ranks(places: Sequence[Place]) -> list[Place]:
    """Return those places of simulations that have the fewest ranks, and all others."""
    fewest = min((place.ranks for place in places if place.ranks is not None), default=None)
    return [place for place in places if place.ranks in (None, fewest)]


def _commonest(kinds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return dict(Counter(tuple(kind.items()) for kind in kinds).most_common(1)[0][0])
