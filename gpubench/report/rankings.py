"""Neighbour searches that answer one question about one input, ranked, with their margins."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gpubench.core.tasks import TASKS
from gpubench.evidence.crossover import Ratio, Timed
from gpubench.evidence.declared import declared, group
from gpubench.report.cells import Cell, Place, Record, StudyRun, Subject
from gpubench.report.figures import PALETTE, Line

MOST_LINES = 12  # more in one panel cannot be told apart
CONTENDER = 1.25  # times the winner's time, below which one might win nearby
_NEAR = 2.0  # doublings
_MODE = "hot"  # the one in which libraries of others run too
_USUAL_PER_CELL, _USUAL_SIZES, _USUAL_SHARE = 4, (2**20, 2**22), 0.01


def task(cell: Cell) -> str | None:
    """Return which question a cell answers; None for steps of a simulation and other families.

    Where particles have moved, a count that rebuilds answers the same question as an update.
    """
    return None if cell.place.workload is not None else group(cell.headline).task


def updates(cell: Cell) -> bool:
    """Say whether it brings a structure up to date, instead of building it anew."""
    return cell.replaces is not None or declared(cell.headline).task == "update"


def timed(cell: Cell) -> Timed:
    """Return its time in milliseconds."""
    return Timed(cell.median_ms, *cell.interval_ms)


def moved_share(place: Place) -> float | None:
    """Return which share of the particles is in another cell than before."""
    share: float | None = place.kind["moved"]
    return share


@dataclass(frozen=True)
class Race:
    """What was timed on one task and input: the fastest form of each algorithm, fastest first."""

    task: str
    place: Place
    cells: Sequence[Cell]

    @property
    def winner(self) -> Cell:
        """The one with the lowest median."""
        return self.cells[0]

    @property
    def margin(self) -> Ratio | None:
        """Time of the runner-up over that of the winner; None without a runner-up."""
        if len(self.cells) < 2:
            return None
        return timed(self.cells[1]).over(timed(self.winner))

    @property
    def is_open(self) -> bool:
        """Whether the winner cannot be told from another one."""
        return any(timed(c).over(timed(self.winner)).is_open for c in self.cells[1:])

    def of(self, algorithm: str) -> Cell | None:
        """Return the cell of an algorithm, if it was timed."""
        return next((c for c in self.cells if c.subject.algorithm == algorithm), None)


@dataclass(frozen=True)
class Comparison:
    """The best of ours and the best rival in one race.

    ratio: time of the rival over that of ours, so that below 1 the rival wins.
    """

    race: Race
    ours: Cell
    rival: Cell
    ratio: Ratio


class Point(NamedTuple):
    """Where an algorithm was timed. ratio: of its time to that of the winner there."""

    particles: int
    ratio: float
    place: Place


@dataclass(frozen=True)
class Field:
    """All races of a study on one machine, between hot samples.

    too_short: how many times were left out, since their intervals begin at 0.
    """

    run: StudyRun
    races: Sequence[Race] = field(default_factory=tuple)
    too_short: int = 0

    @classmethod
    def of(cls, run: StudyRun) -> Field:
        """Gather the races of a study, in the order of tasks, then of inputs as measured."""
        groups: dict[tuple[str, Place], dict[str, Cell]] = {}
        too_short = 0
        for cell in run.cells.values():
            question, record = task(cell), cell.by_mode.get(_MODE)
            if question is None or not cell.ok or record is None or record["status"] != "ok":
                continue
            cell = cell.in_mode(_MODE)
            if _is_too_short(record):
                too_short += 1
                continue
            best = groups.setdefault((question, cell.place), {})
            other = best.get(cell.subject.algorithm, cell)
            best[cell.subject.algorithm] = min(other, cell, key=lambda c: c.median_ms)
        races = [
            Race(question, place, sorted(best.values(), key=lambda c: c.median_ms))
            for (question, place), best in groups.items()
        ]
        return cls(run, sorted(races, key=lambda race: list(TASKS).index(race.task)), too_short)

    @property
    def tasks(self) -> list[str]:
        """Tasks of which anything was timed."""
        return list(dict.fromkeys(race.task for race in self.races))

    @cached_property
    def rivals(self) -> set[str]:
        """Algorithms whose work a library of others does."""
        return {r["algorithm"] for r in self.run.records if r["library"] is not None}

    @cached_property
    def algorithms(self) -> list[str]:
        """All algorithms, those with a race before others: by races won, then as in the study.

        Their places here are their colours and letters, the same in all figures of a page.
        """
        wins = Counter(race.winner.subject.algorithm for race in self.races)
        named = dict.fromkeys(subject.algorithm for subject in self.run.subjects)
        raced = {cell.subject.algorithm for race in self.races for cell in race.cells}
        return sorted(named, key=lambda name: (name not in raced, -wins[name]))

    def letter(self, algorithm: str) -> str:
        """Return the letter that stands for an algorithm."""
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        place = self.algorithms.index(algorithm)
        return letters[place] if place < len(letters) else str(place + 1)

    @cached_property
    def usual(self) -> dict[str, object]:
        """Distribution, order and periodicity that most inputs have."""
        kinds = Counter((r.place.distribution, r.place.order, r.place.periodic) for r in self.races)
        if not kinds:
            return {}
        return dict(
            zip(("distribution", "order", "periodic"), kinds.most_common(1)[0][0], strict=True)
        )

    def usual_races(self, task: str, **axes: object) -> list[Race]:
        """Return the races of a task on inputs of the usual kind, smallest first."""
        found = [r for r in self.races if r.task == task and r.place.has(**{**self.usual, **axes})]
        return sorted(found, key=lambda r: (r.place.per_cell or 0, r.place.particles or 0))

    def usual_per_cell(self, task: str) -> float | None:
        """Return 4 particles per cell where that was measured, else the commonest."""
        found = Counter(race.place.per_cell for race in self.usual_races(task))
        if not found:
            return None
        return _USUAL_PER_CELL if _USUAL_PER_CELL in found else found.most_common(1)[0][0]

    def chosen(self, task: str) -> list[Place]:
        """Return the inputs to show in detail: 2^20 and 2^22 particles, else the two largest.

        They have the usual occupancy, and where they moved, about 1 % of them have.
        """
        at = self.usual_races(task, per_cell=self.usual_per_cell(task))
        by_size: dict[int, list[Place]] = {}
        for race in at:
            by_size.setdefault(race.place.particles or 0, []).append(race.place)
        sizes = [n for n in _USUAL_SIZES if n in by_size] or sorted(by_size)[-2:]
        return [min(by_size[size], key=_from_usual_share) for size in sizes]

    def missing(self, race: Race) -> list[str]:
        """Return who was not timed in a race, as a study stops it, but might have won it.

        That is who was within CONTENDER of the winner on the nearest input of the same task,
        distribution and order on which it was timed, if that is near enough.
        """
        own = {cell.subject.algorithm for cell in race.cells}
        found = {}
        for name, by_occupancy in self._timed[race.task, *_kind(race.place)].items():
            if name not in own:
                nearest = (
                    (_doublings(race.place, point.place), point.ratio)
                    for points in by_occupancy.values()
                    for point in _neighbours(points, race.place.particles or 0)
                )
                found[name] = min(nearest)
        return [
            name
            for name in self.algorithms
            if name in found and found[name][0] <= _NEAR and found[name][1] < CONTENDER
        ]

    def is_settled(self, race: Race) -> bool:
        """Say whether the winner of a race is known: told from all others, with none missing."""
        return not race.is_open and not self.missing(race)

    @cached_property
    def _timed(self) -> dict[tuple[object, ...], dict[str, dict[float | None, list[Point]]]]:
        """Where each algorithm was timed, smallest first, by occupancy.

        The keys of what holds it all are task, distribution and order, and how many moved.
        """
        found: dict[tuple[object, ...], dict[str, dict[float | None, list[Point]]]] = {}
        for race in self.races:
            alike = found.setdefault((race.task, *_kind(race.place)), {})
            for cell in race.cells:
                ratio = cell.median_ms / race.winner.median_ms
                point = Point(race.place.particles or 0, ratio, race.place)
                by_occupancy = alike.setdefault(cell.subject.algorithm, {})
                by_occupancy.setdefault(race.place.per_cell, []).append(point)
        for alike in found.values():
            for by_occupancy in alike.values():
                for points in by_occupancy.values():
                    points.sort(key=lambda point: point[:2])
        return found

    def comparisons(self) -> list[Comparison]:
        """Compare ours and rivals wherever one of each was timed."""
        found = []
        for race in self.races:
            own = [c for c in race.cells if c.subject.algorithm not in self.rivals]
            others = [c for c in race.cells if c.subject.algorithm in self.rivals]
            if own and others:
                ratio = timed(others[0]).over(timed(own[0]))
                found.append(Comparison(race, own[0], others[0], ratio))
        return found

    @cached_property
    def tried(self) -> set[tuple[str, str]]:
        """Tasks with the algorithms that ran on them: with a time, failed or wrong."""
        return {
            (question, cell.subject.algorithm)
            for cell in self.run.cells.values()
            if (question := task(cell)) is not None
            and any(record["status"] != "skipped" for record in cell.by_mode.values())
        }

    def timed_at(self, subject: Subject) -> list[Place]:
        """Return the inputs of the usual kind on which a subject was timed, else all others."""
        own = [cell for cell in self.run.cells.values() if cell.subject == subject and cell.ok]
        found = [cell.place for cell in own if cell.place.has(**self.usual)]
        return found or [cell.place for cell in own]

    def at(self, task_name: str, place: Place) -> list[tuple[Cell, Record]]:
        """Return all that was tried on a task and input, with its record: with a time or not.

        What was timed in other modes alone is left out; too short a time has failed.
        """
        found = []
        for cell in self.run.cells.values():
            if cell.place == place and task(cell) == task_name:
                record = cell.by_mode.get(_MODE) if cell.ok else cell.headline
                if record is None:
                    continue
                if record["status"] == "ok" and _is_too_short(record):
                    record = record | {"status": "failed", "reason": "too short for the clock"}
                found.append((cell, record))
        return found


def _neighbours(points: list[Point], particles: int) -> list[Point]:
    """Return the next larger and the next smaller of some points, smallest first."""
    at = bisect_left(points, particles, key=lambda point: point.particles)
    if not at:
        return points[:1]
    smaller = points[at - 1].particles  # of several, the first has the lowest ratio
    before = bisect_left(points, smaller, key=lambda point: point.particles)
    return [points[before], *points[at : at + 1]]


def _kind(place: Place) -> tuple[object, ...]:
    return place.distribution, place.order, place.destination, moved_share(place)


def _doublings(one: Place, other: Place) -> float:
    """Return how far apart two inputs are, in doublings of particles and of occupancy."""
    pairs = ((one.particles, other.particles), (one.per_cell, other.per_cell))
    return sum(abs(math.log2(a / b)) for a, b in pairs if a and b)


def _is_too_short(record: Record) -> bool:
    """Say whether a time may be none at all, so that ratios to it mean nothing."""
    return float(record["ci95_low_ms"]) <= 0


def _from_usual_share(place: Place) -> float:
    share = moved_share(place)
    if share is None:
        return 0.0
    return abs(math.log(share / _USUAL_SHARE)) if share > 0 else math.inf


def lines_over(
    field: Field,
    races: Sequence[tuple[float, Race]],
    value: Callable[[Cell], float | None],
    names: Sequence[str] | None = None,
    scale: float | None = None,
) -> list[Line]:
    """Make a line for each algorithm, at most the fastest.

    names: of these alone. scale: what times are multiplied by to be values, where intervals are to
    be drawn.
    """
    points: dict[str, list[tuple[float, float, Cell]]] = {}
    for x, race in races:
        for cell in race.cells:
            if (names is None or cell.subject.algorithm in names) and (y := value(cell)):
                points.setdefault(cell.subject.algorithm, []).append((x, y, cell))
    most = max(map(len, points.values()), default=0)
    # Who has the most points, then who is fastest on them.
    ranked = sorted(
        points,
        key=lambda name: (
            most - len(points[name]),
            sum(math.log(cell.median_ms) for *_, cell in points[name]),
        ),
    )[:MOST_LINES]
    lines = []
    for name in sorted(ranked, key=field.algorithms.index):
        own = sorted(points[name], key=lambda point: point[0])
        ends = [
            (y, y) if scale is None else (scale * cell.interval_ms[0], scale * cell.interval_ms[1])
            for _, y, cell in own
        ]
        colour = field.algorithms.index(name)
        lines.append(
            Line(
                name,
                [x for x, *_ in own],
                [y for _, y, _ in own],
                [low for low, _ in ends],
                [high for _, high in ends],
                colour,
                colour // PALETTE,
            )
        )
    return lines
