"""Neighbour searches that answer one question about one input, as `rank` put them in order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpubench.core.tasks import TASKS
from gpubench.evidence.crossover import Ratio
from gpubench.evidence.declared import declared, group
from gpubench.evidence.ranking import Subject
from gpubench.evidence.records import Record
from gpubench.report.cells import Cell, Place, grouped
from gpubench.report.figures import MOST_LINES, PALETTE, Line, Point
from gpubench.report.machines import StudyRun

CONTENDER = 1.25  # times the winner's time, below which one might win nearby
_NEAR = 2.0  # doublings
_MODE = "hot"  # the one in which libraries of others run too
_USUAL_PER_CELL, _USUAL_SIZES, _USUAL_SHARE = 4, (2**20, 2**22), 0.01

# Equal work on one input: the fastest form of each algorithm, fastest first.
Race = Sequence[Cell]


def task(cell: Cell) -> str:
    """Return which question a cell answers; "" for steps of a simulation and other families.

    Where particles have moved, a count that rebuilds answers the same question as an update.
    """
    return "" if cell.place.workload is not None else group(cell.record).task or ""


def updates(cell: Cell) -> bool:
    """Say whether it brings a structure up to date, instead of building it anew."""
    return cell.replaces is not None or declared(cell.record).task == "update"


def moved_share(place: Place) -> float | None:
    """Return which share of the particles is in another cell than before."""
    share: float | None = place.kind["moved"]
    return share


def margin(race: Race) -> Ratio | None:
    """Return the time of the runner-up over that of the winner; None without a runner-up."""
    return race[1].over_first if len(race) > 1 else None


def is_open(race: Race) -> bool:
    """Say whether another one may be as fast as the winner."""
    return any(cell.is_first for cell in race[1:])


def find(race: Race, algorithm: str) -> Cell | None:
    """Return the cell of an algorithm, if it was timed."""
    return next((cell for cell in race if cell.subject.algorithm == algorithm), None)


class Comparison(NamedTuple):
    """The best of ours and the best library in one race.

    ratio: time of the library over that of ours, so that below 1 the library wins.
    """

    race: Race
    ours: Cell
    rival: Cell
    ratio: Ratio


@dataclass(frozen=True)
class Searches:
    """All searches of a study on one machine, launched from the host with warm caches."""

    run: StudyRun

    @cached_property
    def _timed(self) -> list[Cell]:
        """All that was timed, in the mode of the rankings."""
        cells = self.run.cells.values()
        ok = [cell for cell in cells if cell.ok and task(cell) and cell.is_timed(_MODE)]
        return [cell.modes[_MODE] for cell in ok]

    @cached_property
    def races(self) -> list[Race]:
        """What was ranked together, in the order of tasks, then of inputs as measured."""
        ranked = [cell for cell in self._timed if cell.rank is not None]
        races = []
        for alike in grouped(ranked, lambda cell: (cell.ranked.group, cell.place)).values():
            alike.sort(key=lambda cell: cell.rank or 0)
            forms = grouped(alike, lambda cell: cell.subject.algorithm)
            races.append([own[0] for own in forms.values()])
        return sorted(races, key=lambda race: list(TASKS).index(task(race[0])))

    @cached_property
    def too_short(self) -> int:
        """How many times may be none at all, since their intervals begin at 0."""
        return sum(_is_too_short(cell.record) for cell in self._timed)

    @property
    def tasks(self) -> list[str]:
        """Tasks of which anything was ranked."""
        return list(self.by_task)

    @cached_property
    def by_task(self) -> dict[str, list[Race]]:
        """The races of each task."""
        return grouped(self.races, lambda race: task(race[0]))

    def race(self, task: str, place: Place) -> Race:
        """Return the race of a task on an input; empty where nothing was ranked."""
        return next((race for race in self.by_task.get(task, ()) if race[0].place == place), [])

    @cached_property
    def rivals(self) -> set[str]:
        """Algorithms whose work a library of others does."""
        return {r["algorithm"] for r in self.run.records if r["library"] is not None}

    def ours(self, race: Race) -> list[Cell]:
        """Return what is ours in a race, fastest first."""
        return [cell for cell in race if cell.subject.algorithm not in self.rivals]

    @cached_property
    def algorithms(self) -> list[str]:
        """All algorithms, those with a race before others: by races won, then as in the study.

        Their places here are their colours, the same in all figures of a page.
        """
        wins = Counter(race[0].subject.algorithm for race in self.races)
        named = dict.fromkeys(subject.algorithm for subject in self.run.subjects)
        raced = {cell.subject.algorithm for race in self.races for cell in race}
        return sorted(named, key=lambda name: (name not in raced, -wins[name]))

    @cached_property
    def usual(self) -> dict[str, object]:
        """Distribution, order and periodicity that most inputs have."""
        names = ("distribution", "order", "periodic")
        kinds = Counter(tuple(getattr(r[0].place, n) for n in names) for r in self.races)
        return dict(zip(names, kinds.most_common(1)[0][0], strict=True)) if kinds else {}

    def usual_races(self, task: str, **axes: object) -> list[Race]:
        """Return the races of a task on inputs of the usual kind, smallest first."""
        at = self.usual | axes
        found = [race for race in self.by_task.get(task, []) if race[0].place.has(**at)]
        return sorted(found, key=lambda r: (r[0].place.per_cell or 0, r[0].place.particles or 0))

    def usual_per_cell(self, task: str) -> float | None:
        """Return 4 particles per cell where that was measured, else the commonest."""
        found = Counter(race[0].place.per_cell for race in self.usual_races(task))
        if not found:
            return None
        return _USUAL_PER_CELL if _USUAL_PER_CELL in found else found.most_common(1)[0][0]

    def chosen(self, task: str) -> list[Place]:
        """Return the inputs to show in detail: 2^20 and 2^22 particles, else the two largest.

        They have the usual occupancy, and where particles moved, about 1 % of them have.
        """
        at = self.usual_races(task, per_cell=self.usual_per_cell(task))
        by_size = grouped((race[0].place for race in at), lambda place: place.particles or 0)
        sizes = [n for n in _USUAL_SIZES if n in by_size] or sorted(by_size)[-2:]
        return [min(by_size[size], key=_from_usual_share) for size in sizes]

    def missing(self, race: Race) -> list[str]:
        """Return what was not timed in a race, as a study stops it, but might have won it.

        That is what was within CONTENDER of the winner on the nearest input of the same task,
        distribution and order on which it was timed, if that is near enough.
        """
        own = {cell.subject.algorithm for cell in race}
        here = np.array(_position(race[0].place))
        found = []
        for name, points in self._points[_alike(race)].items():
            if name not in own:
                apart = np.abs(points[:, :2] - here).sum(axis=1)
                nearest = np.lexsort((points[:, 2], apart))[0]
                if apart[nearest] <= _NEAR and points[nearest, 2] < CONTENDER:
                    found.append(name)
        return [name for name in self.algorithms if name in found]

    def is_settled(self, race: Race) -> bool:
        """Say whether the winner of a race is known: told from all others, with none missing."""
        return not is_open(race) and not self.missing(race)

    @cached_property
    def _points(self) -> dict[tuple[object, ...], dict[str, NDArray[np.float64]]]:
        """Where each algorithm was timed, of races that are alike: position, time over the best."""
        found = {}
        for kind, alike in grouped(self.races, _alike).items():
            cells = grouped((c for race in alike for c in race), lambda c: c.subject.algorithm)
            found[kind] = {
                name: np.array([(*_position(c.place), c.over_first.value) for c in own])
                for name, own in cells.items()
            }
        return found

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Ours and libraries, wherever one of each was timed."""
        found = []
        for race in self.races:
            ours = self.ours(race)
            others = [cell for cell in race if cell.subject.algorithm in self.rivals]
            if ours and others:
                found.append(Comparison(race, ours[0], others[0], others[0].over(ours[0])))
        return found

    def timed_at(self, subject: Subject) -> list[Place]:
        """Return the inputs of the usual kind on which a subject was timed, else all others."""
        own = [cell.place for cell in self.run.timed if cell.subject == subject]
        return [place for place in own if place.has(**self.usual)] or own

    def at(self, task_name: str, place: Place) -> list[tuple[Cell, Record]]:
        """Return all that was tried on a task and input, with its record: with a time or not.

        What was timed in other modes alone is left out; too short a time has failed.
        """
        found = []
        for cell in self.run.by_place.get(place, ()):
            if task(cell) != task_name or (cell.ok and _MODE not in cell.modes):
                continue
            record = cell.modes[_MODE].record if cell.ok else cell.record
            if record["status"] == "ok" and _is_too_short(record):
                record = record | {"status": "failed", "reason": "too short for the clock"}
            found.append((cell, record))
        return found


