"""What measurements of one task say about inputs between those that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpubench.choose.evidence import Place, Setting, Subject, Table, matrix
from gpubench.choose.surface import (
    SAME,
    Booleans,
    Corners,
    Floats,
    Integers,
    Region,
    Surface,
    distances,
)
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
    corners: measured inputs that it lies between.
    workspace_bytes, peak_bytes: interpolated likewise, None where one of the corners has none.
    """

    subject: Subject
    ms: float
    low_ms: float
    high_ms: float
    measured: float
    workspace_bytes: int | None
    peak_bytes: int | None
    corners: Sequence[Place]


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

    Inside, inputs are their numbers in `places`, and sets of them are arrays of bool.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.subjects = sorted(table)
        self.places = sorted({place for measured in table.values() for place in measured})
        self.settings = sorted({place.setting for place in self.places})
        self._number = {place: number for number, place in enumerate(self.places)}
        self._octaves = matrix(self.places)
        self._apart = distances(self._octaves, self._octaves)
        self._in = {
            setting: np.array([place.setting == setting for place in self.places])
            for setting in self.settings
        }
        self._right = {
            subject: {p: m.record for p, m in measured.items() if may_rank(m.record)}
            for subject, measured in table.items()
        }
        self._is_measured = {subject: self._set(table[subject]) for subject in self.subjects}
        self._is_right = {subject: self._set(self._right[subject]) for subject in self.subjects}
        self.reference = max(self.subjects, key=lambda subject: len(self._right[subject]))
        self._regions: dict[bytes, tuple[Integers, Region]] = {}
        self._corners: dict[tuple[bytes, bytes], tuple[Integers, Corners]] = {}
        self._surfaces: dict[tuple[Subject, str], Surface | None] = {}

    def _set(self, places: Mapping[Place, object]) -> Booleans:
        found = np.zeros(len(self.places), np.bool_)
        found[[self._number[place] for place in places]] = True
        return found

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

    def right(self, subject: Subject) -> Mapping[Place, Ok]:
        """Return where a subject was measured and may be ranked."""
        return self._right[subject]

    def inputs(self, setting: Setting) -> list[Place]:
        """Return all inputs of a setting."""
        return [place for place in self.places if place.setting == setting]

    def contains(self, place: Place) -> bool:
        """Say whether an input lies between measured ones of its setting."""
        _, corners = self._corners_in(self._in[place.setting], matrix([place]))
        return bool(corners.inside[0])

    def prepare(self) -> None:
        """Make the regions and surfaces that answers on any input read, and forget all others."""
        self._regions.clear()
        for inputs in self._in.values():
            measured = [own & inputs for own in self._is_measured.values()]
            for own in (each for each in (inputs, *measured) if each.any()):
                self._corners_in(own, self._octaves[:1])
        for subject in self.subjects:
            for field in (MS, *SIZES):
                self._surface(subject, field)
        self._corners.clear()  # each for one point

    def gap(self, place: Place) -> float:
        """Return how far an input is from the nearest of its setting, in octaves."""
        inputs = self._octaves[self._in[place.setting]]
        return float(distances(matrix([place]), inputs).min())

    def _corners_in(self, inputs: Booleans, points: Floats) -> tuple[Integers, Corners]:
        """Return the numbers of some inputs, and which of them lie around each point."""
        key = inputs.tobytes()
        if key not in self._regions:
            numbers = np.flatnonzero(inputs)
            self._regions[key] = numbers, Region(self._octaves[numbers])
        numbers, region = self._regions[key]
        both = key, points.tobytes()  # most subjects were measured on the same inputs
        if both not in self._corners:
            self._corners[both] = numbers, region.corners(points)
        return self._corners[both]

    def _around(self, inputs: Booleans, point: Floats) -> Integers:
        """Return the numbers of the inputs that a point lies between."""
        numbers, corners = self._corners_in(inputs, point)
        found: Integers = numbers[corners.index[0][corners.weight[0] > 0]]
        return found

    def _surface(self, subject: Subject, field: str) -> Surface | None:
        key = subject, field
        if key not in self._surfaces:
            values = {
                self._number[place]: float(value)
                for place, record in self._right[subject].items()
                if (value := getattr(record, field)) is not None
            }
            numbers = sorted(values)
            made = np.array([values[number] for number in numbers])
            at = self._at[numbers]
            # A variant without memory of its own has 0 bytes.
            logs = np.log(made) - self._reference(subject, at) if field == MS else np.log1p(made)
            axes = self._octaves.shape[1]
            self._surfaces[key] = Surface(at, logs, axes) if numbers else None
        return self._surfaces[key]

    def _reference(self, subject: Subject, at: Floats) -> Floats:
        """Return the logarithm of what a subject's surface is relative to, at coordinates."""
        reference = None if subject == self.reference else self._surface(self.reference, MS)
        return np.zeros(len(at)) if reference is None else reference(at)

    def surface(self, subject: Subject, points: Floats, setting: Setting) -> Floats | None:
        """Return ms of a subject at points of a setting, wherever they are; None without any."""
        own = self._surface(subject, MS)
        if own is None:
            return None
        at = self._coordinates(points, [setting] * len(points))
        ms: Floats = np.exp(own(at) + self._reference(subject, at))
        return ms

    @cached_property
    def _errors(self) -> Mapping[Subject, Floats]:
        """The logarithm of time over what the surfaces without that input have there, by input.

        The error of a ratio to the reference and that of the reference add up, where it was right.
        NaN where there is none.
        """
        own = {}
        for subject in self.subjects:
            surface = self._surface(subject, MS)
            own[subject] = np.full(len(self.places), np.nan)
            if surface is not None:
                own[subject][self._is_right[subject]] = surface.errors
        common = np.where(self._is_right[self.reference], own[self.reference], 0.0)
        return {s: e if s == self.reference else e + common for s, e in own.items()}

    def held_out(self, subject: Subject, place: Place) -> float | None:
        """Return what a subject would be taken to need if nothing had been measured on an input.

        In ms; None where it would be no candidate. The rule is that of `times`.
        """
        number = self._number[place]
        others = self._is_measured[subject] & self._in[place.setting]
        others[number] = False
        point = self._octaves[number : number + 1]
        around = self._around(others, point) if others.any() else ()
        is_right = self._is_right[subject]
        if not len(around) or not is_right[around].all():
            return None
        if self._apart[number, others & is_right].min() > self.reach(place.setting) + SAME:
            return None
        if is_right[number]:
            ms, error = self._right[subject][place].median_ms, self._errors[subject][number]
        else:  # its own surface does not know the input, but the reference's does
            above = self.surface(subject, point, place.setting)
            known = self._is_right[self.reference][number]
            ms = math.nan if above is None else float(above[0])
            error = self._errors[self.reference][number] if known else 0.0
        found = ms / math.exp(error)
        return found if math.isfinite(found) else None

    @cached_property
    def _tests(self) -> Mapping[Setting, tuple[Integers, Floats]]:
        """Inputs on which interpolation is tested, by setting, and how far the nearest other was.

        They are inside the hull of the others, where there are enough; else they are all: outside
        of the hull errors are larger, not smaller.
        """
        found = {}
        for setting, inputs in self._in.items():
            numbers = np.flatnonzero(inputs)
            inside = [n for n in numbers if len(numbers) > 1 and self._is_interior(inputs, int(n))]
            chosen = np.array(inside if len(inside) >= FEWEST_TESTS else numbers)
            apart = self._apart[np.ix_(chosen, numbers)]
            nearest = np.where(apart == 0, np.inf, apart).min(axis=1)
            found[setting] = chosen, np.where(np.isinf(nearest), 0.0, nearest)
        return found

    def _is_interior(self, inputs: Booleans, number: int) -> bool:
        others = inputs.copy()
        others[number] = False
        return len(self._around(others, self._octaves[number : number + 1])) > 0

    def reach(self, setting: Setting) -> float:
        """Return how far from where it was measured anything is said of a subject, in octaves."""
        apart = np.sort(self._tests[setting][1])
        # Not np.median, which imports numpy.ma: a quarter of the first call of a NeighbourList.
        return FURTHER * float(apart[(len(apart) - 1) // 2] + apart[len(apart) // 2]) / 2

    def _distances(self, points: Floats, setting: Setting, subject: Subject) -> Floats:
        """Return how far each point is from where the subject was right nearest, in octaves."""
        right = self._octaves[self._is_right[subject] & self._in[setting]]
        nearest: Floats = distances(points, right).min(axis=1, initial=np.inf)
        return nearest

    def _uncertainty(self, setting: Setting, point: Floats, *subjects: Subject) -> float | None:
        """Return by what factor interpolation is off for a subject, or for the ratio of two.

        A logarithm: the largest error of the TESTS nearest inputs, each left out in turn. Gaps
        are then wider than those that an answer has to bridge. From the distance in a test to the
        one at hand it goes with the square root, as a Brownian motion does; on a measured input
        it is 0. Where the setting has fewer tests, those of other settings are taken too. None
        where it has fewer than FEWEST_TESTS.
        """
        distance = max(float(self._distances(point, setting, s)[0]) for s in subjects)
        if distance <= SAME:
            return 0.0
        tested = list(self._tests.values())
        numbers = np.concatenate([numbers for numbers, _ in tested])
        apart = np.concatenate([apart for _, apart in tested])
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

    def times(self, subject: Subject, points: Floats, setting: Setting) -> Floats:
        """Return ms at points of a setting, NaN where the subject is no candidate."""
        ms = np.full(len(points), np.nan)
        measured = self._is_measured[subject] & self._in[setting]
        if not measured.any() or not self._right[subject]:
            return ms
        numbers, corners = self._corners_in(measured, points)
        is_right = self._is_right[subject][numbers]
        sound = (is_right[corners.index] | (corners.weight == 0)).all(axis=1)
        near = self._distances(points, setting, subject) <= self.reach(setting) + SAME
        good = corners.inside & sound & near
        if good.any():
            ms[good] = self.surface(subject, points[good], setting)
        return ms

    def estimate(self, subject: Subject, place: Place) -> Estimate | Barred:
        """Return what a subject needs for an input, or why it is no candidate there.

        The interval spans the error of interpolation and the widest interval of the measurements
        that the input lies between, one added to the other.
        """
        point, setting = matrix([place]), place.setting
        measured = self._is_measured[subject] & self._in[setting]
        if not measured.any():
            return Barred(subject, "not measured", f"not measured with {setting.words}")
        around = [self.places[number] for number in self._around(measured, point)]
        if not around:
            return Barred(subject, "not measured", "not measured around there")
        whys = {p: unranked(self.table[subject][p].record) for p in around}
        if bad := [(why[0] != "wrong", p, *why) for p, why in whys.items() if why]:
            _, worst, status, reason = min(bad, key=lambda each: each[0])
            where = "" if worst == place else f"near there, at {worst.words}, "
            return Barred(subject, status, f"{where}{status}: {reason}")
        right = self._right[subject]
        exact = right.get(place)
        ms = exact.median_ms if exact else float(self.times(subject, point, setting)[0])
        off = self._uncertainty(setting, point, subject)
        if not math.isfinite(ms) or off is None:
            return Barred(subject, "not measured", "measured in too few places around there")
        width = max(_half_width(right[p]) for p in around)
        workspace, peak = (self._bytes(subject, field, place, around) for field in SIZES)
        factor = math.exp(off + width)
        return Estimate(subject, ms, ms / factor, ms * factor, width, workspace, peak, around)

    def _bytes(
        self, subject: Subject, field: str, place: Place, around: Sequence[Place]
    ) -> int | None:
        if any(getattr(self._right[subject][p], field) is None for p in around):
            return None
        surface = self._surface(subject, field)
        assert surface is not None  # it has values around
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
