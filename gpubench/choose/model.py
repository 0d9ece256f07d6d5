"""What measurements of one task say about inputs between those that were measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpubench.choose.evidence import Place, Setting, Subject, Table, matrix
from gpubench.choose.surface import SAME, Booleans, Floats, Integers, Surface, corners, distances
from gpubench.evidence.ranking import may_rank, timed, unranked
from gpubench.evidence.records import Ok

APART = 2.0  # octaves between two inputs that differ in distribution, in order, or the like
# The largest of so many errors is beyond the next one 19 times in 20.
TESTS = 19
FEWEST_TESTS = 3
# Half the diagonal of a grid's mesh is longer than its shorter side, along which the tests are,
# by up to this where no side is 2.8 times the other.
FURTHER = 1.5
MS, SIZES = "median_ms", ("workspace_bytes", "peak_bytes")  # fields of a record


@dataclass(frozen=True)
class Estimate:
    """What a subject needs for an input, by interpolation; by measurement where distance is 0.

    low_ms, high_ms: see `Model.estimate`. measured: intervals of the measurements around it, the
        widest, as a logarithm of a factor.
    workspace_bytes, peak_bytes: interpolated likewise, None where one of the corners has none.
    """

    subject: Subject
    ms: float
    low_ms: float
    high_ms: float
    measured: float
    workspace_bytes: int | None
    peak_bytes: int | None


@dataclass(frozen=True)
class Margin:
    """How many times as long `other` takes as `best`, with an interval."""

    best: Subject
    other: Subject
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

    subject: Subject
    status: str
    reason: str


class Model:
    """Times of the subjects of one task over all inputs that lie between measured ones.

    The logarithm of a subject's time is interpolated over the octaves of `Place`, each setting
    APART from every other: that of the reference, which was right on the most inputs, and of every
    other the ratio to it. So what was measured on fewer inputs follows the reference between them.
    Within a setting, a subject is a candidate inside the simplices whose corners all have a right
    answer of it.

    right: where each subject was measured and may be ranked. Inside, subjects and inputs are their
    numbers in `subjects` and `places`, and sets of them are arrays of bool.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.subjects = sorted(table)
        self.places = sorted({place for measured in table.values() for place in measured})
        self.settings = sorted({place.setting for place in self.places})
        self.right: dict[Subject, dict[Place, Ok]] = {
            subject: {p: m.record for p, m in measured.items() if may_rank(m.record)}
            for subject, measured in table.items()
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
        self._surfaces: dict[tuple[Subject, str], Surface | None] = {}

    @cached_property
    def _words(self) -> list[tuple[int, object]]:
        """Every value of every part of a setting that varies."""
        parts = list(zip(*self.settings, strict=True))
        return [
            (part, value)
            for part, values in enumerate(parts)
            if len(set(values)) > 1
            for value in dict.fromkeys(values)
        ]

    def _coordinates(self, points: Floats, settings: Sequence[Setting]) -> Floats:
        """Return octaves with a column for each value of a setting, for the distances."""
        differs = [[setting[part] == value for part, value in self._words] for setting in settings]
        columns = np.array(differs, np.float64).reshape(len(points), len(self._words))
        return np.hstack([points, columns * (APART / math.sqrt(2))])

    @cached_property
    def _at(self) -> Floats:
        return self._coordinates(self._octaves, [place.setting for place in self.places])

    def inputs(self, setting: Setting) -> list[Place]:
        """Return all inputs of a setting."""
        return [place for place in self.places if place.setting == setting]

    def contains(self, place: Place) -> bool:
        """Say whether an input lies between measured ones of its setting."""
        inputs = self._octaves[self._in[place.setting]]
        everything = np.ones((1, len(inputs)), np.bool_)
        _, weight = corners(inputs, matrix([place]), everything[None], everything)
        return bool(weight.any())

    def gap(self, place: Place) -> float:
        """Return how far an input is from the nearest of its setting, in octaves."""
        inputs = self._octaves[self._in[place.setting]]
        return float(distances(matrix([place]), inputs).min())

    def surface(self, subject: Subject, field: str = MS) -> Surface | None:
        """Return the logarithm of a field of a subject's records over coordinates, None without any.

        Of times it is the ratio to the reference, see `ms`.
        """
        key = subject, field
        if key not in self._surfaces:
            made = [getattr(self.right[subject].get(place), field, None) for place in self.places]
            known = np.array([value is not None for value in made])
            values, at = np.array([value for value in made if value is not None]), self._at[known]
            # A variant without memory of its own has 0 bytes.
            logs = np.log(values) - self._shared(subject, at) if field == MS else np.log1p(values)
            axes = self._octaves.shape[1]
            self._surfaces[key] = Surface(at, logs, axes) if known.any() else None
        return self._surfaces[key]

    def _shared(self, subject: Subject, at: Floats) -> Floats:
        """Return the logarithm of what a subject's surface is relative to, at coordinates."""
        reference = None if subject == self.reference else self.surface(self.reference)
        return np.zeros(len(at)) if reference is None else reference(at)

    def ms(self, subject: Subject, points: Floats, setting: Setting) -> Floats | None:
        """Return ms of a subject at points of a setting, wherever they are; None without any."""
        own = self.surface(subject)
        if own is None:
            return None
        at = self._coordinates(points, [setting] * len(points))
        found: Floats = np.exp(own(at) + self._shared(subject, at))
        return found

    @cached_property
    def _errors(self) -> dict[Subject, Floats]:
        """The logarithm of time over what the surfaces without that input have there, by input.

        The error of a ratio to the reference and that of the reference add up, where it was right.
        NaN where there is none.
        """
        found = {}
        for subject, is_right in zip(self.subjects, self._is_right, strict=True):
            found[subject] = np.full(len(self.places), np.nan)
            if (surface := self.surface(subject)) is not None:
                found[subject][is_right] = surface.errors
        common = self._where_right(found[self.reference])
        return {s: e if s == self.reference else e + common for s, e in found.items()}

    def _where_right(self, errors: Floats) -> Floats:
        """Return errors of the reference, 0 where it was not right."""
        return np.where(self._is_right[self.subjects.index(self.reference)], errors, 0.0)

    def _candidates(
        self, points: Floats, setting: Setting, but: Booleans | None = None
    ) -> tuple[Booleans, Integers, Floats]:
        """Return which subjects are candidates at points of a setting, and their corners there.

        but: inputs that are taken not to be there, for each point. Corners are numbers of inputs.
        """
        here = np.flatnonzero(self._in[setting])
        measured, right = self._is_measured[:, None, here], self._is_right[:, None, here]
        there = np.ones((1, len(here)), np.bool_) if but is None else ~but[:, here]
        index, weight = corners(self._octaves[here], points, measured & there, right[:, 0])
        each = np.arange(len(self.subjects))[:, None, None]
        is_sound = (self._is_right[each, here[index]] | (weight == 0)).all(axis=2)
        away = np.where(right & there, distances(points, self._octaves[here]), np.inf)
        is_near = away.min(axis=2) <= self.reach(setting) + SAME
        return weight.any(axis=2) & is_sound & is_near, here[index], weight

    def times(self, points: Floats, setting: Setting) -> Floats:
        """Return ms of each subject at points of a setting, NaN where it is no candidate."""
        is_candidate, _, _ = self._candidates(points, setting)
        ms = np.full(is_candidate.shape, np.nan)
        for number in np.flatnonzero(is_candidate.any(axis=1)):
            able = is_candidate[number]
            ms[number, able] = self.ms(self.subjects[number], points[able], setting)
        return ms

    @cached_property
    def held_out(self) -> Floats:
        """What each subject would be taken to need on each input if nothing were measured there.

        In ms, shape (subjects, inputs); NaN where it would be no candidate. The rule is that of
        `times`.
        """
        found = np.full(self._is_right.shape, np.nan)
        itself = np.eye(len(self.places), dtype=np.bool_)
        common = self._where_right(self._errors[self.reference])
        for setting, inputs in self._in.items():
            points = self._octaves[inputs]
            is_candidate, _, _ = self._candidates(points, setting, itself[inputs])
            for number in np.flatnonzero(is_candidate.any(axis=1)):
                subject = self.subjects[number]
                # Without an own time there, its surface does not know the input, but the
                # reference's does.
                errors = np.where(self._is_right[number], self._errors[subject], common)[inputs]
                ms = self.ms(subject, points, setting)
                if ms is not None:
                    kept = np.where(is_candidate[number], ms / np.exp(errors), np.nan)
                    found[number, inputs] = kept
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

    def _uncertainty(self, setting: Setting, point: Floats, *subjects: Subject) -> float | None:
        """Return by what factor interpolation is off for a subject, or for the ratio of two.

        A logarithm: the largest error of the TESTS nearest inputs, each left out in turn. Gaps
        are then wider than those that an answer has to bridge. From the distance in a test to the
        one at hand it goes with the square root, as a Brownian motion does; on a measured input
        it is 0. Where the setting has fewer tests, those of other settings are taken too. None
        where it has fewer than FEWEST_TESTS.
        """
        right = (self._is_right[self.subjects.index(s)] & self._in[setting] for s in subjects)
        distance = max(distances(point, self._octaves[r]).min(initial=np.inf) for r in right)
        if distance <= SAME:
            return 0.0
        numbers, apart = map(np.concatenate, zip(*self._tests.values(), strict=True))
        errors = self._errors[subjects[0]][numbers]
        if len(subjects) > 1:  # common errors, such as those at the edge of a cache, cancel
            errors = errors - self._errors[subjects[1]][numbers]
        usable = np.isfinite(errors) & (apart > 0)
        numbers, errors, apart = numbers[usable], errors[usable], apart[usable]
        if self._in[setting][numbers].sum() < FEWEST_TESTS:
            return None
        away = distances(self._coordinates(point, [setting]), self._at[numbers])[0]
        nearest = np.argsort(away.round(9), kind="stable")[:TESTS]  # equal ones in their order
        return float((np.abs(errors[nearest]) * np.sqrt(distance / apart[nearest])).max())

    def estimates(self, place: Place) -> list[Estimate | Barred]:
        """Return what each subject needs for an input, or why it is no candidate there.

        An interval spans the error of interpolation and the widest interval of the measurements
        that the input lies between, one added to the other.
        """
        point = matrix([place])
        is_candidate, index, weight = self._candidates(point, place.setting)
        found = []
        for number, subject in enumerate(self.subjects):
            around = [self.places[i] for i in index[number, 0][weight[number, 0] > 0]]
            able = bool(is_candidate[number, 0])
            found.append(self._estimate(subject, place, point, around, able))
        return found

    def _estimate(
        self, subject: Subject, place: Place, point: Floats, around: Sequence[Place], able: bool
    ) -> Estimate | Barred:
        setting = place.setting
        if not any(measured.setting == setting for measured in self.table[subject]):
            return Barred(subject, "not measured", f"not measured with {setting.words}")
        if not around:
            return Barred(subject, "not measured", "not measured around there")
        whys = {p: unranked(self.table[subject][p].record) for p in around}
        if bad := [(why[0] != "wrong", p, *why) for p, why in whys.items() if why]:
            _, worst, status, reason = min(bad, key=lambda each: each[0])
            where = "" if worst == place else f"near there, at {worst.words}, "
            return Barred(subject, status, f"{where}{status}: {reason}")
        off = self._uncertainty(setting, point, subject)
        ms = self.ms(subject, point, setting)
        if off is None or ms is None or not able:
            return Barred(subject, "not measured", "measured in too few places around there")
        right = self.right[subject]
        time = right[place].median_ms if place in right else float(ms[0])
        width = max(_half_width(right[p]) for p in around)
        workspace, peak = (self._bytes(subject, field, place, around) for field in SIZES)
        factor = math.exp(off + width)
        return Estimate(subject, time, time / factor, time * factor, width, workspace, peak)

    def _bytes(
        self, subject: Subject, field: str, place: Place, around: Sequence[Place]
    ) -> int | None:
        surface = self.surface(subject, field)
        if surface is None or any(getattr(self.right[subject][p], field) is None for p in around):
            return None
        at = self._coordinates(matrix([place]), [place.setting])
        return round(math.expm1(float(surface(at)[0])))

    def margin(self, best: Estimate, other: Estimate, place: Place, more: float = 0.0) -> Margin:
        """Return how many times as long the other takes.

        The interval adds the error of interpolation of their ratio and the intervals of both.
        more: what else widens it, as the logarithm of a factor.
        """
        ratio = other.ms / best.ms
        off = self._uncertainty(place.setting, matrix([place]), best.subject, other.subject)
        factor = math.inf if off is None else math.exp(off + best.measured + other.measured + more)
        return Margin(best.subject, other.subject, ratio, ratio / factor, ratio * factor)


def _half_width(record: Ok) -> float:
    """Return how far the interval of a time reaches, as the logarithm of a factor."""
    time = timed(record)
    return math.log(max(time.high / time.median, time.median / time.low))