def _alike(race: Race) -> tuple[object, ...]:
    place = race[0].place
    return task(race[0]), place.distribution, place.order, place.destination, moved_share(place)


def _position(place: Place) -> tuple[float, float]:
    """Return where an input lies, in doublings of particles and of occupancy."""
    return math.log2(place.particles or 1), math.log2(place.per_cell or 1)


def _is_too_short(record: Record) -> bool:
    """Say whether a time may be none at all, so that ratios to it mean nothing."""
    return float(record["ci95_low_ms"]) <= 0


def _from_usual_share(place: Place) -> float:
    share = moved_share(place)
    if share is None:
        return 0.0
    return abs(math.log(share / _USUAL_SHARE)) if share > 0 else math.inf


def lines_over(
    searches: Searches,
    races: Sequence[tuple[float, Race]],
    point: Callable[[float, Cell], Point | None],
    names: Sequence[str] | None = None,
) -> list[Line]:
    """Make a line for each algorithm, at most the fastest; names: of these alone."""
    cells = [
        (x, cell)
        for x, race in races
        for cell in race
        if names is None or cell.subject.algorithm in names
    ]
    found: dict[str, list[tuple[Point, Cell]]] = {}
    for x, cell in cells:
        if (own := point(x, cell)) is not None:
            found.setdefault(cell.subject.algorithm, []).append((own, cell))
    # The ones with the most points, of these the fastest.
    ranked = sorted(
        found,
        key=lambda name: (-len(found[name]), sum(math.log(c.median_ms) for _, c in found[name])),
    )[:MOST_LINES]
    lines = []
    for name in sorted(ranked, key=searches.algorithms.index):
        colour = searches.algorithms.index(name)
        points = sorted((own for own, _ in found[name]), key=lambda each: each.x)
        lines.append(Line(name, points, colour, colour // PALETTE))
    return lines
