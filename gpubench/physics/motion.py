"""What the checks of a step share: which particle is where, a sample of them, walls, tolerances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.threads import each
from gpubench.physics.box import Box

State = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
Words = NDArray[np.uint32]

# A pair's force is rounded to a whole number of force steps. Such errors add up as a random walk
# does: this many steps are more than ten standard deviations for a hundred neighbours.
FORCE_STEPS = 32
# Of a sum of velocities in float32, and of what moves a particle: a few roundings.
RELATIVE_ERROR = 2.0**-21
# Of a place in units of the box: rounded to one, and reflected between two.
UNITS = 3.0
SAMPLE = 20_000  # particles, or so, whose forces are computed in float64
CHUNK = 2**17  # particles whose motion is compared at once, so that it stays in a cache
MOST_CHUNKS = 32  # of those, drawn anew for each step


def wrong_ids(ids: Words) -> str | None:
    """Return None where each of the ids below their number is there once, else what is wrong."""
    particles = len(ids)
    unknown = ids[ids >= particles]
    if len(unknown):
        return f"there is a particle {unknown[0]}, and ids go up to {particles - 1}"
    times = np.bincount(ids, minlength=particles)
    wrong = np.flatnonzero(times != 1)
    if len(wrong):
        return f"particle {wrong[0]} is there {times[wrong[0]]} times, and should be there once"
    return None


def rows_of(ids: Words) -> NDArray[np.intp]:
    """Return in which row each id is; 0 for one that is nowhere, which `wrong_ids` will tell."""
    rows = np.zeros(len(ids), np.intp)
    np.put(rows, ids, np.arange(len(ids)), mode="clip")
    return rows


def in_chunks(particles: int) -> Iterator[slice]:
    """Yield the rows of all particles, CHUNK at a time."""
    return (slice(begin, begin + CHUNK) for begin in range(0, particles, CHUNK))


def some_chunks(particles: int, rng: np.random.Generator) -> list[slice]:
    """Return the chunks of all particles, or some drawn of many, so that a check takes its time."""
    chunks = list(in_chunks(particles))
    if len(chunks) <= MOST_CHUNKS:
        return chunks
    return [chunks[i] for i in rng.choice(len(chunks), MOST_CHUNKS, replace=False)]


def first_problem(chunks: Sequence[slice], look: Callable[[slice], str | None]) -> str | None:
    """Look at chunks in threads; return the first problem in their order, or None."""
    return next((problem for problem in each(chunks, look) if problem), None)


def region(
    places: Words, box: Box, volume: float, reach: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the particles in a cube about one of them and around it, and which are inside.

    Around it are all within `reach` of those inside. volume: that of all particles together; the
    cube would hold SAMPLE of them if they were spread evenly over it.
    """
    half_edge = (SAMPLE / len(places) * volume) ** (1 / 3) / 2
    middle = places[rng.integers(len(places))]
    near = np.ones(len(places), bool)
    inside = np.ones(len(places), bool)
    for axis in range(3):
        units = box.units[axis] / box.size[axis]
        # To the nearest image where the box repeats, as the kernels have it.
        away = np.abs((places[:, axis] - middle[axis]).view(np.int32).astype(np.int64))
        near &= away <= (half_edge + reach) * units + UNITS
        inside &= away <= half_edge * units
    rows = np.flatnonzero(near)
    return rows, inside[rows]


def reflected(
    place: Floats, error: Floats, velocity: Floats, found: Floats, box: Box, axis: int
) -> tuple[Floats, Floats]:
    """Return places brought inside the box, in units, and -1 where a wall turns a velocity round.

    Nearer to a wall than the error of its place, a particle may have turned or not: there the
    velocity that was found says it.
    """
    units = box.units[axis]
    if box.periodic[axis]:
        return place % units, np.ones_like(place)
    inside = np.where(place < 0, -place, np.where(place > units, 2 * units - place, place))
    turn = np.where(inside == place, 1.0, -1.0)
    near = np.minimum(np.abs(place), np.abs(units - place)) <= error
    return inside, np.where(near, np.copysign(1.0, found * velocity), turn)


def worst_of(difference: Floats, tolerance: float | Floats) -> tuple[Any, ...] | None:
    """Return where a difference is furthest above its tolerance, or None where it never is.

    What is not a number is above any tolerance.
    """
    excess = np.abs(difference) - tolerance
    if (excess <= 0).all():
        return None
    return np.unravel_index(np.argmax(np.nan_to_num(excess, nan=np.inf)), excess.shape)
