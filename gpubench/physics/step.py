"""Whether a step of dissipative particle dynamics is right: ids, forces, velocities, places.

A state is as the DPD workloads have it, in whatever order a device keeps its particles: step, an
int; places, uint32 (particles, 4), units of the box and id; velocities, float32 (particles, 4), at
half steps, with the bits of the species; drags, likewise, where the drag has a velocity of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.physics.box import Box
from gpubench.physics.fluid import INTEGRATORS, Fluid
from gpubench.physics.forces import forces_in_region

State = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]

# A pair's force is rounded to a whole number of force steps. Such errors add up as a random walk
# does: this many steps are more than ten standard deviations for a hundred neighbours.
FORCE_STEPS = 32
# Of a sum of velocities in float32, and of what moves a particle: a few roundings.
RELATIVE_ERROR = 2.0**-21
# Of a place in units of the box: rounded to one, and reflected between two.
UNITS = 3.0
SAMPLE = 20_000  # particles whose forces are computed in float64


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
    if problem := _wrong_ids(after["places"][:, 3], len(before["places"])):
        return f"step {step}: {problem}"
    start, end = _by_id(before), _by_id(after)
    felt = force[_order(after), :3].astype(np.float64)
    problem = (
        _wrong_force(start, felt, box, fluid, time_step, step, seed, generator)
        or _wrong_sum(felt, fluid.force_step(time_step))
        or _wrong_motion(start, end, felt, box, fluid, INTEGRATORS[integrator] - 0.5, time_step)
    )
    return f"step {step}: {problem}" if problem else None


@dataclass(frozen=True)
class _Particles:
    """A state in the order of ids. drags: the velocities that the drag sees."""

    places: NDArray[np.uint32]
    velocities: Floats
    drags: Floats
    species: NDArray[np.int32]


def _order(state: State) -> NDArray[np.intp]:
    """Return where each id is."""
    ids = state["places"][:, 3]
    order = np.empty(len(ids), np.intp)
    order[ids] = np.arange(len(ids))
    return order


def _by_id(state: State) -> _Particles:
    order = _order(state)
    velocities = state["velocities"][order]
    drags = state["drags"][order] if "drags" in state else velocities
    return _Particles(
        state["places"][order, :3],
        velocities[:, :3].astype(np.float64),
        drags[:, :3].astype(np.float64),
        velocities[:, 3].view(np.int32),
    )


def _wrong_ids(ids: NDArray[np.uint32], particles: int) -> str | None:
    unknown = ids[ids >= particles]
    if len(unknown):
        return f"there is a particle {unknown[0]}, and ids go up to {particles - 1}"
    times = np.bincount(ids, minlength=particles)
    wrong = np.flatnonzero(times != 1)
    if len(wrong):
        return f"particle {wrong[0]} is there {times[wrong[0]]} times, and should be there once"
    return None


def _wrong_force(
    start: _Particles,
    felt: Floats,
    box: Box,
    fluid: Fluid,
    time_step: float,
    step: int,
    seed: int,
    generator: str,
) -> str | None:
    ids, expected = forces_in_region(
        box.to_positions(start.places), start.drags, np.arange(len(felt)), start.species, box,
        fluid, time_step, step, seed, generator=generator, wanted=SAMPLE,
        rng=np.random.default_rng((seed, step)),
    )  # fmt: skip
    tolerance = FORCE_STEPS * fluid.force_step(time_step)
    worst = _worst(felt[ids] - expected, tolerance)
    if worst is None:
        return None
    row, axis = worst
    return (
        f"the force on particle {ids[row]} along {'xyz'[axis]} is {felt[ids[row], axis]:.7g},"
        f" and should be {expected[row, axis]:.7g}"
    )


def _wrong_sum(felt: Floats, force_step: float) -> str | None:
    total = np.rint(felt / force_step).sum(axis=0) * force_step
    off = np.flatnonzero(total)
    if not len(off):
        return None
    axis = off[0]
    return (
        f"the forces on all particles add up to {total[axis]:.7g} along {'xyz'[axis]}, and should"
        " add up to 0: one side of a pair does not feel the other"
    )


def _wrong_motion(
    start: _Particles,
    end: _Particles,
    felt: Floats,
    box: Box,
    fluid: Fluid,
    ahead: float,
    time_step: float,
) -> str | None:
    """Compare places and velocities with the leap that the forces of the device ask for.

    ahead: share of the change of velocity that the drag's velocity has beyond the new one.
    """
    inverse_mass = 1 / np.asarray(fluid.mass)[start.species]
    for axis, name in enumerate("xyz"):
        units = box.units[axis] / box.size[axis]
        change = time_step * (felt[:, axis] * inverse_mass + fluid.gravity[axis])
        velocity = start.velocities[:, axis] + change
        error = RELATIVE_ERROR * (np.abs(start.velocities[:, axis]) + np.abs(change))
        place = start.places[:, axis] + velocity * time_step * units
        place_error = UNITS + error * time_step * units
        place, turn = _reflected(place, place_error, velocity, end.velocities[:, axis], box, axis)
        away = end.places[:, axis] - place
        if box.periodic[axis]:
            away -= np.rint(away / box.units[axis]) * box.units[axis]
        drag = velocity + ahead * change
        for what, found, wanted, difference, tolerance in (
            (
                "place",
                end.places[:, axis] / units,
                place / units,
                away / units,
                place_error / units,
            ),
            ("velocity", *_compared(end.velocities[:, axis], turn * velocity), error),
            ("velocity for the drag", *_compared(end.drags[:, axis], turn * drag), error),
        ):
            if (worst := _worst(difference, tolerance)) is not None:
                (i,) = worst
                return (
                    f"the {what} of particle {i} along {name} is {found[i]:.7g}, and should be"
                    f" {wanted[i]:.7g}"
                )
    return None


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


def _compared(found: Floats, wanted: Floats) -> tuple[Floats, Floats, Floats]:
    return found, wanted, found - wanted


def _worst(difference: Floats, tolerance: float | Floats) -> tuple[int, ...] | None:
    """Return where a difference is furthest above its tolerance, or None where it never is.

    What is not a number is above any tolerance.
    """
    excess = np.nan_to_num(np.abs(difference) - tolerance, nan=np.inf)
    if not (excess > 0).any():
        return None
    return tuple(int(i) for i in np.unravel_index(np.argmax(excess), excess.shape))
