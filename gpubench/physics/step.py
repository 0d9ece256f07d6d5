"""Check a step of dissipative particle dynamics: ids, forces, velocities, positions.

States are as in the DPD workloads, with particles in any order: step, an int; places, uint32
(particles, 4), box units and id; velocities, float32 (particles, 4), at half steps, and the bits
of the species; drags, likewise, if the drag uses different velocities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.threads import each
from gpubench.physics.arrays import Floats, Words
from gpubench.physics.box import Box
from gpubench.physics.fluid import INTEGRATORS, Fluid
from gpubench.physics.forces import pair_forces
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
    worst_of,
)


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
    """Return None where one step leads from `before` to `after`, else the first error.

    force: float32 (particles, 4), those of the step, in the order of `after`.
    generator: generator of the pair noise, see gpubench.physics.noise.
    Single forces are compared in a region of about SAMPLE particles. A force on only one particle
    of a pair is detected anywhere: the sum over all particles must be exactly 0.
    """
    ahead = INTEGRATORS[integrator] - 0.5
    return DPDStep(before, after, force, box, fluid, ahead, time_step).problem(seed, generator)


@dataclass(frozen=True)
class DPDStep(Between):
    """A comparison with the reference step; the arguments are those of `check_dpd_step`.

    ahead: the drag uses the new velocity plus this fraction of the velocity change.
    """

    force: NDArray[np.float32]
    box: Box
    fluid: Fluid
    ahead: float
    time_step: float

    def problem(self, seed: int, generator: str = "") -> str | None:
        """Return the first error of the step, or None."""
        step = int(self.before["step"])
        problem = (
            self.wrong_ids()
            or self.wrong_force(step, seed, generator)
            or self.wrong_sum()
            or self.wrong_motion()
        )
        return f"step {step}: {problem}" if problem else None

    def expected(
        self, near: NDArray[np.intp], step: int, seed: int, generator: str
    ) -> tuple[Floats, float | Floats]:
        """Return forces among the particles in some rows, and the tolerance of those forces."""
        places = self.before["places"][near]
        velocities = self.before["velocities"][near]
        drags = self.before["drags"][near] if "drags" in self.before else velocities
        forces = pair_forces(
            self.box.to_positions(places), drags[:, :3].astype(np.float64), places[:, 3],
            velocities[:, 3].view(np.int32), self.box, self.fluid, self.time_step, step, seed,
            generator=generator,
        )  # fmt: skip
        return forces, 0.0

    def wrong_force(self, step: int, seed: int, generator: str) -> str | None:
        """Compare the forces on the particles in a region with float64."""
        places = self.before["places"]
        rng = np.random.default_rng((seed, step))
        rounding = FORCE_STEPS * self.fluid.force_step(self.time_step)

        def wrong(part: tuple[NDArray[np.intp], NDArray[np.bool_]]) -> str | None:
            near, inside = part
            ids = places[near, 3]
            forces, slack = self.expected(near, step, seed, generator)
            expected = forces[inside]
            felt = self.force[self.is_at[ids[inside]], :3].astype(np.float64)
            tolerance = rounding + (slack[inside] if isinstance(slack, np.ndarray) else slack)
            if (worst := worst_of(felt - expected, tolerance)) is None:
                return None
            return (
                f"the force on particle {ids[inside][worst[0]]} along {'xyz'[worst[1]]} is"
                f" {felt[worst]:.7g}, and should be {expected[worst]:.7g}"
            )

        parts = octants(places, self.box, self.box.volume, self.fluid.cutoff, rng)
        return first_problem(parts, wrong)

    def wrong_sum(self) -> str | None:
        """Check that the forces on all particles sum to zero, in whole force steps."""
        force_step = self.fluid.force_step(self.time_step)

        def steps(rows: slice) -> Floats:
            whole = np.rint(self.force[rows, :3] / force_step)
            return np.asarray(whole.sum(axis=0, dtype=np.float64))

        total = np.add.reduce(each([*in_chunks(len(self.force))], steps)) * force_step
        off = np.flatnonzero(total)
        if not len(off):
            return None
        return (
            f"the forces on all particles add up to {total[off[0]]:.7g} along {'xyz'[off[0]]}, and"
            " should add up to 0: one side of a pair does not feel the other"
        )

    def wrong_motion(self) -> str | None:
        """Compare positions and velocities with a leap-frog step by the device's forces."""
        ids = self.after["places"][:, 3]

        def wrong(rows: slice) -> str | None:
            was_in = self.was_at[ids[rows]]
            start = self.before["velocities"][was_in]
            places = self.before["places"][was_in]
            inverse_mass = 1 / np.asarray(self.fluid.mass)[start[:, 3].view(np.int32)]
            for axis in range(3):
                problem = self._wrong_along(
                    axis, rows, places[:, axis], start[:, axis].astype(np.float64), inverse_mass
                )
                if problem:
                    return problem
            return None

        return first_problem([*in_chunks(len(ids))], wrong)

    def _wrong_along(
        self, axis: int, rows: slice, place: Words, start: Floats, inverse_mass: Floats
    ) -> str | None:
        """Compare some particles along an axis; place, start: their positions and velocities."""
        box, time_step = self.box, self.time_step
        units = box.units[axis] / box.size[axis]
        pushed = time_step * self.force[rows, axis] * inverse_mass
        pulled = time_step * self.fluid.gravity[axis]
        velocity = start + pushed + pulled
        error = RELATIVE_ERROR * (np.abs(start) + np.abs(pushed) + abs(pulled))
        place_error = UNITS + error * time_step * units
        found = self.after["velocities"][rows, axis].astype(np.float64)
        wanted, turn = reflected(
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
            if (worst := worst_of(difference, tolerance)) is not None:
                number = self.after["places"][rows, 3][worst]
                return (
                    f"the {what} of particle {number} along {'xyz'[axis]} is {seen[worst]:.7g},"
                    f" and should be {right[worst]:.7g}"
                )
        return None
