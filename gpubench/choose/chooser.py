"""The answer to "which one should I use?", from results and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from gpubench.base.errors import UserError
from gpubench.choose import evidence
from gpubench.choose.evidence import InputPoint, Known, MachineName, Setting, from_octaves, matrix
from gpubench.choose.model import SIZES, Barred, Margin, TimeEstimate, TimeModel
from gpubench.choose.question import Question
from gpubench.choose.surface import SAME, distances
from gpubench.choose.validation import Validation, validate
from gpubench.evidence import results
from gpubench.evidence.pooling import may_be_launches, of_newest_code
from gpubench.evidence.ranking import Variant

NEAREST = 3  # measurements that are named
SCANNED = 64  # points along an axis in each direction, when looking for what changes the answer
ZOOMS = 3  # scans, each between two points of the one before
CATEGORIES = ("distribution", "order")  # of a setting, what a user can have otherwise


@dataclass(frozen=True)
class Near:
    """A measured input near the one asked for.

    octaves: the distance. subject: the best, or else the fastest there. known: its time, and where
    it is from.
    """

    place: InputPoint
    octaves: float
    subject: Variant
    known: Known


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
    winner: Variant
    is_known: bool | None


@dataclass(frozen=True)
class Answer:
    """What to use.

    reason: why it declines to answer. command: what would measure this input, among others, where
        a command can.
    barred: those that might be faster, but have no right answer around there; or no known time.
    best: the fastest by interpolation, margins: of all others to it, the nearest first.
    warnings: what else there is to know of the best.
    validation: what advice on this task was worth.
    """

    question: Question
    machine: MachineName
    validation: Validation | None
    reason: str | None = None
    command: str | None = None
    barred: Sequence[Barred] = ()
    nearest: Sequence[Near] = ()
    best: TimeEstimate | None = None
    margins: Sequence[Margin] = ()
    changes: Sequence[Change] = ()
    warnings: Sequence[str] = ()

    @property
    def tied(self) -> list[Margin]:
        """The margins that do not tell which is faster."""
        return [margin for margin in self.margins if not margin.is_known]

    @property
    def verdict(self) -> str:
        """`chosen`, `cannot tell` (between best and tied), or `declined`, with the reason."""
        if self.best is None:
            return "declined"
        return "cannot tell" if self.tied else "chosen"


class Chooser:
    """Answers questions from results of one machine.

    found: results of studies; those of other algorithms than neighbour searches are ignored.

    Raises UserError where they are of several machines, or of no neighbour search.
    """

    def __init__(self, found: Sequence[results.Results]) -> None:
        self.machine, of_machine = evidence.machine(found)
        kept, older = of_newest_code(of_machine)
        names = ", ".join(result.path.name for result in older)
        self._left_out = [f"measured by older code, and left out: {names}"] if older else []
        self.files = [result.path for result in kept]
        self._tables = evidence.tables(kept)
        self._known: dict[str, tuple[TimeModel, Validation]] = {}
        if not self._tables:
            raise UserError(
                "these results hold no neighbour search from positions:"
                f" `gpubench run {evidence.STUDY}` makes some"
            )

    @classmethod
    def load(cls, paths: Sequence[Path] = (), backend: str | None = None) -> Chooser:
        """Read results files and folders; by default those of the study made for this.

        backend: cuda or opencl; by default CUDA's where there are both.
        """
        return cls(evidence.files(paths, backend))

    def known(self, task: str) -> tuple[TimeModel, Validation]:
        """Return what interpolates the times of a task, and what its advice is worth."""
        if task not in self._known:
            model = TimeModel(self._tables[task])
            self._known[task] = model, validate(task, model)
        return self._known[task]

    def prepared(self, task: str) -> Self:
        """Return it for one task alone, with all that does not depend on the question done."""
        self._tables = {name: of for name, of in self._tables.items() if name == task}
        for name in self._tables:
            for size in SIZES:
                self.known(name)[0].fit(size)
        return self

    def cross_validate(self) -> list[Validation]:
        """Return for each task what advice is worth on inputs that were held out."""
        return [self.known(task)[1] for task in self._tables]

    def choose(self, question: Question, with_changes: bool = True) -> Answer:
        """Answer a question, or decline to, where nothing was measured around the input.

        with_changes: whether to look for them, which takes longer than all the rest.
        """
        task = question.its_task
        if task not in self._tables:
            return Answer(question, self.machine, None, f"nothing was measured of the task {task}")
        model, worth = self.known(task)
        place = self._place(model, question)
        if (reason := _why_outside(model, place)) is not None:
            command, nearest = _command(question, place, model), _nearest(model, place, None)
            return Answer(question, self.machine, worth, reason, command, nearest=nearest)
        best, margins, barred = _ranked(model, place)
        if best is None:
            # What was skipped would be skipped again.
            lasting = all(each.status == "skipped" for each in barred)
            command = None if lasting else _command(question, place, model)
            told = [f"{each.subject.label}: {each.reason}" for each in barred[:3]]
            told += [f"and {len(barred) - 3} more"] if len(barred) > 3 else []
            reason = f"nothing has a right answer around there: {'; '.join(told)}"
            nearest = _nearest(model, place, None)
            return Answer(question, self.machine, worth, reason, command, barred, nearest)
        changes = _changes(model, place, best.subject) if with_changes else ()
        return Answer(
            question,
            self.machine,
            worth,
            best=best,
            margins=margins,
            barred=[each for each in barred if _matters(model, each, best, place)],
            nearest=_nearest(model, place, best.subject),
            changes=list(changes),
            warnings=[*_warnings(model, best, place, self.machine), *self._left_out],
        )

    def _place(self, model: TimeModel, question: Question) -> InputPoint:
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
        return InputPoint(
            question.particles, question.per_cell, question.moved, alike[0] if alike else unknown
        )


def _why_outside(model: TimeModel, place: InputPoint) -> str | None:
    """Say why an input is not among what was measured, or return None."""
    words = place.setting.words
    if place.setting not in model.settings:
        known = "; ".join(sorted({setting.words for setting in model.settings}))
        return f"nothing was measured of {words}, only of: {known}"
    nearest, gap = model.nearest(place)
    if not model.contains(place):
        return f"{place.words} is outside of what was measured ({words}), nearest {nearest.words}"
    if gap > (reach := model.reach(place.setting)) + SAME:
        return (
            f"{place.words} is {gap:.2g} octaves from what was measured nearest ({words}), and"
            f" nothing is known of gaps beyond {reach:.2g}; nearest {nearest.words}"
        )
    return None


def _command(question: Question, place: InputPoint, model: TimeModel) -> str | None:
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


def _nearest(model: TimeModel, place: InputPoint, subject: Variant | None) -> list[Near]:
    """Return the nearest measured inputs, of a subject if one is given."""
    subjects = [subject] if subject else model.subjects
    right = {p for each in subjects for p in model.right[each]}
    places = sorted(p for p in right if p.setting == place.setting)
    if not places:
        return []
    away = distances(matrix([place]), matrix(places))[0]
    found = []
    for i in np.argsort(away, kind="stable")[:NEAREST]:
        other = places[i]
        able = [each for each in subjects if other in model.right[each]]
        fastest = min(able, key=lambda each: model.right[each][other].median_ms)
        found.append(Near(other, float(away[i]), fastest, model.right[fastest][other]))
    return found


def _matters(model: TimeModel, barred: Barred, best: TimeEstimate, place: InputPoint) -> bool:
    """Say whether a subject that is no candidate might have been the best one.

    So it is where its surface lies below the best, and where it has none in this setting.
    """
    is_known = any(p.setting == place.setting for p in model.right[barred.subject])
    ms = model.ms(matrix([place]), place.setting)[model.subjects.index(barred.subject), 0]
    return not is_known or not ms >= best.ms


def _changes(model: TimeModel, place: InputPoint, best: Variant) -> Iterator[Change]:
    """Yield the nearest input along each axis on which another subject is the fastest."""
    octaves = matrix(model.inputs(place.setting))
    for i in range(octaves.shape[1]):
        for end in (octaves[:, i].min(), octaves[:, i].max()):
            if abs(end - place.octaves[i]) > SAME:
                yield from _crossing(model, place, best, i, float(end))
    for name in CATEGORIES:
        for setting in model.settings:
            changed = setting._replace(**{name: getattr(place.setting, name)})
            if setting == place.setting or changed != place.setting:
                continue
            other = dataclasses.replace(place, setting=setting)
            if _why_outside(model, other) is None:
                first, margins, _ = _ranked(model, other)
                if first is not None and first.subject != best:
                    is_known = all(margin.is_known for margin in margins)
                    yield Change(name, None, getattr(setting, name), first.subject, is_known)


def _ranked(
    model: TimeModel, place: InputPoint
) -> tuple[TimeEstimate | None, list[Margin], list[Barred]]:
    """Return the fastest on an input, the margins of all others to it, and what is none of them."""
    found = model.estimates(place)
    barred = [each for each in found if isinstance(each, Barred)]
    able = sorted(
        (each for each in found if isinstance(each, TimeEstimate)), key=lambda each: each.ms
    )
    if not able:
        return None, [], barred
    first, *others = able
    return first, [model.margin(first, other, place) for other in others], barred


def _crossing(
    model: TimeModel, place: InputPoint, best: Variant, i: int, end: float
) -> Iterator[Change]:
    """Yield where the fastest first changes along an axis, as far as candidates are known."""
    inner, outer = place.octaves[i], end
    winner = None
    for _ in range(ZOOMS):
        at = np.linspace(inner, outer, SCANNED + 1)
        points = np.repeat(matrix([place]), len(at), axis=0)
        points[:, i] = at
        ms = model.times(points, place.setting)
        is_known = np.asarray(np.isfinite(ms).any(axis=0))
        first = np.where(np.isnan(ms), np.inf, ms).argmin(axis=0)
        is_other = ~is_known | (first != model.subjects.index(best))
        is_other[0] = False  # where the question is, or the last scan had the best
        if not is_other.any():
            return
        step = int(is_other.argmax())
        if not is_known[step]:
            return
        inner, outer, winner = at[step - 1], at[step], model.subjects[first[step]]
    axis = list(place.numbers)[i]
    if winner is not None:
        value = from_octaves(axis, float(outer))
        yield Change(axis, end < place.octaves[i], value, winner, None)


def _warnings(
    model: TimeModel, estimate: TimeEstimate, place: InputPoint, machine: MachineName
) -> Iterator[str]:
    """Yield what else there is to know of the best: of its time, where it was wrong or failed."""
    best = estimate.subject
    if machine.backend == "cuda" and may_be_launches(place.particles, estimate.ms):
        yield (
            "so short a time may be mostly that of launches from Python; from a graph others may be"
            " the fastest, see the study rivals"
        )
    measured = model.table[best]
    whys = {place: known.why for place, known in measured.items() if known.why is not None}
    for status, verb in (("wrong", "was wrong on"), ("failed", "failed on")):
        reasons = {p: reason for p, (found, reason) in whys.items() if found == status}
        if reasons:
            first = min(reasons)
            yield (
                f"{best.label} {verb} {len(reasons)} of {len(measured)} inputs, the smallest"
                f" {first.words} ({first.setting.words}): {reasons[first]}"
            )
