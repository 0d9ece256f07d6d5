"""Answer "which one should I use?" from results, without a device."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from gpubench.base import gpus
from gpubench.base.errors import UserError
from gpubench.base.roles import study_for
from gpubench.base.user_cache import remembered
from gpubench.choose import evidence
from gpubench.choose.evidence import InputPoint, Known, MachineName, Setting, matrix
from gpubench.choose.model import Barred, Margin, Risk, TimeEstimate, TimeModel
from gpubench.choose.question import CALLED_FROM, GRAPH, NO_GRAPHS, Question, SortQuestion
from gpubench.choose.surface import SAME
from gpubench.choose.validation import Validation, validate
from gpubench.evidence import results
from gpubench.evidence.pooling import current, pool
from gpubench.evidence.ranking import Variant

NEAREST = 3  # number of nearest measurements listed in an answer
SCANNED = 64  # points scanned along an axis in each direction, to find where the answer changes
ZOOMS = 3  # scans, each between two adjacent points of the previous scan
CATEGORIES = ("distribution", "order")  # fields of a setting that a user may be able to change


class Near(NamedTuple):
    """A nearby measured input, and the best's measurement there; without a best, the fastest."""

    place: InputPoint
    octaves: float
    subject: Variant
    known: Known


class Change(NamedTuple):
    """A change of the input that makes another subject, the winner, the fastest.

    On a numeric axis, `value` is a crossover; `below`: whether the winner is fastest below it. On
    others, `value` is the new word; `is_known`: if intervals separate the winner from the rest.
    """

    axis: str
    below: bool | None
    value: float | str
    winner: Variant
    is_known: bool | None


@dataclass(frozen=True)
class Answer:
    """A recommendation, or the reason why there is none.

    files: the results used. best: the subject whose interpolated time is lowest. margins: one for
    each other candidate, fastest first. barred: other subjects, which may be faster, and why each
    is no candidate. reason: why there is no `best`, or that the evidence is for another box.
    command: measures this input. won: see `_won`. changes: None if not searched for.
    """

    question: Question | SortQuestion
    machine: MachineName
    files: Sequence[Path]
    validation: Validation | None = None
    reason: str | None = None
    command: str | None = None
    barred: Sequence[Barred] = ()
    nearest: Sequence[Near] = ()
    best: TimeEstimate | None = None
    margins: Sequence[Margin] = ()
    changes: Sequence[Change] | None = ()
    warnings: Sequence[str] = ()
    won: int = 0

    @property
    def tied(self) -> list[Margin]:
        """The margins whose intervals do not show which subject is faster."""
        return [margin for margin in self.margins if not margin.is_known]

    @property
    def risk(self) -> Risk | None:
        """The time that using the best may lose; None without a best or other candidates."""
        return Risk.of(self.margins) if self.margins else None

    @property
    def verdict(self) -> str:
        """`declined`, `cannot tell` (a tie, no rival, or evidence for another box), or `chosen`."""
        if self.best is None:
            return "declined"
        return "cannot tell" if self.tied or not self.margins or self.reason else "chosen"


BUILDS = (
    "only builds of sorted cells are compared; tasks that query them, count and list, tell which"
    " structure pays"
)


