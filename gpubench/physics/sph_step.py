"""Check a step of smoothed particle hydrodynamics with rigid bodies.

States are as in the SPH workloads, with particles in any order: step, an int; places, uint32
(particles, 4), box units and id; velocities, float32 (particles, 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpubench.base.threads import each
from gpubench.physics.arrays import Floats, Words
from gpubench.physics.box import HIGH_WALL, Box
from gpubench.physics.contact import Contact, Walls, contact_forces, wall_accelerations
from gpubench.physics.motion import (
    FORCE_STEPS,
    RELATIVE_ERROR,
    UNITS,
    Between,
    State,
    first_problem,
    in_chunks,
    octants,
    reflected,
    some_chunks,
    worst_of,
)
from gpubench.physics.pairs import nearest_image, wrapped
from gpubench.physics.rigid import RigidBody, turned
from gpubench.physics.sph import DENSITY_STEP, SPHFluid
from gpubench.physics.sph_forces import accelerations, densities

# Error of a density: each neighbour's term is rounded to a step; sum and inverse are float32.
DENSITY_ERROR = 32 * DENSITY_STEP
# Error of a body particle's position, rotated in float32, relative to the box's longest edge.
ARM_ERROR = 2.0**-21
# Error of float32 sums over the particles of a body, relative to the sum of absolute values.
SUM_ERROR = 2.0**-18


@dataclass(frozen=True)
class BodiesStep:
    """The effect of a step on the bodies.

    before, after: the bodies. pushes: float32 (all body particles, 4 or 3), the forces of the fluid
    on these, in units of a fluid particle's mass.
    """

    before: Sequence[RigidBody]
    after: Sequence[RigidBody]
    pushes: NDArray[np.float32]


def with_doubt(felt: Callable[[float], Floats], error: float) -> tuple[Floats, Floats]:
    """Return the force felt(0), and its uncertainty if a distance is wrong by up to `error`.

    felt: the force, given the error of the distance. Changes towards both ends of the interval are
    added, since the force may be 0 at both (out of range, or spring cancels damper) but not within.
    """
    now = felt(0.0)
    return now, np.abs(felt(error) - now) + np.abs(now - felt(-error))


def check_sph_step(
    before: State,
    after: State,
    force: NDArray[np.int32],
    flow: NDArray[np.float32],
    box: Box,
    fluid: SPHFluid,
    integrator: str,
    time_step: float,
    bodies: BodiesStep | None = None,
) -> str | None:
    """Return None where one step leads from `before` to `after`, else the first error.

    force: int32 (particles, 4), accelerations by neighbours and bodies in steps of
    fluid.force_step. flow: float32 (particles, 4), velocities before the step, and the inverse of
    the density. Both are in the order of `after`.
    Single densities and forces are compared in a region of about motion.SAMPLE particles. A force
    on only one particle of a pair is detected anywhere: the sum over fluid and body particles must
    be exactly 0. Bodies are compared as a whole.
    """
    compared = _SPHStep(before, after, force, flow, box, fluid, integrator, time_step, bodies)
    problem = (
        compared.wrong_ids()
        or compared.wrong_in_region()
        or compared.wrong_sum()
        or compared.wrong_motion()
        or compared.wrong_bodies()
    )
    return f"step {int(before['step'])}: {problem}" if problem else None


@dataclass(frozen=True)
class _SPHStep(Between):
    """A comparison with the reference step; the arguments are those of `check_sph_step`."""

    force: NDArray[np.int32]
    flow: NDArray[np.float32]
    box: Box
    fluid: SPHFluid
    integrator: str
    time_step: float
    bodies: BodiesStep | None

    @property
    def walls(self) -> Walls:
        fluid = self.fluid
        return Walls(
            fluid.wall_distance, fluid.wall_stiffness, fluid.wall_damping, fluid.wall_epsilon
        )

    @property
    def tolerance(self) -> float:
        """The tolerance of an acceleration by neighbours."""
        return FORCE_STEPS * self.fluid.force_step

    def wrong_in_region(self) -> str | None:
        """Compare densities and forces of the particles in a region with float64."""
        places = self.before["places"]
        rng = np.random.default_rng(int(self.before["step"]))
        volume = len(places) * self.fluid.spacing**3
        parts = octants(places, self.box, volume, 1.0, rng)
        return first_problem(parts, lambda part: self._wrong_in(*part))

    def _wrong_in(self, near: NDArray[np.intp], inside: NDArray[np.bool_]) -> str | None:
        """Compare a region; near: rows, before the step, in and around it; inside: those in it."""
        places = self.before["places"]
        ids = places[near, 3]
        rows = self.is_at[ids]
        positions = self.box.to_positions(places[near])
        velocities = self.before["velocities"][near, :3].astype(np.float64)

        floor = 1.0 if self.fluid.cuts else 0.0
        expected = np.maximum(densities(positions, self.box, self.fluid), floor)[inside]
        with np.errstate(divide="ignore"):
            density = 1 / self.flow[rows, 3].astype(np.float64)
        found = density[inside]
        if (worst := worst_of(found - expected, DENSITY_ERROR * expected)) is not None:
            return (
                f"the density at particle {ids[inside][worst]} is {found[worst]:.7g},"
                f" and should be {expected[worst]:.7g}"
            )
        pulls = accelerations(positions, velocities, density, self.box, self.fluid)
        pushes, doubt = self._contacts(positions, velocities)
        wanted = (pulls + pushes)[inside]
        felt = self.force[rows[inside], :3] * self.fluid.force_step
        if (worst := worst_of(felt - wanted, self.tolerance + doubt[inside])) is None:
            return None
        return (
            f"the acceleration of particle {ids[inside][worst[0]]} along {'xyz'[worst[1]]} is"
            f" {felt[worst]:.7g}, and should be {wanted[worst]:.7g}"
        )

    def wrong_sum(self) -> str | None:
        """Check that forces on the fluid and on bodies sum to zero, in whole force steps."""

        def of_chunk(rows: slice) -> Floats:
            return np.asarray(self.force[rows, :3].sum(axis=0, dtype=np.float64))

        total = np.add.reduce(each([*in_chunks(len(self.force))], of_chunk))
        if self.bodies is not None:
            on_bodies = np.rint(self.bodies.pushes[:, :3] / np.float64(self.fluid.force_step))
            total += on_bodies.sum(axis=0)
        off = np.flatnonzero(total)
        if not len(off):
            return None
        return (
            f"the forces add up to {total[off[0]] * self.fluid.force_step:.7g} along"
            f" {'xyz'[off[0]]}, and should add up to 0: one side of a pair does not feel the other"
        )

    def wrong_motion(self) -> str | None:
        """Compare positions and velocities with those implied by the device's forces.

        Covers all particles, or in each step a new sample if there are more than a few million.
        """
        ids = self.after["places"][:, 3]
        rng = np.random.default_rng(int(self.before["step"]))

        def wrong(rows: slice) -> str | None:
            was_in = self.was_at[ids[rows]]
            start = self.before["velocities"][was_in, :3].astype(np.float64)
            places = self.before["places"][was_in]
            positions = self.box.to_positions(places)
            by_walls = wall_accelerations(positions, start, self.walls, self.box)
            pull = self.force[rows, :3] * self.fluid.force_step + by_walls
            pull += np.asarray(self.fluid.gravity)
            doubt = self._wall_doubt(positions, start)
            return self._wrong_moves(
                places, start, pull, doubt, self.after["places"][rows],
                self.after["velocities"][rows, :3].astype(np.float64),
                [f"particle {number}" for number in ids[rows]], self.integrator == "symplectic",
            )  # fmt: skip

        return first_problem(some_chunks(len(ids), rng), wrong)

    def wrong_bodies(self) -> str | None:
        """Compare the fluid's forces on bodies, and the bodies' new states, with float64."""
        if self.bodies is None:
            return None
        ends = np.cumsum([len(body.offsets) for body in self.bodies.before])
        pushes = self.bodies.pushes[:, :3].astype(np.float64)
        for number, body in enumerate(self.bodies.before):
            rows = slice(ends[number] - len(body.offsets), ends[number])
            problem = self._wrong_push(number, pushes[rows]) or self._wrong_body(
                number, pushes[rows]
            )
            if problem:
                return problem
        return None

    def _contacts(self, positions: Floats, velocities: Floats) -> tuple[Floats, Floats]:
        """Return the forces of all bodies on fluid particles, and their uncertainty."""
        total, doubt = np.zeros_like(positions), np.zeros_like(positions)
        for body in self.bodies.before if self.bodies is not None else ():
            touched, unsure = self._between(
                positions, velocities, self._inside(body), body.particle_velocities()
            )
            total += touched
            doubt += unsure
        return total, doubt

    def _between(
        self, positions: Floats, velocities: Floats, others: Floats, their_velocities: Floats
    ) -> tuple[Floats, Floats]:
        """Return the acceleration of particles by others in contact, and its uncertainty.

        The damper sets in abruptly where a pair comes into contact, so a rounding of the distance
        is visible.
        """
        fluid = self.fluid

        def felt(beyond: float) -> Floats:
            contact = Contact(
                max(fluid.contact_distance + beyond, 0.0), fluid.contact_stiffness,
                fluid.contact_damping, 1.0,
            )  # fmt: skip
            return contact_forces(
                positions, velocities, others, their_velocities, contact, self.box
            )[0]

        return with_doubt(felt, ARM_ERROR * max(self.box.size))

    def _inside(self, body: RigidBody) -> Floats:
        """Return the positions of a body's particles, clamped to the walls."""
        positions = wrapped(body.particle_positions(), self.box)
        return np.clip(positions, 0.0, self.box.size)

    def _near(self, body: RigidBody) -> NDArray[np.intp]:
        """Return the rows of the fluid within a body's bounding sphere, before the step."""
        places = self.before["places"]
        reach = (body.bounding_radius + self.fluid.contact_distance) * (1 + 1e-6)
        found = []
        for rows in in_chunks(len(places)):
            away = nearest_image(self.box.to_positions(places[rows]) - body.centre, self.box)
            found.append(rows.start + np.flatnonzero((away**2).sum(axis=1) <= reach**2))
        return np.concatenate(found)

    def _wall_doubt(self, positions: Floats, velocities: Floats) -> Floats:
        """Return the change of wall forces due to rounded positions; see `_between`.

        Rounding is largest at an upper wall; without one, only positions up to 1 matter.
        """
        ends = zip(self.box.size, self.box.walls, strict=True)
        error = ARM_ERROR * max((edge for edge, walls in ends if walls & HIGH_WALL), default=1.0)
        walls = self.walls

        def felt(beyond: float) -> Floats:
            wider = replace(walls, distance=max(walls.distance + beyond, 0.0))
            return wall_accelerations(positions, velocities, wider, self.box)

        return with_doubt(felt, error)[1]

    def _wrong_moves(
        self,
        places: Words,
        start: Floats,
        pull: Floats,
        doubt: Floats,
        new_places: Words,
        found: Floats,
        names: Sequence[str],
        is_symplectic: bool,
    ) -> str | None:
        """Compare positions and velocities with those implied by accelerations with errors."""
        box, time_step = self.box, self.time_step
        for axis in range(3):
            units = box.units[axis] / box.size[axis]
            begin, change = start[:, axis], time_step * pull[:, axis]
            velocity = begin + change
            # Terms may cancel, so the error is relative to the sum of their magnitudes.
            parts = np.abs(begin) + np.abs(change) + time_step * abs(self.fluid.gravity[axis])
            error = RELATIVE_ERROR * parts + time_step * doubt[:, axis]
            carried = velocity if is_symplectic else begin
            place_error = UNITS + error * time_step * units
            wanted, turn = reflected(
                places[:, axis] + carried * time_step * units, place_error, velocity,
                found[:, axis], box, axis,
            )  # fmt: skip
            reached = new_places[:, axis]
            away = reached - wanted
            if box.periodic[axis]:
                away -= np.rint(away / box.units[axis]) * box.units[axis]
            off = found[:, axis] - turn * velocity
            for what, seen, right, difference, tolerance in (
                ("place", reached / units, wanted / units, away, place_error),
                ("velocity", found[:, axis], turn * velocity, off, error),
            ):
                if (worst := worst_of(difference, tolerance)) is not None:
                    return (
                        f"the {what} of {names[worst[0]]} along {'xyz'[axis]} is"
                        f" {seen[worst]:.7g}, and should be {right[worst]:.7g}"
                    )
        return None

    def _wrong_push(self, number: int, pushes: Floats) -> str | None:
        """Compare the fluid's forces on the particles of a body."""
        assert self.bodies is not None
        body = self.bodies.before[number]
        near = self._near(body)
        wanted, doubt = self._between(
            self._inside(body), body.particle_velocities(),
            self.box.to_positions(self.before["places"][near]),
            self.before["velocities"][near, :3].astype(np.float64),
        )  # fmt: skip
        if (worst := worst_of(pushes - wanted, self.tolerance + doubt)) is None:
            return None
        return (
            f"the fluid's force on particle {worst[0]} of body {number} along"
            f" {'xyz'[worst[1]]} is {pushes[worst]:.7g} masses of a particle, and should be"
            f" {wanted[worst]:.7g}"
        )

    def _wrong_body(self, number: int, pushes: Floats) -> str | None:
        """Compare a body's state after the step with the one implied by the forces on it."""
        assert self.bodies is not None
        body, after = self.bodies.before[number], self.bodies.after[number]
        mass, dt = self.fluid.mass, self.time_step
        forces, doubt = mass * pushes, np.zeros_like(pushes)
        positions, velocities = body.particle_positions(), body.particle_velocities()
        share = body.mass / len(body.offsets)
        forces += share * wall_accelerations(positions, velocities, self.walls, self.box)
        doubt += share * self._wall_doubt(positions, velocities)
        for other in self.bodies.before:
            if other is not body:
                touched, unsure = self._between(
                    self._inside(body), velocities, self._inside(other),
                    other.particle_velocities(),
                )  # fmt: skip
                forces += mass * touched
                doubt += mass * (unsure + self.tolerance * (touched != 0))
        force, torque = body.load(forces)
        doubts = doubt + SUM_ERROR * np.abs(forces)
        arm = body.bounding_radius
        force_doubt = doubts.sum(axis=0)
        torque_doubt = arm * doubts.sum() + SUM_ERROR * np.linalg.norm(body.angular_momentum) / dt

        problem = self._wrong_moves(
            self.box.to_units(body.centre[None]), body.velocity[None],
            (force / body.mass + np.asarray(self.fluid.gravity))[None],
            (force_doubt / body.mass)[None], self.box.to_units(after.centre[None]),
            after.velocity[None], [f"body {number}"], is_symplectic=True,
        )  # fmt: skip
        if problem:
            return problem
        spin = body.angular_momentum + dt * torque
        spin_doubt = dt * torque_doubt
        orientation = turned(
            body.orientation, replace(body, angular_momentum=spin).angular_velocity, dt
        )
        turn_doubt = dt * spin_doubt / body.inertia.min() + RELATIVE_ERROR
        for what, found, wanted, tolerance in (
            ("angular momentum", after.angular_momentum, spin, spin_doubt),
            ("orientation", after.orientation, orientation, turn_doubt),
        ):
            if (worst := worst_of(found - wanted, tolerance)) is not None:
                return (
                    f"component {worst[0]} of the {what} of body {number} is {found[worst]:.7g},"
                    f" and should be {wanted[worst]:.7g}"
                )
        return None
