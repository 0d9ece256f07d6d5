"""What measurements of one task say about inputs between those that were measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpubench.choose.evidence import InputPoint, Setting, Table, matrix
from gpubench.choose.surface import (
    SAME,
    Booleans,
    Floats,
    Integers,
    basis,
    corners,
    distances,
    solution,
)
from gpubench.evidence.ranking import Variant

APART = 2.0  # octaves between two inputs that differ in distribution, in order, or the like
# The largest of so many errors is beyond the next one 19 times in 20.
TESTS = 19
FEWEST_TESTS = 3
# Tests farther than these fade out, up to (1 + 1 / FADE) times as far: where another becomes one of
# the nearest, the answer has no step.
FADE = 4
# Octaves from a measured input within which it alone says what is a candidate, whatever the other
# corners: 7 % more particles take no subject's right answer away.
NEAR = 0.1
# Half the diagonal of a grid's mesh is longer than its shorter side, along which the tests are,
# by up to this where no side is 2.8 times the other.
FURTHER = 1.5
MS, SIZES = "median_ms", ("workspace_bytes", "peak_bytes")  # fields of a record


@dataclass(frozen=True)
class TimeEstimate:
    """What a subject needs for an input, by interpolation.

    low_ms, high_ms: see `TimeModel.estimates`. measured: intervals of the measurements around it,
        each by its weight, as a logarithm of a factor.
    workspace_bytes, peak_bytes: interpolated likewise, None where one of the corners has none.
    """

    subject: Variant
    ms: float
    low_ms: float
    high_ms: float
    measured: float
    workspace_bytes: int | None
    peak_bytes: int | None


@dataclass(frozen=True)
class Margin:
    """How many times as long another takes as the best, with an interval."""

    other: TimeEstimate
    ratio: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether one of them is faster, as far as the interval tells."""
        return self.low > 1 or self.high < 1


@dataclass(frozen=True)
class Barred:
    """A subject that is no candidate, and why, in one line."""

    subject: Variant
    status: str
    reason: str


