"""Whether a step of dissipative particle dynamics is right: ids, forces, velocities, places.

A state is as the DPD workloads have it, in whatever order a device keeps its particles: step, an
int; places, uint32 (particles, 4), units of the box and id; velocities, float32 (particles, 4), at
half steps, with the bits of the species; drags, likewise, where the drag has a velocity of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.physics.box import Box
from gpubench.physics.fluid import INTEGRATORS, Fluid
from gpubench.physics.forces import pair_forces

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


def check_dpd_step(
    before: State,
    after: State,
    force: NDArray[np.float32],
    box: Box,
    fluid: Fluid,
    integrator: str,
    time_step: float,
    seed: int,
    generator: str,
) -> str | None:
    """Return None where one step leads from `before` to `after`, else what is wrong with it.

    force: float32 (particles, 4), those of the step, in the order of `after`.
    generator: of the noise of pairs, see gpubench.physics.noise.
    Single forces are compared in a region of SAMPLE particles or so. A force that only one side
    of a pair felt shows wherever it is: the sum over all particles is 0 to the bit.
    """
    step = int(before["step"])
    compared = _Step(before, after, force, box, fluid, INTEGRATORS[integrator] - 0.5, time_step)
    problem = (
        _wrong_ids(before["places"][:, 3])
        or _wrong_ids(after["places"][:, 3])
        or compared.wrong_force(step, seed, generator)
        or compared.wrong_sum()
        or compared.wrong_motion()
    )
    return f"step {step}: {problem}" if problem else None


def _wrong_ids(ids: Words) -> str | None:
    particles = len(ids)
    unknown = ids[ids >= particles]
    if len(unknown):
        return f"there is a particle {unknown[0]}, and ids go up to {particles - 1}"
    times = np.bincount(ids, minlength=particles)
    wrong = np.flatnonzero(times != 1)
    if len(wrong):
        return f"particle {wrong[0]} is there {times[wrong[0]]} times, and should be there once"
    return None


@dataclass(frozen=True)
class _Step:
    """What is held against the right step; the arguments are those of `check_dpd_step`.

    ahead: share of the change of velocity that the drag's velocity has beyond the new one.
    """

    before: State
    after: State
    force: NDArray[np.float32]
    box: Box
    fluid: Fluid
    ahead: float
    time_step: float

    def wrong_force(self, step: int, seed: int, generator: str) -> str | None:
        """Compare the forces on the particles in a region with float64."""
        places = self.before["places"]
        rng = np.random.default_rng((seed, step))
        near, inside = _region(places, self.box, self.fluid.cutoff, rng)
        ids = places[near, 3]
        velocities = self.before["velocities"][near]
        drags = self.before["drags"][near] if "drags" in self.before else velocities
        expected = pair_forces(
            self.box.to_positions(places[near]), drags[:, :3].astype(np.float64), ids,
            velocities[:, 3].view(np.int32), self.box, self.fluid, self.time_step, step, seed,
            generator=generator,
        )[inside]  # fmt: skip
        felt = self.force[_rows(self.after["places"][:, 3])[ids[inside]], :3].astype(np.float64)
        tolerance = FORCE_STEPS * self.fluid.force_step(self.time_step)
        if (worst := _worst(felt - expected, tolerance)) is None:
            return None
        return (
            f"the force on particle {ids[inside][worst[0]]} along {'xyz'[worst[1]]} is"
            f" {felt[worst]:.7g}, and should be {expected[worst]:.7g}"
        )

    def wrong_sum(self) -> str | None:
        """Add up the forces on all particles, in whole force steps."""
        force_step = self.fluid.force_step(self.time_step)
        chunks = (np.rint(self.force[rows, :3] / force_step) for rows in _chunks(len(self.force)))
        total = sum(chunk.sum(axis=0, dtype=np.float64) for chunk in chunks) * force_step
        off = np.flatnonzero(total)
        if not len(off):
            return None
        return (
            f"the forces on all particles add up to {total[off[0]]:.7g} along {'xyz'[off[0]]}, and"
            " should add up to 0: one side of a pair does not feel the other"
        )

    def wrong_motion(self) -> str | None:
        """Compare places and velocities with the leap that the forces of the device ask for."""
        ids = self.after["places"][:, 3]
        was_in = _rows(self.before["places"][:, 3])[ids]
        for rows in _chunks(len(ids)):
            start = self.before["velocities"][was_in[rows]]
            places = self.before["places"][was_in[rows]]
            inverse_mass = 1 / np.asarray(self.fluid.mass)[start[:, 3].view(np.int32)]
            for axis in range(3):
                problem = self._wrong_along(
                    axis, rows, places[:, axis], start[:, axis].astype(np.float64), inverse_mass
                )
                if problem:
                    return problem
        return None

    def _wrong_along(
        self, axis: int, rows: slice, place: Words, start: Floats, inverse_mass: Floats
    ) -> str | None:
        """Compare some particles along an axis; place and start: their places and velocities."""
        box, time_step = self.box, self.time_step
        units = box.units[axis] / box.size[axis]
        pushed = time_step * self.force[rows, axis] * inverse_mass
        pulled = time_step * self.fluid.gravity[axis]
        velocity = start + pushed + pulled
        error = RELATIVE_ERROR * (np.abs(start) + np.abs(pushed) + abs(pulled))
        place_error = UNITS + error * time_step * units
        found = self.after["velocities"][rows, axis].astype(np.float64)
        wanted, turn = _reflected(
            place + velocity * time_step * units, place_error, velocity, found, box, axis
        )
        reached = self.after["places"][rows, axis]
        away = reached - wanted
        if box.periodic[axis]:
            away -= np.rint(away / box.units[axis]) * box.units[axis]
        drag = velocity + self.ahead * (pushed + pulled)
        drag_found = self.after["drags"][rows, axis] if "drags" in self.after else found
        for what, seen, right, difference, tolerance in (
            ("place", reached / units, wanted / units, away, place_error),
            ("velocity", found, turn * velocity, found - turn * velocity, error),
            ("velocity for the drag", drag_found, turn * drag, drag_found - turn * drag, error),
        ):
            if (worst := _worst(difference, tolerance)) is not None:
                number = self.after["places"][rows, 3][worst]
                return (
                    f"the {what} of particle {number} along {'xyz'[axis]} is {seen[worst]:.7g},"
                    f" and should be {right[worst]:.7g}"
                )
        return None


def _rows(ids: Words) -> NDArray[np.intp]:
    """Return in which row each id is."""
    rows = np.empty(len(ids), np.intp)
    rows[ids] = np.arange(len(ids))
    return rows


def _chunks(particles: int) -> Iterator[slice]:
    return (slice(begin, begin + CHUNK) for begin in range(0, particles, CHUNK))


def _region(
    places: Words, box: Box, cutoff: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the particles in a cube about one of them and around it, and which are inside.

    Around it are all that those inside may feel. The cube would hold SAMPLE particles if these
    were spread evenly.
    """
    half_edge = (SAMPLE / len(places) * box.volume) ** (1 / 3) / 2
    middle = places[rng.integers(len(places))]
    near = np.ones(len(places), bool)
    inside = np.ones(len(places), bool)
    for axis in range(3):
        units = box.units[axis] / box.size[axis]
        # To the nearest image where the box repeats, as the kernels have it.
        away = np.abs((places[:, axis] - middle[axis]).view(np.int32).astype(np.int64))
        near &= away <= (half_edge + cutoff) * units + UNITS
        inside &= away <= half_edge * units
    rows = np.flatnonzero(near)
    return rows, inside[rows]


def _reflected(
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


def _worst(difference: Floats, tolerance: float | Floats) -> tuple[Any, ...] | None:
    """Return where a difference is furthest above its tolerance, or None where it never is.

    What is not a number is above any tolerance.
    """
    excess = np.abs(difference) - tolerance
    if (excess <= 0).all():
        return None
    return np.unravel_index(np.argmax(np.nan_to_num(excess, nan=np.inf)), excess.shape)
