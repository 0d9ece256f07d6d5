"""The answer to "which one should I use?", from results and nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

from gpubench.choose import evidence, validation
from gpubench.choose.evidence import Machine, Place, Setting, Subject, from_octaves, matrix
from gpubench.choose.model import Barred, Estimate, Margin, Model
from gpubench.choose.surface import SAME, Floats
from gpubench.choose.validation import Validation
from gpubench.core.contracts import Form, forms_for
from gpubench.core.errors import UserError
from gpubench.core.tasks import TASKS, may_be_launches
from gpubench.evidence import results
from gpubench.inputs import DESTINATIONS, DISTRIBUTIONS, ORDERS

NEAREST = 3  # measurements that are named
SCANNED = 64  # points along an axis in each direction, when looking for what changes the answer
HALVINGS = 12
# Of 71 ratios of times that are mostly launches, measured again by another process within the hour
# (regimes and rivals on an H200, d36a8ac), 19 in 20 were within this factor of what they had been.
LAUNCHES_AGAIN = 1.42
NO_FORMS: Mapping[str, Mapping[str, Form]] = {}
CATEGORIES = ("distribution", "order")  # of a setting, what a user can have otherwise


@dataclass(frozen=True)
class Question:
    """What is to be done, to which particles.

    moved: share of the particles that are in another cell than before, from 0 to 1; it makes the
        task `update`, which no other task may be. destination: where they moved to; by default
        the only one that was measured, or `next`.
    """

    particles: int
    per_cell: float
    moved: float | None = None
    task: str | None = None
    distribution: str = "uniform"
    order: str = "random"
    destination: str | None = None

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise UserError(f"--particles takes a count of at least 1, not {self.particles}")
        if not 0 < self.per_cell <= self.particles:
            raise UserError(
                f"--per-cell takes a number above 0, and at most that of all particles, not"
                f" {self.per_cell:g}"
            )
        if self.moved is not None and not 0 <= self.moved <= 1:
            raise UserError(f"--moved takes a share from 0 to 1, not {self.moved:g}")
        if self.task is not None and self.task not in TASKS:
            raise UserError(f"--task takes one of {', '.join(TASKS)}, not {self.task!r}")
        if self.moved is None and self.task == "update":
            raise UserError("--task update needs --moved SHARE: how many particles changed cells")
        if self.moved is not None and self.task not in (None, "update"):
            raise UserError(f"--moved is for --task update, not for {self.task}")
        if self.moved is None and self.destination is not None:
            raise UserError("--destination is for particles that moved: add --moved SHARE")
        for name, given, known in (
            ("distribution", self.distribution, DISTRIBUTIONS),
            ("order", self.order, ORDERS),
            ("destination", self.destination, (None, *DESTINATIONS)),
        ):
            if given not in known:
                names = ", ".join(filter(None, known))
                raise UserError(f"--{name} takes one of {names}, not {given!r}")

    @property
    def its_task(self) -> str:
        """The task, where none was given `update` of what moved and else `count`."""
        return self.task or ("count" if self.moved is None else "update")


@dataclass(frozen=True)
class Near:
    """A measured input near the one asked for.

    axes: by how much it differs: factors, and of `moved` a difference. octaves: the distance.
    ms: what the best, or else the fastest there, took. measured: who took that, and where it is
        from.
    """

    place: Place
    axes: Mapping[str, float]
    octaves: float
    subject: Subject
    measured: evidence.Measurement


@dataclass(frozen=True)
class Change:
    """Another input on which another subject is fastest.

    axis: what is changed. Of `particles`, `per_cell` and `moved`, value is where the times of two
        cross, and `winner` the faster one `below` it, or above. Of others it is the new value, and
        is_known says whether all intervals tell the winner from the others; else it is None.
    """

    axis: str
    below: bool | None
    value: float | str
    winner: Subject
    is_known: bool | None


@dataclass(frozen=True)
class Answer:
    """What to use.

    verdict: `chosen`, `cannot tell` (between best and tied), or `declined`, with the reason.
    command: what would measure this input, among others, where a command can.
    best: the fastest by interpolation, margins: of all others to it, the nearest first.
    tied: those whose margin does not tell. estimates: of all candidates, by subject.
    barred: those that might be faster, but have no right answer around there; or no known time.
    warnings: what else there is to know of the best.
    validation: what advice on this task was worth.
    """

    question: Question
    machine: Machine
    verdict: str
    reason: str | None
    command: str | None
    best: Estimate | None
    estimates: Mapping[Subject, Estimate]
    margins: Sequence[Margin]
    tied: Sequence[Subject]
    barred: Sequence[Barred]
    nearest: Sequence[Near]
    changes: Sequence[Change]
    warnings: Sequence[str]
    validation: Validation | None


class Chooser:
    """Answers questions from results of one machine.

    found: results of studies; those of other algorithms than neighbour searches are left aside.
    searches: the forms of every neighbour search that there is, to name those not measured.

    Raises UserError where they are of several machines, or of no neighbour search.
    """

    def __init__(
        self,
        found: Sequence[results.Results],
        searches: Mapping[str, Mapping[str, Form]] = NO_FORMS,
    ) -> None:
        self._searches = searches
        self.machine, of_machine = evidence.machine(found)
        kept, self._older = evidence.of_newest_code(of_machine)
        self.files = [result.path for result in kept]
        self._models = {task: Model(table) for task, table in evidence.tables(kept).items()}
        if not self._models:
            raise UserError(
                f"these results hold no neighbour search from positions: {evidence.MAKE_SOME}"
            )

    @classmethod
    def load(
        cls,
        paths: Sequence[Path] = (),
        backend: str | None = None,
        searches: Mapping[str, Mapping[str, Form]] = NO_FORMS,
    ) -> Chooser:
        """Read results files and folders; by default those of the study made for this.

        backend: cuda or opencl; by default CUDA's where there are both.
        """
        return cls(evidence.files(paths, backend), searches)

    @property
    def tasks(self) -> list[str]:
        """Tasks of which anything was measured."""
        return list(self._models)

    def cross_validate(self) -> list[Validation]:
        """Return for each task what advice is worth on inputs that were held out."""
        return [self._validation(task) for task in self._models]

    def _validation(self, task: str) -> Validation:
        if task not in self._validations:
            self._validations[task] = validation.validate(task, self._models[task])
        return self._validations[task]

    @cached_property
    def _validations(self) -> dict[str, Validation]:
        return {}

    def choose(self, question: Question) -> Answer:
        """Answer a question, or decline to, where nothing was measured around the input."""
        task = question.its_task
        if task not in self._models:
            return self._declined(question, f"nothing was measured of the task {task}", None)
        model = self._models[task]
        place = self._place(model, question)
        if reason := _why_outside(model, place):
            nearest = _nearest(model, place, None)
            return self._declined(question, reason, _command(question, place, model), nearest)
        found = [model.estimate(subject, place) for subject in model.subjects]
        candidates = sorted(
            (each for each in found if isinstance(each, Estimate)), key=lambda each: each.ms
        )
        barred = [each for each in found if isinstance(each, Barred)]
        if not candidates:
            reason = _why_nobody(barred)
            nearest = _nearest(model, place, None)
            # What was skipped would be skipped again.
            lasting = all(each.status == "skipped" for each in barred)
            command = None if lasting else _command(question, place, model)
            return self._declined(question, reason, command, nearest, barred)
        best, *others = candidates
        more = _more(self.machine, best, place)
        margins = [model.margin(best, other, place, more) for other in others]
        tied = [margin.other for margin in margins if not margin.is_known]
        return Answer(
            question,
            self.machine,
            "cannot tell" if tied else "chosen",
            None,
            None,
            best,
            {each.subject: each for each in candidates},
            margins,
            tied,
            [each for each in barred if _matters(model, each, best, place)],
            _nearest(model, place, best.subject),
            list(_changes(model, self.machine, place, best.subject)),
            [
                *_warnings(model, best, place, self.machine),
                *self._not_measured(model, question.its_task),
                *self._left_out(),
            ],
            self._validation(task),
        )

    def _not_measured(self, model: Model, task: str) -> Iterator[str]:
        """Yield who could do a task on the machine, but has no result of it in any form."""
        tasks = ("update", "count") if task == "update" else (task,)
        measured = {subject.algorithm for subject in model.subjects}
        left = [
            f"{name} {form}"
            for name, forms in self._searches.items()
            if name not in measured
            for each in tasks
            for form in forms_for(each, forms, self.machine.backend)
        ]
        if left:
            yield f"not measured, so not considered: {', '.join(left)}"

    def _left_out(self) -> list[str]:
        """Say which results are of another version of the code."""
        if not self._older:
            return []
        names = ", ".join(result.path.name for result in self._older)
        return [f"measured by older code, and left out: {names}"]

    def _place(self, model: Model, question: Question) -> Place:
        """Return the input that is asked for, in the terms of what was measured."""
        alike = [
            setting
            for setting in model.settings
            if (setting.distribution, setting.order) == (question.distribution, question.order)
            and question.destination in (None, setting.destination)
        ]
        # The plainest: particles that moved to the next cell, a box that is not periodic.
        alike.sort(key=lambda setting: (setting.destination != "next", setting.periodic))
        none = None if question.moved is None else (question.destination or "next")
        unknown = Setting(question.distribution, question.order, none, (False,) * 3)
        return Place(
            question.particles, question.per_cell, question.moved, alike[0] if alike else unknown
        )

    def _declined(
        self,
        question: Question,
        reason: str,
        command: str | None,
        nearest: Sequence[Near] = (),
        barred: Sequence[Barred] = (),
    ) -> Answer:
        task = question.its_task
        known = self._validation(task) if task in self._models else None
        return Answer(
            question, self.machine, "declined", reason, command, None, {}, (), (), barred, nearest,
            (), (), known,
        )  # fmt: skip


def _why_outside(model: Model, place: Place) -> str | None:
    """Say why an input is not among what was measured, or return None."""
    if place.setting not in model.settings:
        known = "; ".join(sorted({setting.words for setting in model.settings}))
        return f"nothing was measured of {place.setting.words}, only of: {known}"
    places = model.inputs(place.setting)
    for axis, value in place.numbers.items():
        values = sorted({other.numbers[axis] for other in places})
        if not values[0] <= value <= values[-1]:
            nearest = values[0] if value < values[0] else values[-1]
            span = _number(axis, values[0])
            if values[0] != values[-1]:
                span += f" to {_number(axis, values[-1])}"
            return (
                f"{axis.replace('_', ' ')} {_number(axis, value)} is outside of what was measured"
                f" ({place.setting.words}): {span}, nearest {_number(axis, nearest)}"
            )
    _, region = model.region(places)
    if not region.corners(matrix([place])).inside[0]:
        return (
            f"{model.words(place)} is outside of what was measured ({place.setting.words}),"
            f" nearest {_neighbours(place, places)}"
        )
    distance = float(cdist(matrix([place]), matrix(places)).min())
    if distance > model.reach(place.setting) + SAME:
        return (
            f"{model.words(place)} is {distance:.2g} octaves from what was measured nearest"
            f" ({place.setting.words}), and nothing is known of gaps beyond"
            f" {model.reach(place.setting):.2g}; nearest {_neighbours(place, places)}"
        )
    return None


def _neighbours(place: Place, places: Sequence[Place]) -> str:
    """Name the nearest measured values along each axis, below and above."""
    words = []
    for axis, value in place.numbers.items():
        values = {other.numbers[axis] for other in places}
        below = max((v for v in values if v <= value), default=None)
        above = min((v for v in values if v >= value), default=None)
        near = dict.fromkeys(v for v in (below, above) if v is not None)
        words.append(f"{axis.replace('_', ' ')} {' and '.join(_number(axis, v) for v in near)}")
    return ", ".join(words)


def _number(axis: str, value: float) -> str:
    match axis:
        case "particles":
            return f"{value:,.0f}"
        case "moved":
            return f"{100 * value:.3g} %"
        case _:
            return f"{value:.3g}"


def _why_nobody(barred: Sequence[Barred]) -> str:
    told = [f"{each.subject.label}: {each.reason}" for each in barred[:3]]
    more = f"; and {len(barred) - 3} more" if len(barred) > 3 else ""
    return f"nothing has a right answer around there: {'; '.join(told)}{more}"


def _command(question: Question, place: Place, model: Model) -> str | None:
    """Return a command that measures an input, where its setting is in the study.

    It runs the whole study, with other values for some axes, so that it measures more than that.
    """
    if place.setting not in model.settings:
        return None
    command = f"gpubench run {evidence.STUDY} --particles {question.particles}"
    command += f" --per-cell {question.per_cell:g}"
    if question.moved is not None:
        command += f" --moved {round(question.moved * question.particles)}"
    return command


def _nearest(model: Model, place: Place, subject: Subject | None) -> list[Near]:
    """Return the nearest measured inputs, of a subject if one is given."""
    if place.setting not in model.settings:
        return []
    right = [model.right(subject)] if subject else [model.right(each) for each in model.subjects]
    places = sorted({p for each in right for p in each if p.setting == place.setting})
    if not places:
        return []
    distance = cdist(matrix([place]), matrix(places))[0]
    found = []
    for i in np.argsort(distance, kind="stable")[:NEAREST]:
        other = places[i]
        fastest = subject or min(
            (each for each in model.subjects if other in model.right(each)),
            key=lambda each: model.table[each][other].ms,
        )
        axes = {
            axis: value - place.numbers[axis] if axis == "moved" else value / place.numbers[axis]
            for axis, value in other.numbers.items()
        }
        found.append(Near(other, axes, float(distance[i]), fastest, model.table[fastest][other]))
    return found


def _matters(model: Model, barred: Barred, best: Estimate, place: Place) -> bool:
    """Say whether a subject that is no candidate might have been the best one.

    So it is where its surface lies below the best, and where it has none in this setting.
    """
    right = [p for p in model.right(barred.subject) if p.setting == place.setting]
    ms = model.surface(barred.subject, matrix([place]), place.setting)
    return ms is None or not right or float(ms[0]) < best.ms


def _winners(model: Model, points: Floats, setting: Setting) -> tuple[list[Subject | None], Floats]:
    """Return who is fastest at each point, None where nobody is a candidate, and its ms."""
    ms = np.array([model.times(subject, points, setting) for subject in model.subjects])
    known = np.where(np.isnan(ms), np.inf, ms)
    first = known.argmin(axis=0)
    least = known.min(axis=0)
    winners = [
        model.subjects[i] if np.isfinite(t) else None for i, t in zip(first, least, strict=True)
    ]
    return winners, least


def _more(machine: Machine, best: Estimate, place: Place) -> float:
    """Return by how much margins over a time are wider than they look, a logarithm."""
    launches = machine.backend == "cuda" and may_be_launches(place.particles, best.ms)
    return math.log(LAUNCHES_AGAIN) if launches else 0.0


def _changes(model: Model, machine: Machine, place: Place, best: Subject) -> Iterator[Change]:
    """Yield the nearest input along each axis on which another subject is the fastest."""
    places = model.inputs(place.setting)
    for i, axis in enumerate(place.numbers):
        here = place.octaves[i]
        ends = [p.octaves[i] for p in places]
        for end in (min(ends), max(ends)):
            if abs(end - here) > SAME:
                yield from _crossing(model, place, best, i, axis, end)
    for name in CATEGORIES:
        for setting in model.settings:
            changed = setting._replace(**{name: getattr(place.setting, name)})
            if setting == place.setting or changed != place.setting:
                continue
            other = dataclasses.replace(place, setting=setting)
            found = _fastest(model, machine, other)
            if found and found[0] != best:
                yield Change(name, None, getattr(setting, name), *found)


def _fastest(model: Model, machine: Machine, place: Place) -> tuple[Subject, bool] | None:
    """Return who is fastest on an input, and whether all margins tell; None where nobody is."""
    if _why_outside(model, place):
        return None
    found = [model.estimate(subject, place) for subject in model.subjects]
    candidates = [each for each in found if isinstance(each, Estimate)]
    if not candidates:
        return None
    first = min(candidates, key=lambda each: each.ms)
    more = _more(machine, first, place)
    return first.subject, all(
        model.margin(first, other, place, more).is_known
        for other in candidates
        if other is not first
    )


def _crossing(
    model: Model, place: Place, best: Subject, i: int, axis: str, end: float
) -> Iterator[Change]:
    """Yield where the winner first changes along an axis, as far as candidates are known."""
    here = place.octaves[i]

    def winners(at: Floats) -> list[Subject | None]:
        points = np.repeat(matrix([place]), len(at), axis=0)
        points[:, i] = at
        return _winners(model, points, place.setting)[0]

    at = np.linspace(here, end, SCANNED + 1)
    found = winners(at)
    for step in range(1, len(at)):
        if found[step] is None:
            return
        if found[step] != best:
            inner, outer = at[step - 1], at[step]
            for _ in range(HALVINGS):
                middle = (inner + outer) / 2
                if winners(np.array([middle]))[0] == best:
                    inner = middle
                else:
                    outer = middle
            winner = winners(np.array([outer]))[0]
            if winner is not None:
                value = from_octaves(axis, float(outer))
                yield Change(axis, end < here, value, winner, None)
            return


def _warnings(model: Model, estimate: Estimate, place: Place, machine: Machine) -> Iterator[str]:
    """Yield what else there is to know of the best: of its time, where it was wrong or failed."""
    best = estimate.subject
    if machine.backend == "cuda" and may_be_launches(place.particles, estimate.ms):
        yield (
            "so short a time may be mostly that of launches from Python; from a graph others may be"
            " the fastest, see the study rivals"
        )
    for status, verb in (("wrong", "was wrong on"), ("failed", "failed on")):
        places = sorted(p for p, m in model.table[best].items() if m.status == status)
        if places:
            first = places[0]
            yield (
                f"{best.label} {verb} {len(places)} of {len(model.table[best])} inputs, the"
                f" smallest {Model.words(first)} ({first.setting.words}):"
                f" {model.table[best][first].reason}"
            )
