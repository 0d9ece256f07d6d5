"""What measurements of one task say about inputs between those that were measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist

from gpubench.choose.evidence import Measurement, Place, Setting, Subject, Table, matrix
from gpubench.choose.surface import SAME, Floats, Region, Surface

APART = 2.0  # octaves between two inputs that differ in distribution, in order, or the like
# The largest of so many errors is beyond the next one 19 times in 20.
TESTS = 19
FEWEST_TESTS = 3
# Half the diagonal of a grid's mesh is longer than its shorter side, along which the tests are,
# by up to this where no side is 2.8 times the other.
FURTHER = 1.5


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
    """A subject that is no candidate, and why. in_words: for people, one line."""

    subject: Subject
    status: str
    reason: str


class Model:
    """Times of the subjects of one task over all inputs that lie between measured ones.

    The logarithm of a subject's time is interpolated over the octaves of `Place`, each setting
    APART from every other: that of the reference, which was right on the most inputs, and of every
    other the ratio to it. So whoever was measured on fewer inputs follows what the reference does
    between them. Within a setting, a subject is a candidate inside the simplices whose corners all
    have a right answer of it.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.subjects = sorted(table)
        self.places = sorted({place for measured in table.values() for place in measured})
        self.settings = sorted({place.setting for place in self.places})
        self.reference = max(self.subjects, key=lambda subject: len(self.right(subject)))
        self._regions: dict[frozenset[Place], tuple[list[Place], Region]] = {}

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

    def coordinates(self, points: Floats, settings: Sequence[Setting]) -> Floats:
        """Return octaves with a column for each value of a setting, for the distances."""
        differs = [[setting[part] == value for part, value in self._words] for setting in settings]
        columns = np.array(differs, np.float64).reshape(len(points), len(self._words))
        return np.hstack([points, columns * (APART / math.sqrt(2))])

    def right(self, subject: Subject) -> dict[Place, Measurement]:
        """Return where a subject was measured and right."""
        return {place: m for place, m in self.table[subject].items() if m.is_right}

    def inputs(self, setting: Setting) -> list[Place]:
        """Return all inputs of a setting."""
        return [place for place in self.places if place.setting == setting]

    def region(self, places: Collection[Place]) -> tuple[list[Place], Region]:
        """Return the hull of some inputs of one setting, with the inputs in its order."""
        key = frozenset(places)
        if key not in self._regions:
            ordered = sorted(key)
            self._regions[key] = ordered, Region(matrix(ordered))
        return self._regions[key]

    def surface(self, subject: Subject, points: Floats, setting: Setting) -> Floats | None:
        """Return ms of a subject at points of a setting, wherever they are; None without any."""
        own = self._surface(subject, "ms")
        if own is None:
            return None
        at = self.coordinates(points, [setting] * len(points))
        ms: Floats = np.exp(own[1](at) + self._reference(subject, at))
        return ms

    def _reference(self, subject: Subject, at: Floats) -> Floats:
        """Return the logarithm of what a subject's surface is relative to, at coordinates."""
        reference = None if subject == self.reference else self._surface(self.reference, "ms")
        return np.zeros(len(at)) if reference is None else reference[1](at)

    def held_out(self, subject: Subject, place: Place) -> float | None:
        """Return what a subject would be taken to need if nothing had been measured on an input.

        In ms; None where it would be no candidate. The rule is that of `times`.
        """
        setting = place.setting
        measured = [p for p in self.table[subject] if p.setting == setting and p != place]
        if not measured:
            return None
        point = matrix([place])
        places, region = self.region(measured)
        corners = region.corners(point)
        around = [places[i] for i in corners.index[0][corners.weight[0] > 0]]
        if not around or not all(self.table[subject][p].is_right for p in around):
            return None
        right = [p for p in measured if self.table[subject][p].is_right]
        if cdist(point, matrix(right)).min() > self.reach(setting) + SAME:
            return None
        found = self.table[subject].get(place)
        if found is not None and found.is_right:
            error = self.errors[subject].get(place)
            return None if error is None else found.ms / math.exp(error)
        # Its own surface does not know the input, but the reference's does.
        ms = self.surface(subject, point, setting)
        known = place in self.right(self.reference)
        error = self.errors[self.reference].get(place) if known else 0.0
        return None if ms is None or error is None else float(ms[0]) / math.exp(error)

    def _surface(self, subject: Subject, field: str) -> tuple[list[Place], Surface] | None:
        key = (subject, field)
        if key not in self._surfaces:
            known = {
                place: float(value)
                for place, m in self.right(subject).items()
                if (value := getattr(m, field)) is not None
            }
            self._surfaces[key] = None
            if known:
                places, octaves = list(known), matrix(list(known))
                values = np.array(list(known.values()))
                points = self.coordinates(octaves, [place.setting for place in places])
                if field == "ms":
                    logarithms = np.log(values) - self._reference(subject, points)
                else:  # a form without memory of its own has 0 bytes
                    logarithms = np.log1p(values)
                self._surfaces[key] = places, Surface(points, logarithms, octaves.shape[1])
        return self._surfaces[key]

    @cached_property
    def _surfaces(self) -> dict[tuple[Subject, str], tuple[list[Place], Surface] | None]:
        return {}

    @cached_property
    def _interior(self) -> Mapping[Place, float]:
        """Inputs inside the hull of the others of their setting, and how far the nearest is."""
        found: dict[Place, float] = {}
        for setting in self.settings:
            places = self.inputs(setting)
            for place in places:
                others = [other for other in places if other != place]
                if not others:
                    continue
                _, region = self.region(others)
                if region.corners(matrix([place])).inside[0]:
                    found[place] = float(cdist(matrix([place]), matrix(others)).min())
        return found

    @cached_property
    def errors(self) -> Mapping[Subject, Mapping[Place, float]]:
        """The logarithm of time over what the surfaces without that input have there.

        The error of a ratio to the reference and that of the reference add up, where it has one.
        """
        found = {subject: self._own_errors(subject) for subject in self.subjects}
        known, reference = self.right(self.reference), found[self.reference]
        return {
            subject: own
            if subject == self.reference
            else {
                place: error + reference.get(place, 0.0)
                for place, error in own.items()
                if place in reference or place not in known
            }
            for subject, own in found.items()
        }

    def _own_errors(self, subject: Subject) -> dict[Place, float]:
        surface = self._surface(subject, "ms")
        if surface is None:
            return {}
        errors = zip(surface[0], surface[1].errors, strict=True)
        return {place: float(error) for place, error in errors if math.isfinite(error)}

    @cached_property
    def _tests(self) -> Mapping[Setting, Mapping[Place, float]]:
        """Inputs on which interpolation is tested, by setting, and how far the nearest other was.

        They are inside the hull of the others, where there are enough; else they are all: outside
        of the hull errors are larger, not smaller.
        """
        found = {}
        for setting in self.settings:
            places = self.inputs(setting)
            if len(places) == 1:
                found[setting] = dict.fromkeys(places, 0.0)
                continue
            inside = [place for place in places if place in self._interior]
            chosen = inside if len(inside) >= FEWEST_TESTS else places
            apart = cdist(matrix(chosen), matrix(places))
            apart[apart == 0] = np.inf
            found[setting] = dict(zip(chosen, apart.min(axis=1).tolist(), strict=True))
        return found

    def reach(self, setting: Setting) -> float:
        """Return how far from where it was measured anything is said of a subject, in octaves."""
        return FURTHER * float(np.median(list(self._tests[setting].values())))

    def distances(self, points: Floats, setting: Setting, subject: Subject) -> Floats:
        """Return how far each point is from where the subject was right nearest, in octaves."""
        right = [place for place in self.right(subject) if place.setting == setting]
        if not right:
            return np.full(len(points), np.inf)
        nearest: Floats = cdist(points, matrix(right)).min(axis=1)
        return nearest

    def uncertainty(self, setting: Setting, point: Floats, *subjects: Subject) -> float | None:
        """Return by what factor interpolation is off for a subject, or for the ratio of two.

        A logarithm: the largest error of the TESTS nearest inputs, each left out in turn. Gaps
        are then wider than those that an answer has to bridge. From the distance in a test to the
        one at hand it goes with the square root, as a Brownian motion does; on a measured input
        it is 0. Where the setting has fewer tests, those of other settings are taken too. None
        where it has fewer than FEWEST_TESTS.
        """
        distance = max(float(self.distances(point[None], setting, s)[0]) for s in subjects)
        if distance <= SAME:
            return 0.0
        errors = [self.errors[subject] for subject in subjects]
        tests = [
            (place, apart)
            for tested in self._tests.values()
            for place, apart in tested.items()
            if apart > 0 and all(place in known for known in errors)
        ]
        if sum(place.setting == setting for place, _ in tests) < FEWEST_TESTS:
            return None
        places = [place for place, _ in tests]
        at = self.coordinates(matrix(places), [place.setting for place in places])
        here = self.coordinates(point[None], [setting])
        signs = (1, -1)[: len(subjects)]
        return max(
            abs(sum(s * known[tests[i][0]] for s, known in zip(signs, errors, strict=True)))
            * math.sqrt(distance / tests[i][1])
            for i in np.argsort(cdist(here, at)[0], kind="stable")[:TESTS]
        )

    def times(self, subject: Subject, points: Floats, setting: Setting) -> Floats:
        """Return ms at points of a setting, NaN where the subject is no candidate."""
        ms = np.full(len(points), np.nan)
        measured = [place for place in self.table[subject] if place.setting == setting]
        if not measured or not self.right(subject):
            return ms
        places, region = self.region(measured)
        corners = region.corners(points)
        right = np.array([self.table[subject][place].is_right for place in places])
        sound = (right[corners.index] | (corners.weight == 0)).all(axis=1)
        near = self.distances(points, setting, subject) <= self.reach(setting) + SAME
        good = corners.inside & sound & near
        if good.any():
            ms[good] = self.surface(subject, points[good], setting)
        return ms

    def estimate(self, subject: Subject, place: Place) -> Estimate | Barred:
        """Return what a subject needs for an input, or why it is no candidate there.

        The interval spans the error of interpolation and the widest interval of the measurements
        that the input lies between, one added to the other.
        """
        point = matrix([place])
        setting = place.setting
        measured = {p: m for p, m in self.table[subject].items() if p.setting == setting}
        if not measured:
            return Barred(subject, "not measured", f"not measured with {setting.words}")
        places, region = self.region(measured)
        corners = region.corners(point)
        if not corners.inside[0]:
            return Barred(subject, "not measured", "not measured around there")
        around = [places[i] for i in corners.index[0][corners.weight[0] > 0]]
        if bad := [p for p in around if not measured[p].is_right]:
            worst = min(bad, key=lambda p: measured[p].status != "wrong")
            found = measured[worst]
            where = "" if worst == place else f"near there, at {self.words(worst)}, "
            return Barred(subject, found.status, f"{where}{found.status}: {found.reason}")
        ms = (
            measured[place].ms
            if place in measured
            else float(self.times(subject, point, setting)[0])
        )
        off = self.uncertainty(setting, point[0], subject)
        if not math.isfinite(ms) or off is None:
            return Barred(subject, "not measured", "measured in too few places around there")
        width = max(_half_width(measured[p]) for p in around)
        sizes: dict[str, int | None] = {}
        for field in ("workspace_bytes", "peak_bytes"):
            sizes[field] = None
            surface = self._surface(subject, field)
            if surface and all(getattr(measured[p], field) is not None for p in around):
                sizes[field] = round(
                    math.expm1(float(surface[1](self.coordinates(point, [setting]))[0]))
                )
        factor = math.exp(off + width)
        return Estimate(subject, ms, ms / factor, ms * factor, width, **sizes, corners=around)

    def margin(self, best: Estimate, other: Estimate, place: Place, more: float = 0.0) -> Margin:
        """Return how many times as long the other takes.

        The interval adds the error of interpolation of their ratio and the intervals of both.
        more: what else widens it, as the logarithm of a factor.
        """
        ratio = other.ms / best.ms
        off = self.uncertainty(
            place.setting, matrix([place])[0], best.subject, other.subject
        )  # common errors, such as those at the edge of a cache, cancel
        factor = math.inf if off is None else math.exp(off + best.measured + other.measured + more)
        return Margin(best.subject, other.subject, ratio, ratio / factor, ratio * factor)

    @staticmethod
    def words(place: Place) -> str:
        """Say which input it is, without its setting."""
        moved = "" if place.moved is None else f", {100 * place.moved:.3g} % moved"
        return f"{place.particles:,} particles, {place.per_cell:g} per cell{moved}"


def _half_width(measured: Measurement) -> float:
    """Return how far the interval of a measurement reaches, as the logarithm of a factor."""
    if measured.low <= 0:
        return math.inf
    return math.log(max(measured.high / measured.ms, measured.ms / measured.low))
