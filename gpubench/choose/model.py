"""Interpolate the measurements of one task to inputs between the measured ones."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpubench.choose import surface
from gpubench.choose.evidence import NOT_MEASURED, InputPoint, Known, Setting, Table, matrix
from gpubench.choose.surface import SAME, Booleans, Floats, Integers
from gpubench.evidence.ranking import Variant

APART = 2.0  # distance in octaves added by a difference in one field of the setting
TESTS, FEWEST_TESTS = 19, 3  # a 20th error is below the largest of 19 with 95 % probability
FADE = 4  # weights fall to 0 from the distance of the TESTS-th test to (1 + 1 / FADE) times that
NEAR = 0.1  # octaves: subjects right on a measured input this near are candidates
FURTHER = 1.5  # advice is given up to this far from a measurement, in median spacings of inputs
NORMAL_95 = 1.96  # standard deviations in the half-width of a 95 % interval
TAIL, STEPS = 6.0, 400  # limit of the integral over losses, in deviations times sqrt(2); its steps


class TimeEstimate(NamedTuple):
    """The interpolated time and memory of a subject on an input.

    measured: the weighted mean of the surrounding measurements' half widths, in logarithms.
    as_launched: see `Known.is_launched`. Bytes are None if unknown for any of these measurements.
    """

    subject: Variant
    ms: float
    low_ms: float
    high_ms: float
    measured: float
    as_launched: bool
    workspace_bytes: int | None
    peak_bytes: int | None

    @classmethod
    def between(
        cls, subject: Variant, ms: float, off: float, around: Sequence[tuple[Known, float]]
    ) -> TimeEstimate:
        """Return an estimate from weighted measurements. off: log error of interpolation."""
        width = sum(share * known.half_width for known, share in around)
        factor = math.exp(off + width)
        as_launched = any(known.is_launched for known, _ in around)
        sizes = (_bytes(around, field) for field in ("workspace_bytes", "peak_bytes"))
        return cls(subject, ms, ms / factor, ms * factor, width, as_launched, *sizes)


def _bytes(around: Sequence[tuple[Known, float]], field: str) -> int | None:
    sizes = [(getattr(known, field), share) for known, share in around]
    if any(size is None for size, _ in sizes):
        return None
    # log1p, since a variant without memory of its own has 0 bytes.
    return round(math.expm1(sum(math.log1p(size) * share for size, share in sizes)))


class Margin(NamedTuple):
    """The ratio of another subject's time to the best's, with a 95 % interval.

    deviation: standard deviation of the logarithm of the ratio.
    """

    other: TimeEstimate
    ratio: float
    low: float
    high: float
    deviation: float

    @classmethod
    def of(cls, best: TimeEstimate, other: TimeEstimate, width: float, off: float = 0.0) -> Margin:
        """Return a margin. width: log half width of the interval; off: log interpolation error."""
        ratio, factor = other.ms / best.ms, math.exp(width)
        deviation = math.hypot(off, best.measured, other.measured) / NORMAL_95
        return cls(other, ratio, ratio / factor, ratio * factor, deviation)

    @property
    def is_known(self) -> bool:
        """Whether the interval shows which one is faster."""
        return self.low > 1 or self.high < 1


class Risk(NamedTuple):
    """The time a choice may lose, as a fraction of the fastest time; docs/choosing.md has the rule.

    worst: loss at the low ends of the ratios' intervals. Both losses are infinite if an end is 0.
    """

    expected: float
    worst: float

    @classmethod
    def of(cls, margins: Sequence[Margin]) -> Risk:
        """Return the risk of a choice, given at least one margin."""
        if (lowest := min(each.low for each in margins)) == 0:
            return cls(math.inf, math.inf)
        rivals = [(math.log(m.ratio), max(m.deviation, SAME) * math.sqrt(2)) for m in margins]
        end = max(0.0, *(TAIL * scale - log for log, scale in rivals))
        parts = (np.arange(STEPS) + 0.5) / STEPS
        lost = end * parts**2  # logarithms of ratios, denser near 0
        less = (math.prod(1 + math.erf((u + x) / s) for x, s in rivals) for u in lost)
        more = 1 - np.array([*less]) / 2 ** len(rivals)
        # The mean loss is the integral of the probability of a greater loss.
        expected = float((more * np.exp(lost) * parts).sum() * 2 * end / STEPS)
        return cls(expected, max(0.0, 1 / lowest - 1))


class Barred(NamedTuple):
    """A subject that is not a candidate, and the reason in one line."""

    subject: Variant
    status: str
    reason: str


class TimeModel:
    """Times of the subjects of one task between measured inputs, by the method of docs/choosing.md.

    right: each subject's measurements that may be ranked, by input. reference: the subject that has
    the most of these. Arrays follow the order of `subjects` and of `places` (inputs).
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.subjects = sorted(table)
        self.places = sorted({place for measured in table.values() for place in measured})
        self.settings = sorted({place.setting for place in self.places})
        self.right = {s: {p: k for p, k in of.items() if k.why is None} for s, of in table.items()}
        self.reference = max(self.subjects, key=lambda subject: len(self.right[subject]))
        self._octaves = matrix(self.places)
        varies = (self._octaves != self._octaves[:1]).any(axis=0)
        self._trended = max(2, *(1 + np.flatnonzero(varies)).tolist(), 0)  # up to the last of these
        settings = [place.setting for place in self.places]
        self._in = {s: np.array([each == s for each in settings]) for s in self.settings}
        self._is_measured, self._is_right = (
            np.array([[place in of[subject] for place in self.places] for subject in self.subjects])
            for of in (table, self.right)
        )
        # (index of a field of a setting, one of its values), for all fields that vary.
        fields = (dict.fromkeys(values) for values in zip(*self.settings, strict=True))
        self._words = [(n, value) for n, of in enumerate(fields) if len(of) > 1 for value in of]
        self._at = self._coordinates(self._octaves, settings)
        self._basis = surface.basis(self._at, self._at, self._trended)

    def _coordinates(self, points: Floats, settings: Sequence[Setting]) -> Floats:
        """Return octaves and an indicator column for each value in `_words`, for distances."""
        differs = [[setting[part] == value for part, value in self._words] for setting in settings]
        columns = np.array(differs, np.float64).reshape(len(settings), len(self._words))
        columns = np.broadcast_to(columns, (len(points), len(self._words)))
        return np.hstack([points, columns * (APART / math.sqrt(2))])

    def contains(self, place: InputPoint) -> bool:
        """Whether an input is in the convex hull of the measured inputs with its setting."""
        inputs = self._octaves[self._in[place.setting]]
        everything = np.ones((1, len(inputs)), np.bool_)
        _, weight = surface.corners(inputs, matrix([place]), everything[None], everything)
        return bool(weight.any())

    @cached_property
    def fit(self) -> tuple[Floats, Floats]:
        """The coefficients of each subject's log time in `basis`, and the errors on its inputs.

        Errors are from leave-one-out interpolation: the error of the log ratio to the reference,
        plus the error of the reference if it was right; NaN where undefined.
        """
        n, axes = len(self.places), self._trended
        right = (self.right[subject] for subject in self.subjects)
        made = [[getattr(of.get(place), "ms", None) for place in self.places] for of in right]
        logs = np.log(np.array(made, np.float64))
        coefficients = np.full((len(logs), n + 1 + axes), np.nan)
        errors = np.full(logs.shape, np.nan)
        of_reference, its_errors = np.zeros(n + 1 + axes), np.zeros(n)
        known = np.isfinite(logs)
        solutions: dict[bytes, Floats] = {}
        for number in sorted(range(len(logs)), key=lambda i: self.subjects[i] != self.reference):
            own, key = known[number], known[number].tobytes()
            if not own.any():
                continue
            if key not in solutions:
                solutions[key] = surface.solution(self._at[own], axes)
            found = solutions[key] @ (logs[number, own] - self._basis[own] @ of_reference)
            columns = np.concatenate([np.flatnonzero(own), np.arange(n, n + 1 + axes)])
            coefficients[number] = of_reference
            coefficients[number, columns] += found
            diagonal = np.diag(solutions[key])
            alone = np.where(np.abs(diagonal) > 1e-12, diagonal, np.nan)
            errors[number, own] = found[: len(alone)] / alone + its_errors[own]
            if self.subjects[number] == self.reference:
                of_reference, its_errors = coefficients[number], np.where(own, errors[number], 0)
        return coefficients, errors

    def ms(self, points: Floats, setting: Setting) -> Floats:
        """Return each subject's time at points of a setting in ms; NaN if it was never right."""
        at = self._coordinates(points, [setting])
        return np.exp(surface.basis(at, self._at, self._trended) @ self.fit[0].T).T

    def _candidates(
        self, points: Floats, setting: Setting, but: Booleans | None = None
    ) -> tuple[Booleans, Integers, Floats]:
        """Return whether each subject is a candidate at each point; its corners; their weights."""
        here = np.flatnonzero(self._in[setting])
        both = np.hstack([self._is_measured[:, here], self._is_right[:, here]])
        cases, which = np.unique(both, axis=0, return_inverse=True)  # most subjects share a case
        measured, right = cases[:, : len(here)], cases[:, len(here) :]
        there = np.ones((1, len(here)), np.bool_) if but is None else ~but[:, here]
        octaves = self._octaves[here]
        index, weight = surface.corners(octaves, points, measured[:, None] & there, right)
        is_sound = right[np.arange(len(cases))[:, None, None], index] | (weight == 0)
        apart = surface.distances(points, octaves)
        away = np.where(right[:, None] & there, apart, np.inf).min(axis=2)
        found = weight.any(axis=2) & is_sound.all(axis=2) & (away <= self.reach(setting) + SAME)
        beside = np.where(measured[:, None] & there, apart, np.inf).argmin(axis=2)
        is_beside = ~found & (away <= NEAR) & np.take_along_axis(right, beside, axis=1)
        index[is_beside] = beside[is_beside][:, None]
        weight[is_beside] = np.eye(weight.shape[2])[0]
        found, which = found | is_beside, which.ravel()
        return found[which], here[index][which], weight[which]

    def times(self, points: Floats, setting: Setting, but: Booleans | None = None) -> Floats:
        """Return each subject's time at points of a setting in ms; NaN if it is no candidate.

        but: mask of the inputs to leave out at each point.
        """
        able, _, _ = self._candidates(points, setting, but)
        return np.where(able, self.ms(points, setting), np.nan)

    @cached_property
    def held_out(self) -> Floats:
        """The `times` on each input, predicted from the others; shape (subjects, inputs)."""
        found = np.full(self._is_right.shape, np.nan)
        itself = np.eye(len(self.places), dtype=np.bool_)
        errors, reference = self.fit[1], self.subjects.index(self.reference)
        common = np.where(self._is_right[reference], errors[reference], 0.0)
        # A subject not timed on an input depends on that input through the reference's surface.
        errors = np.where(self._is_right, errors, common)
        for setting, inputs in self._in.items():
            times = self.times(self._octaves[inputs], setting, itself[inputs])
            found[:, inputs] = times / np.exp(errors[:, inputs])
        return found

    @cached_property
    def _tests(self) -> dict[Setting, tuple[Integers, Floats]]:
        """By setting, the inputs that test interpolation, and the distance of each to the nearest.

        The inputs in the convex hull of the others; if too few, all, which overstates errors.
        """
        found = {}
        for setting, inputs in self._in.items():
            numbers, points = np.flatnonzero(inputs), self._octaves[inputs]
            others = ~np.eye(len(points), dtype=np.bool_)
            _, weight = surface.corners(points, points, others[None], others[:1] | True)
            chosen = weight[0].any(axis=1)
            chosen |= chosen.sum() < FEWEST_TESTS
            apart = np.where(others, surface.distances(points, points), np.inf)[chosen].min(axis=1)
            found[setting] = numbers[chosen], np.where(np.isinf(apart), 0.0, apart)
        return found

    def reach(self, setting: Setting) -> float:
        """Return the maximum distance in octaves from a measurement at which advice is given."""
        apart = np.sort(self._tests[setting][1])
        # np.median would import numpy.ma, a quarter of the time of a NeighbourList's first call.
        return FURTHER * float(apart[(len(apart) - 1) // 2] + apart[len(apart) // 2]) / 2

    def _uncertainty(self, setting: Setting, point: Floats, *subjects: int) -> float:
        """Return the log error of interpolating one subject's time, or the ratio of two times.

        It is the largest error in the TESTS nearest tests, each scaled by sqrt(d / d_test): the
        distances of the point and of the test from a measurement. It is 0 on a measured input.
        """
        right = (self._octaves[self._is_right[s] & self._in[setting]] for s in subjects)
        distance = max(surface.distances(point, own).min(initial=np.inf) for own in right)
        if distance <= SAME:
            return 0.0
        numbers, apart = map(np.concatenate, zip(*self._tests.values(), strict=True))
        every = self.fit[1][:, numbers]
        errors, *others = every[list(subjects)]
        for other in others:  # common errors, such as those at the edge of a cache, cancel
            errors = errors - other
        if self._in[setting][numbers[np.isfinite(errors) & (apart > 0)]].sum() < FEWEST_TESTS:
            errors = len(subjects) * np.fmax.reduce(np.abs(every), axis=0)
        usable = np.isfinite(errors) & (apart > 0)
        if not usable.any():
            return math.inf
        away = surface.distances(self._coordinates(point, [setting]), self._at[numbers[usable]])[0]
        last = max(np.sort(away)[:TESTS][-1], SAME)
        share = np.clip(1 + FADE * (1 - away / last), 0, 1)
        off = share * np.abs(errors[usable]) * np.sqrt(distance / apart[usable])
        return float(off.max())

    def ranked(self, place: InputPoint) -> tuple[TimeEstimate | None, list[Margin], list[Barred]]:
        """Return the fastest candidate, margins of other candidates, and barred subjects.

        Intervals cover errors of interpolation and of the surrounding measurements.
        """
        setting, point = place.setting, matrix([place])
        is_able, index, weight = self._candidates(point, setting)
        ms = self.ms(point, setting)[:, 0]
        able: dict[int, TimeEstimate] = {}
        barred = []
        for number, subject in enumerate(self.subjects):
            weights = zip(index[number, 0], weight[number, 0], strict=True)
            around = {self.places[i]: float(share) for i, share in weights if share > 0}
            if not is_able[number, 0]:
                barred.append(self._why_barred(subject, place, around))
                continue
            off = self._uncertainty(setting, point, number)
            known = [(self.right[subject][p], share) for p, share in around.items()]
            able[number] = TimeEstimate.between(subject, float(ms[number]), off, known)
        if not able:
            return None, [], barred
        first, *others = sorted(able, key=lambda number: able[number].ms)
        best, margins = able[first], []
        for number in others:
            off = self._uncertainty(setting, point, first, number)
            width = off + best.measured + able[number].measured
            margins.append(Margin.of(best, able[number], width, off))
        return best, margins, barred

    def _why_barred(
        self, subject: Variant, place: InputPoint, around: Collection[InputPoint]
    ) -> Barred:
        """Return why a subject is barred: wrong, untimed or not measured near this input."""
        measured = self.table[subject]
        if not any(each.setting == place.setting for each in measured):
            return Barred(subject, NOT_MEASURED, f"not measured with {place.setting.words}")
        bad = [(why[0] != "wrong", p, *why) for p in around if (why := measured[p].why)]
        if not bad:
            return Barred(subject, NOT_MEASURED, "not measured around there")
        _, worst, status, reason = min(bad, key=lambda each: each[0])
        where = "" if worst == place else f"near there, at {worst.words}, "
        return Barred(subject, status, f"{where}{status}: {reason}")