class Chooser:
    """Answers questions about neighbour searches from results of one machine.

    are_default: whether these are the default results; then other runs of the device supply the
    spread between runs. Raises UserError for several machines, or without neighbour searches.
    """

    def __init__(self, found: Sequence[results.Results], are_default: bool = False) -> None:
        self.machine, of_machine = evidence.machine(found)
        self.files = [result.path for result in of_machine]
        every = pool(of_machine, evidence.repeats(self.machine.device) if are_default else ())
        measured = current(every)
        older = len(every) - len(measured)
        self._left_out = [f"left out: {older:,} measurements of older code"] if older else []
        self._tables = {way: evidence.tables(measured, way) for way in CALLED_FROM}
        self._known: dict[tuple[str, str], tuple[TimeModel, Validation]] = {}
        if not any(self._tables.values()):
            make_some = f"`gpubench run {evidence.STUDY}` makes some"
            raise UserError(f"these results hold no neighbour search from positions: {make_some}")

    @classmethod
    def load(cls, paths: Sequence[Path] = (), device: str | None = None) -> Chooser:
        """Read results files and folders; see `evidence.files`."""
        return cls(evidence.files(paths, device), not paths)

    def known(self, task: str, called_from: str = GRAPH) -> tuple[TimeModel, Validation]:
        """Return the model of a task's times, and its cross-validation; cached."""
        if (task, called_from) not in self._known:
            table, way = self._tables[called_from][task]
            model = TimeModel(table)
            self._known[task, called_from] = model, validate(task, way, model)
        return self._known[task, called_from]

    def prepared(self, task: str, called_from: str) -> Self:
        """Keep only one task and caller, and do all work that is independent of the question."""
        known = {name: of for name, of in self._tables[called_from].items() if name == task}
        self._tables = {called_from: known}
        self.cross_validate(called_from)
        return self

    def cross_validate(self, called_from: str = GRAPH) -> list[Validation]:
        """Cross-validate the advice on each task."""
        return [self.known(task, called_from)[1] for task in self._tables[called_from]]

    def choose(self, question: Question, with_changes: bool = True) -> Answer:
        """Answer a question, or decline. with_changes: whether to find `Answer.changes` (slow)."""
        task = question.its_task
        if task not in self._tables[question.called_from]:
            none = f"the task {task} was not measured"
            return Answer(question, self.machine, self.files, reason=none)
        model, worth = self.known(task, question.called_from)
        notes = [] if worth.called_from == question.called_from else [NO_GRAPHS]
        notes += [BUILDS] if task == "build" else []
        place = self._place(model, question)
        reason = _why_outside(model, place)
        best, margins, barred = model.ranked(place) if reason is None else (None, [], [])
        answer = Answer(question, self.machine, self.files, worth, reason, barred=barred)
        if best is None:
            told = "; ".join(f"{each.subject.label}: {each.reason}" for each in barred[:3])
            # If all were skipped, they would be skipped again: suggest no command.
            lasting = reason is None and all(each.status == "skipped" for each in barred)
            alike = {(each.setting, each.contrast, each.radii) for each in model.places}
            is_in_study = (place.setting, place.contrast, place.radii) in alike and not lasting
            return replace(
                answer,
                reason=reason or f"no search was right at every measured input nearby: {told}",
                command=_command(place) if is_in_study else None,
                nearest=_nearest(model, place, None),
                warnings=notes,
            )
        axes = question.periodic, place.setting.periodic
        if axes[0] != axes[1]:
            boxes = (f"a box periodic along {each}" if each else "an open box" for each in axes)
            reason = "nothing was measured in {}, and this is of {}".format(*boxes)
        return replace(
            answer,
            reason=reason,
            command=reason and f"gpubench tune FILE --cutoff S --periodic {axes[0] or 'none'}",
            best=best,
            margins=margins,
            barred=[each for each in barred if _matters(model, each, best, place)],
            nearest=_nearest(model, place, best.subject),
            changes=list(_changes(model, place, best.subject)) if with_changes else None,
            warnings=[*notes, *_warnings(model, best.subject), *self._left_out],
            won=_won(model, place, best.subject),
        )

    def _place(self, model: TimeModel, question: Question) -> InputPoint:
        """Return the question's input, with the most similar measured setting."""
        moved = None if question.moved is None else (question.destination or "next")
        distribution = evidence.named(question.distribution, question.contrast)
        own = Setting(distribution, question.order, moved, question.periodic)
        alike = (each for each in model.settings if each[:2] == own[:2])
        if question.destination is not None:
            alike = (each for each in alike if each.destination == question.destination)

        def place(each: Setting) -> tuple[bool, bool, str]:
            """Prefer moves to the next cell, then the box as asked, then an open box."""
            return each.destination != "next", each.periodic != own.periodic, each.periodic

        at, contrast = (question.particles, question.per_cell, question.moved), question.contrast
        return InputPoint(*at, min(alike, key=place, default=own), contrast or 1.0, question.radii)


def chooser_for(task: str, called_from: str, given: Sequence[Path], device: str | None) -> Chooser:
    """Load a chooser for one task. For default results, it is cached; so is a UserError."""
    if given:
        return Chooser.load(given, device)
    studies = (evidence.STUDY, study_for("spread"))
    paths = (path for study in studies for of in evidence.default_files(study) for path in of)
    try:
        content = [part for path in paths for part in (bytes(path), path.read_bytes())]
    except OSError:
        return Chooser.load(given, device)  # raises for unreadable files

    def prepared() -> Chooser | UserError:
        try:
            return Chooser.load(given, device).prepared(task, called_from)
        except UserError as error:  # cached too: finding that there is no evidence takes as long
            return error

    name = re.sub(r"\W+", "-", f"choose-{device or 'any'}-{task}-{called_from}")
    found = remembered(name, [*content, repr(gpus.gpu_names()).encode()], prepared)
    if isinstance(found, UserError):
        raise found
    return found


def _why_outside(model: TimeModel, place: InputPoint) -> str | None:
    """Return why an input is outside the measured range, or None if it is inside."""
    words = place.setting.words
    if place.setting not in model.settings:
        known = "; ".join(sorted({setting.words for setting in model.settings}))
        return f"nothing was measured of {words}, only of: {known}"
    nearest, gap = _by_distance(place, model.places)[0]
    if not model.contains(place):
        return f"{place.words} is outside of what was measured ({words}), nearest {nearest.words}"
    if gap > (reach := model.reach(place.setting)) + SAME:
        return (
            f"{place.words} is {gap:.2g} octaves from what was measured nearest ({words}), and"
            f" nothing is known of gaps beyond {reach:.2g}; nearest {nearest.words}"
        )
    return None