class TimeModel:
    """Times of the subjects of one task over all inputs that lie between measured ones.

    The logarithm of a subject's time is interpolated over the octaves of `InputPoint`, each setting
    APART from every other: that of the reference, which was right on the most inputs, and of every
    other the ratio to it. So what was measured on fewer inputs follows the reference between them.
    Within a setting, a subject is a candidate inside the simplices whose corners all have a right
    answer of it, and within NEAR of a measured input that has one.

    right: where each subject was measured and may be ranked. Inside, subjects and inputs are their
    numbers in `subjects` and `places`, and sets of them are arrays of bool.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.subjects = sorted(table)
        self.places = sorted({place for measured in table.values() for place in measured})
        self.settings = sorted({place.setting for place in self.places})
        self.right = {
            subject: {place: known for place, known in of.items() if known.why is None}
            for subject, of in table.items()
        }
        self.reference = max(self.subjects, key=lambda subject: len(self.right[subject]))
        self._octaves = matrix(self.places)
        self._in = {
            setting: np.array([place.setting == setting for place in self.places])
            for setting in self.settings
        }
        self._is_measured, self._is_right = (
            np.array([[place in of[subject] for place in self.places] for subject in self.subjects])
            for of in (table, self.right)
        )
        # Every value of every part of a setting that varies.
        self._words = [
            (part, value)
            for part, values in enumerate(zip(*self.settings, strict=True))
            if len(set(values)) > 1
            for value in dict.fromkeys(values)
        ]
        self._at = self._coordinates(self._octaves, [place.setting for place in self.places])
        self._basis = basis(self._at, self._at, self._octaves.shape[1])
        self._fits: dict[str, tuple[Floats, Floats]] = {}

    def _coordinates(self, points: Floats, settings: Sequence[Setting]) -> Floats:
        """Return octaves with a column for each value of a setting, for the distances."""
        differs = [[setting[part] == value for part, value in self._words] for setting in settings]
        columns = np.array(differs, np.float64).reshape(len(settings), len(self._words))
        columns = np.broadcast_to(columns, (len(points), len(self._words)))
        return np.hstack([points, columns * (APART / math.sqrt(2))])

    def _basis_at(self, points: Floats, setting: Setting) -> Floats:
        return basis(self._coordinates(points, [setting]), self._at, self._octaves.shape[1])

    def inputs(self, setting: Setting) -> list[InputPoint]:
        """Return all inputs of a setting."""
        return [place for place in self.places if place.setting == setting]

    def contains(self, place: InputPoint) -> bool:
        """Say whether an input lies between measured ones of its setting."""
        inputs = self._octaves[self._in[place.setting]]
        everything = np.ones((1, len(inputs)), np.bool_)
        _, weight = corners(inputs, matrix([place]), everything[None], everything)
        return bool(weight.any())

    def nearest(self, place: InputPoint) -> tuple[InputPoint, float]:
        """Return the measured input of its setting that is nearest, and how many octaves away."""
        inputs = np.flatnonzero(self._in[place.setting])
        away = distances(matrix([place]), self._octaves[inputs])[0]
        return self.places[inputs[away.argmin()]], float(away.min())

    def fit(self, field: str = MS) -> tuple[Floats, Floats]:
        """Return the coefficients of each subject's surface of a field, and its errors.

        The surface is of the logarithm, over `basis`. An error is that of the surface without the
        input; in a time, that of the ratio to the reference and of the reference add up, where it
        was right. NaN where there is none.
        """
        if field in self._fits:
            return self._fits[field]
        n, axes = self._octaves.shape
        made = [
            [getattr(self.right[subject].get(place), field, None) for place in self.places]
            for subject in self.subjects
        ]
        # A variant without memory of its own has 0 bytes.
        logs = (np.log if field == MS else np.log1p)(np.array(made, np.float64))
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
                solutions[key] = solution(self._at[own], axes)
            found = solutions[key] @ (logs[number, own] - self._basis[own] @ of_reference)
            columns = np.concatenate([np.flatnonzero(own), np.arange(n, n + 1 + axes)])
            coefficients[number] = of_reference
            coefficients[number, columns] += found
            diagonal = np.diag(solutions[key])
            alone = np.where(np.abs(diagonal) > 1e-12, diagonal, np.nan)
            errors[number, own] = found[: len(alone)] / alone + its_errors[own]
            if field == MS and self.subjects[number] == self.reference:
                of_reference, its_errors = coefficients[number], np.where(own, errors[number], 0)
        self._fits[field] = coefficients, errors
        return coefficients, errors

    def ms(self, points: Floats, setting: Setting) -> Floats:
        """Return ms of each subject at points of a setting, wherever they are; NaN without any."""
        return np.exp(self._basis_at(points, setting) @ self.fit()[0].T).T

    def _candidates(
        self, points: Floats, setting: Setting, but: Booleans | None = None
    ) -> tuple[Booleans, Integers, Floats]:
        """Return which subjects are candidates at points of a setting, and their corners there.

        but: inputs that are taken not to be there, for each point. Corners are numbers of inputs.
        """
        here = np.flatnonzero(self._in[setting])
        both = np.hstack([self._is_measured[:, here], self._is_right[:, here]])
        cases, which = np.unique(both, axis=0, return_inverse=True)  # most are alike
        measured, right = cases[:, : len(here)], cases[:, len(here) :]
        there = np.ones((1, len(here)), np.bool_) if but is None else ~but[:, here]
        octaves = self._octaves[here]
        index, weight = corners(octaves, points, measured[:, None] & there, right)
        is_sound = right[np.arange(len(cases))[:, None, None], index] | (weight == 0)
        apart = distances(points, octaves)
        away = np.where(right[:, None] & there, apart, np.inf).min(axis=2)
        found = weight.any(axis=2) & is_sound.all(axis=2) & (away <= self.reach(setting) + SAME)
        beside = np.where(measured[:, None] & there, apart, np.inf).argmin(axis=2)
        is_beside = ~found & (away <= NEAR) & np.take_along_axis(right, beside, axis=1)
        index[is_beside] = beside[is_beside][:, None]
        weight[is_beside] = np.eye(weight.shape[2])[0]
        found, which = found | is_beside, which.ravel()
        return found[which], here[index][which], weight[which]

    def times(self, points: Floats, setting: Setting) -> Floats:
        """Return ms of each subject at points of a setting, NaN where it is no candidate."""
        return np.where(self._candidates(points, setting)[0], self.ms(points, setting), np.nan)

    @cached_property
    def held_out(self) -> Floats:
        """What each subject would be taken to need on each input if nothing were measured there.

        In ms, shape (subjects, inputs); NaN where it would be no candidate. The rule is that of
        `times`.
        """
        found = np.full(self._is_right.shape, np.nan)
        itself = np.eye(len(self.places), dtype=np.bool_)
        errors, reference = self.fit()[1], self.subjects.index(self.reference)
        common = np.where(self._is_right[reference], errors[reference], 0.0)
        # Without an own time there, its surface does not know the input, but the reference's does.
        errors = np.where(self._is_right, errors, common)
        for setting, inputs in self._in.items():
            points = self._octaves[inputs]
            able, _, _ = self._candidates(points, setting, itself[inputs])
            ms = self.ms(points, setting) / np.exp(errors[:, inputs])
            found[:, inputs] = np.where(able, ms, np.nan)
        return found

    @cached_property
    def _tests(self) -> dict[Setting, tuple[Integers, Floats]]:
        """Inputs on which interpolation is tested, by setting, and how far the nearest other was.

        They are inside the hull of the others, where there are enough; else they are all: outside
        of the hull errors are larger, not smaller.
        """
        found = {}
        for setting, inputs in self._in.items():
            numbers, points = np.flatnonzero(inputs), self._octaves[inputs]
            others = ~np.eye(len(points), dtype=np.bool_)
            _, weight = corners(points, points, others[None], others[:1] | True)
            chosen = weight[0].any(axis=1)
            chosen |= chosen.sum() < FEWEST_TESTS
            apart = np.where(others, distances(points, points), np.inf)[chosen].min(axis=1)
            found[setting] = numbers[chosen], np.where(np.isinf(apart), 0.0, apart)
        return found

    def reach(self, setting: Setting) -> float:
        """Return how far from where it was measured anything is said of a subject, in octaves."""
        apart = np.sort(self._tests[setting][1])
        # Not np.median, which imports numpy.ma: a quarter of the first call of a NeighbourList.
        return FURTHER * float(apart[(len(apart) - 1) // 2] + apart[len(apart) // 2]) / 2

    def _uncertainty(self, setting: Setting, point: Floats, *subjects: int) -> float | None:
        """Return by what factor interpolation is off for a subject, or for the ratio of two.

        A logarithm: the largest error of the TESTS nearest inputs, each left out in turn. Gaps
        are then wider than those that an answer has to bridge. From the distance in a test to the
        one at hand it goes with the square root, as a Brownian motion does; on a measured input
        it is 0. Where the setting has fewer tests, those of other settings are taken too. Where it
        has fewer than FEWEST_TESTS it is None, but near a measurement the errors of all subjects
        stand for it.
        """
        right = (self._is_right[number] & self._in[setting] for number in subjects)
        distance = max(distances(point, self._octaves[r]).min(initial=np.inf) for r in right)
        if distance <= SAME:
            return 0.0
        numbers, apart = map(np.concatenate, zip(*self._tests.values(), strict=True))
        every = self.fit()[1][:, numbers]
        errors, *others = every[list(subjects)]
        for other in others:  # common errors, such as those at the edge of a cache, cancel
            errors = errors - other
        if self._in[setting][numbers[np.isfinite(errors) & (apart > 0)]].sum() < FEWEST_TESTS:
            if distance > NEAR:
                return None
            is_known = np.isfinite(every).any(axis=0)
            largest = np.abs(np.nan_to_num(every)).max(axis=0)
            errors = np.where(is_known, len(subjects) * largest, np.nan)
        usable = np.isfinite(errors) & (apart > 0)
        if not usable.any():
            return None
        away = distances(self._coordinates(point, [setting]), self._at[numbers[usable]])[0]
        last = max(np.sort(away)[:TESTS][-1], SAME)
        share = np.clip(1 + FADE * (1 - away / last), 0, 1)
        off = share * np.abs(errors[usable]) * np.sqrt(distance / apart[usable])
        return float(off.max())

    def estimates(self, place: InputPoint) -> list[TimeEstimate | Barred]:
        """Return what each subject needs for an input, or why it is no candidate there.

        An interval spans the error of interpolation and the intervals of the measurements that the
        input lies between, each by its weight, one added to the other.
        """
        point = matrix([place])
        able, index, weight = self._candidates(point, place.setting)
        ms = self.ms(point, place.setting)
        found: list[TimeEstimate | Barred] = []
        for number, subject in enumerate(self.subjects):
            weights = zip(index[number, 0], weight[number, 0], strict=True)
            around = {self.places[i]: float(share) for i, share in weights if share > 0}
            off = self._uncertainty(place.setting, point, number)
            if (why := self._why_barred(subject, place, around)) is not None:
                found.append(why)
            elif off is None or not able[number, 0]:
                too_few = "measured in too few places around there"
                found.append(Barred(subject, "not measured", too_few))
            else:
                right, time = self.right[subject], float(ms[number, 0])
                width = sum(share * right[p].half_width for p, share in around.items())
                factor = math.exp(off + width)
                sizes = (self._bytes(number, field, place, around) for field in SIZES)
                found.append(
                    TimeEstimate(subject, time, time / factor, time * factor, width, *sizes)
                )
        return found

    def _why_barred(
        self, subject: Variant, place: InputPoint, around: Collection[InputPoint]
    ) -> Barred | None:
        """Return why a subject is no candidate, where not all inputs around have a right answer."""
        measured = self.table[subject]
        if not any(each.setting == place.setting for each in measured):
            return Barred(subject, "not measured", f"not measured with {place.setting.words}")
        if not around:
            return Barred(subject, "not measured", "not measured around there")
        whys = {p: measured[p].why for p in around}
        bad = [(why[0] != "wrong", p, *why) for p, why in whys.items() if why]
        if not bad:
            return None
        _, worst, status, reason = min(bad, key=lambda each: each[0])
        where = "" if worst == place else f"near there, at {worst.words}, "
        return Barred(subject, status, f"{where}{status}: {reason}")

    def _bytes(
        self, number: int, field: str, place: InputPoint, around: Collection[InputPoint]
    ) -> int | None:
        right = self.right[self.subjects[number]]
        if any(getattr(right[p], field) is None for p in around):
            return None
        at = self._basis_at(matrix([place]), place.setting)[0]
        return round(math.expm1(float(at @ self.fit(field)[0][number])))

    def margin(self, best: TimeEstimate, other: TimeEstimate, place: InputPoint) -> Margin:
        """Return how many times as long the other takes.

        The interval adds the error of interpolation of their ratio and the intervals of both.
        """
        ratio = other.ms / best.ms
        both = (self.subjects.index(each.subject) for each in (best, other))
        off = self._uncertainty(place.setting, matrix([place]), *both)
        factor = math.inf if off is None else math.exp(off + best.measured + other.measured)
        return Margin(other, ratio, ratio / factor, ratio * factor)
