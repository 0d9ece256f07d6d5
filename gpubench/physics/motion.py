"""Functions shared by the step checks: lookup by id, sampled regions, walls, tolerances."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.threads import each, over
from gpubench.physics.arrays import Floats, Words
from gpubench.physics.box import Box

State = Mapping[str, NDArray[Any]]
Item = TypeVar("Item")

# Tolerance of a force, in force steps: each pair's force is rounded to a whole step, and the errors
# add up as a random walk. This exceeds ten standard deviations for a hundred neighbours.
FORCE_STEPS = 32
# Relative error of a float32 sum of velocities, and of displacements: a few roundings.
RELATIVE_ERROR = 2.0**-21
# Error of a position in box units: it is rounded to a unit, and may be reflected between two.
UNITS = 3.0
SAMPLE = 20_000  # approximate number of particles whose forces are computed in float64
CHUNK = 2**17  # particles compared at once, few enough to stay in a cache
MOST_CHUNKS = 32  # maximum number of chunks compared per step; more are sampled at random


def wrong_ids(ids: Words, rows: NDArray[np.intp]) -> str | None:
    """Return None if each id from 0 to n - 1 occurs once, else the first error.

    rows: as returned by `rows_of`.
    """
    particles = len(ids)

    def is_once(begin: int, end: int) -> bool:
        some = ids[begin:end]
        return bool((some < particles).all() and (rows[some] == np.arange(begin, end)).all())

    if all(over(particles, is_once)):
        return None
    unknown = ids[ids >= particles]
    if len(unknown):
        return f"there is a particle {unknown[0]}, and ids go up to {particles - 1}"
    times = np.bincount(ids, minlength=particles)
    wrong = np.flatnonzero(times != 1)
    return f"particle {wrong[0]} is there {times[wrong[0]]} times, and should be there once"


def rows_of(ids: Words) -> NDArray[np.intp]:
    """Return the row of each id; 0 for a missing one, which `wrong_ids` reports."""
    rows = np.zeros(len(ids), np.intp)

    def part(begin: int, end: int) -> None:
        rows[np.minimum(ids[begin:end], len(ids) - 1)] = np.arange(begin, end)

    over(len(ids), part)
    return rows


@dataclass(frozen=True)
class Between:
    """The states before and after a step; particles are matched by id."""

    before: State
    after: State

    @cached_property
    def was_at(self) -> NDArray[np.intp]:
        """The row of each id before the step."""
        return rows_of(self.before["places"][:, 3])

    @cached_property
    def is_at(self) -> NDArray[np.intp]:
        """The row of each id after the step."""
        return rows_of(self.after["places"][:, 3])

    def wrong_ids(self) -> str | None:
        """Return None where both states have each id once, else the first error."""
        return wrong_ids(self.before["places"][:, 3], self.was_at) or wrong_ids(
            self.after["places"][:, 3], self.is_at
        )


def in_chunks(particles: int) -> Iterator[slice]:
    """Yield slices that cover all rows, CHUNK at a time."""
    return (slice(begin, begin + CHUNK) for begin in range(0, particles, CHUNK))


def some_chunks(particles: int, rng: np.random.Generator) -> list[slice]:
    """Return all chunks, or a random sample if there are many, to bound the time of a check."""
    chunks = list(in_chunks(particles))
    if len(chunks) <= MOST_CHUNKS:
        return chunks
    return [chunks[i] for i in rng.choice(len(chunks), MOST_CHUNKS, replace=False)]


def first_problem(parts: Sequence[Item], look: Callable[[Item], str | None]) -> str | None:
    """Check parts in threads; return the first problem in their order, or None."""
    return next((problem for problem in each(parts, look) if problem), None)


def region(
    places: Words, box: Box, volume: float, reach: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the rows in and around a cube about a random particle, and a mask of those inside.

    The rows include all particles within `reach` of those inside. volume: the volume of all
    particles; if they were evenly spread over it, SAMPLE of them would be in the cube. All
    particles are inside where there are no more than SAMPLE.
    """
    rows, away, half_edge, _ = _cube(places, box, volume, reach, rng)
    return rows, np.all(np.abs(away) <= half_edge, axis=1)


def octants(
    places: Words, box: Box, volume: float, reach: float, rng: np.random.Generator
) -> list[tuple[NDArray[np.intp], NDArray[np.bool_]]]:
    """Return the cube of `region` in eight parts, each with its surroundings, to check in parallel.

    Each particle inside the cube is inside exactly one part.
    """
    rows, away, half_edge, margin = _cube(places, box, volume, reach, rng)
    inside = (np.abs(away) <= half_edge).all(axis=1)
    parts = []
    for is_upper in itertools.product((False, True), repeat=3):
        mine = inside & ((away >= 0) == is_upper).all(axis=1)
        outward = np.where(is_upper, away, -away)
        # A large cube reaches its own far side through the faces of a periodic box.
        near = (outward >= -margin) | (outward + 2**32 <= half_edge + margin)
        if mine.any():
            chosen = near.all(axis=1)
            parts.append((rows[chosen], mine[chosen]))
    return parts


def _cube(
    places: Words, box: Box, volume: float, reach: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.int64], Floats, Floats]:
    """Return rows in and around a cube, their offsets from its centre, half its edge, the margin.

    All but the rows are in box units; offsets are to the nearest image along periodic axes, as in
    the kernels.
    """
    units = np.asarray(box.units) / box.size
    half_edge = (SAMPLE / len(places) * volume) ** (1 / 3) / 2 * units
    if len(places) <= SAMPLE:  # a long box may exceed that cube
        half_edge = np.full(3, 2.0**31)
    margin = reach * units + UNITS
    middle = places[rng.integers(len(places)), :3]

    def part(begin: int, end: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        away = (places[begin:end, :3] - middle).view(np.int32).astype(np.int64)
        near = np.flatnonzero((np.abs(away) <= half_edge + margin).all(axis=1))
        return begin + near, away[near]

    rows, away = zip(*over(len(places), part), strict=True)
    return np.concatenate(rows), np.concatenate(away), half_edge, margin


def reflected(
    place: Floats, error: Floats, velocity: Floats, found: Floats, box: Box, axis: int
) -> tuple[Floats, Floats]:
    """Return positions reflected into the box, in units, and -1 where a velocity reverses, else 1.

    Within the position error of a wall, both outcomes are valid, and the velocity found decides
    which is returned.
    """
    units = box.units[axis]
    if box.periodic[axis]:
        return place % units, np.ones_like(place)
    inside = np.where(place < 0, -place, np.where(place > units, 2 * units - place, place))
    turn = np.where(inside == place, 1.0, -1.0)
    near = np.minimum(np.abs(place), np.abs(units - place)) <= error
    return inside, np.where(near, np.copysign(1.0, found * velocity), turn)


def worst_of(difference: Floats, tolerance: float | Floats) -> tuple[Any, ...] | None:
    """Return where a difference most exceeds its tolerance, or None where it never does.

    NaN exceeds any tolerance.
    """
    excess = np.abs(difference) - tolerance
    if (excess <= 0).all():
        return None
    return np.unravel_index(np.argmax(np.nan_to_num(excess, nan=np.inf)), excess.shape)