def _command(asked: InputPoint) -> str:
    """Return a command that measures this input, among others."""
    moves = "" if asked.moved is None else f" --moved {round(asked.moved * asked.particles)}"
    axes = f"--particles {asked.particles} --per-cell {asked.per_cell:g}{moves}"
    return f"gpubench run {evidence.STUDY} {axes}"


def _won(model: TimeModel, place: InputPoint, best: Variant) -> int:
    """Count inputs from the nearest outwards, until one on which the best was not fastest."""
    nearest = (other for other, _ in _by_distance(place, model.places))
    times = ({s: of[other].ms for s, of in model.right.items() if other in of} for other in nearest)
    firsts = (min(own, key=own.__getitem__) for own in times if len(own) > 1)  # one has no rival
    return len(list(takewhile(best.__eq__, firsts)))


def _nearest(model: TimeModel, place: InputPoint, subject: Variant | None) -> list[Near]:
    """Return the nearest inputs with a right answer of `subject` or, if it is None, of any."""
    subjects = [subject] if subject else model.subjects
    right = {p for each in subjects for p in model.right[each]}
    found = []
    for other, away in _by_distance(place, sorted(right))[:NEAREST]:
        able = [each for each in subjects if other in model.right[each]]
        fastest = min(able, key=lambda each: model.right[each][other].ms)
        found.append(Near(other, away, fastest, model.right[fastest][other]))
    return found


def _by_distance(place: InputPoint, places: Sequence[InputPoint]) -> list[tuple[InputPoint, float]]:
    """Return the inputs with the setting of `place` and their distances, nearest first."""
    here = [each for each in places if each.setting == place.setting]
    away = [math.dist(each.octaves, place.octaves) for each in here]
    return sorted(zip(here, away, strict=True), key=lambda each: each[1])


def _matters(model: TimeModel, barred: Barred, best: TimeEstimate, place: InputPoint) -> bool:
    """Whether a barred subject may be the best: its interpolated time is lower, or unknown."""
    is_known = any(p.setting == place.setting for p in model.right[barred.subject])
    ms = model.ms(matrix([place]), place.setting)[model.subjects.index(barred.subject), 0]
    return not is_known or not ms >= best.ms


def _changes(model: TimeModel, place: InputPoint, best: Variant) -> Iterator[Change]:
    """Yield the nearest change along each axis that makes another subject the fastest."""
    octaves = matrix([each for each in model.places if each.setting == place.setting])
    for i in range(octaves.shape[1]):
        for end in (octaves[:, i].min(), octaves[:, i].max()):
            if abs(end - place.octaves[i]) > SAME:
                yield from _crossing(model, place, best, i, float(end))
    for name in CATEGORIES:
        for setting in model.settings:
            changed = setting._replace(**{name: getattr(place.setting, name)})
            other = replace(place, setting=setting)
            if setting != place.setting == changed and _why_outside(model, other) is None:
                first, margins, _ = model.ranked(other)
                if first is not None and margins and first.subject != best:
                    is_known = all(margin.is_known for margin in margins)
                    yield Change(name, None, getattr(setting, name), first.subject, is_known)


def _crossing(
    model: TimeModel, place: InputPoint, best: Variant, i: int, end: float
) -> Iterator[Change]:
    """Yield the nearest crossover along an axis, if any; stop where no second candidate exists."""
    inner, outer = place.octaves[i], end
    for _ in range(ZOOMS):
        at = np.linspace(inner, outer, SCANNED + 1)
        points = np.repeat(matrix([place]), len(at), axis=0)
        points[:, i] = at
        ms = model.times(points, place.setting)
        is_known = np.asarray(np.isfinite(ms).sum(axis=0) > 1)  # a single subject has no rival
        first = np.where(np.isnan(ms), np.inf, ms).argmin(axis=0)
        is_other = ~is_known | (first != model.subjects.index(best))
        is_other[0] = False  # the best is already known to be fastest at the first point
        step = int(is_other.argmax())
        if not (is_other[step] and is_known[step]):
            return
        inner, outer, winner = at[step - 1], at[step], model.subjects[first[step]]
    value = evidence.from_octaves(axis := place.axes[i], float(outer))
    yield Change(axis, end < place.octaves[i], value, winner, None)


def _warnings(model: TimeModel, best: Variant) -> Iterator[str]:
    """Yield a line about inputs on which the best was wrong, and one about its failures."""
    measured = model.table[best]
    for status, verb in (("wrong", "was wrong on"), ("failed", "failed on")):
        reasons = {p: k.why[1] for p, k in measured.items() if k.why and k.why[0] == status}
        if reasons:
            first = min(reasons)
            smallest = f"{first.words} ({first.setting.words}): {reasons[first]}"
            on = f"{len(reasons)} of {len(measured)} inputs"
            yield f"{best.label} {verb} {on}, the smallest {smallest}"
