"""Check a step of the fluid with density constraints against its own pressures.

A step's pressures depend on when the solver stopped, so there is no reference for them: they are
substituted into the equations in float64. States are in order of ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.constraint import (
    Liquid,
    constraint_values,
    impulses,
    rates,
    residuals,
    viscous,
    within_walls,
)
from gpubench.physics.motion import RELATIVE_ERROR, UNITS, Between, State, region, worst_of
from gpubench.physics.sph import DENSITY_STEP

Rows = NDArray[Any]

# Error of g: each neighbour's term has a float32 squared distance and is rounded to a step.
VALUE_ERROR = 64 * DENSITY_STEP
# Error of velocity changes and their rates: they are rounded to 2^-20 of the largest term.
ROUNDED = 2.0**-14
# Error of a particle's distance from a wall, relative to the box: four float32 roundings.
WALL_ERROR = 2.0**-22


@dataclass(frozen=True)
class Solved:
    """A step's report on its solve. values: g, float64 (particles,). residual: the final one."""

    values: Floats
    residual: float


def check_constraint_step(
    before: State, after: State, solved: Solved, box: Box, liquid: Liquid
) -> str | None:
    """Return None where one step leads from `before` to `after`, else the first error.

    Compares a region of about motion.SAMPLE particles, or all particles if there are no more. The
    residual is compared only if all particles are.
    """
    compared = _ConstraintStep(before, after, solved, box, liquid)
    problem = compared.wrong_ids() or compared.problem()
    return f"step {int(before['step'])}: {problem}" if problem else None


@dataclass(frozen=True)
class _ConstraintStep(Between):
    """One comparison; the arguments are those of `check_constraint_step`."""

    solved: Solved
    box: Box
    liquid: Liquid

    def problem(self) -> str | None:
        """Compare values, velocities, positions and the residual with float64."""
        box, liquid = self.box, self.liquid
        places = self.before["places"]
        rng = np.random.default_rng(int(self.before["step"]))
        volume = len(places) * liquid.mass
        near, inside = region(places, box, volume, 2.0, rng)
        positions = box.to_positions(places[near])
        begin = self.before["velocities"][near, :3].astype(np.float64)
        found = self.after["velocities"][near, :3].astype(np.float64)
        x = self.after["velocities"][near, 3].astype(np.float64)
        if (x < 0).any() or not np.isfinite(x).all():
            return "there are pressures below 0, or that are no numbers"
        g = constraint_values(positions, box, liquid.mass)
        push = impulses(positions, x, box, liquid.mass)
        drag = liquid.time_step * viscous(positions, begin, box, liquid)
        pulled = liquid.time_step * np.asarray(liquid.gravity)
        pushed = begin + drag + pulled + push
        wanted, _ = within_walls(positions, pushed, box, liquid)
        error = RELATIVE_ERROR * (np.abs(begin) + np.abs(drag) + np.abs(pulled))
        error += ROUNDED * max(float(x.max()), 1e-9) + 32 * liquid.viscous_step
        error += self._held_error(positions, pushed)
        ids = places[near, 3]
        problem = self._compare(
            "density error", g, self.solved.values[near], VALUE_ERROR * (1 + np.abs(g)), ids, inside
        ) or self._compare("velocity", wanted, found, error, ids, inside)
        return problem or self._wrong_places(near) or self._wrong_residual(positions, begin, g, x)

    def _held_error(self, positions: Floats, pushed: Floats) -> Floats:
        """Return the error of velocities that a wall sets: its distance is a float32 difference."""
        slack = WALL_ERROR * np.asarray(self.box.size) / self.liquid.time_step
        ends = (within_walls(positions, pushed + e, self.box, self.liquid) for e in (-slack, slack))
        held = np.any([changed != 0 for _, changed in ends], axis=0)
        return np.where(held, slack, 0.0)

    def _compare(
        self, what: str, wanted: Floats, found: Floats, error: Floats, ids: Rows, inside: Rows
    ) -> str | None:
        if (worst := worst_of((found - wanted)[inside], error[inside])) is None:
            return None
        return (
            f"the {what} of particle {ids[inside][worst[0]]} is {found[inside][worst]:.7g}, and"
            f" should be {wanted[inside][worst]:.7g}"
        )

    def _wrong_places(self, near: Rows) -> str | None:
        """Compare positions with those implied by the new velocities."""
        box = self.box
        units = np.asarray(box.units) / box.size
        step = self.after["velocities"][near, :3] * self.liquid.time_step * units
        away = self.after["places"][near, :3].astype(np.float64)
        away -= self.before["places"][near, :3] + step
        periodic = np.asarray(box.periodic)
        away -= np.where(periodic, np.rint(away / box.units) * box.units, 0.0)
        error = UNITS + RELATIVE_ERROR * np.abs(step)
        if (worst := worst_of(away, error)) is None:
            return None
        return (
            f"particle {self.before['places'][near, 3][worst[0]]} is {away[worst]:.0f} units of the"
            " box from where its velocity leads"
        )

    def _wrong_residual(self, positions: Floats, begin: Floats, g: Floats, x: Floats) -> str | None:
        """Compare the reported residual with the residual of the step's final velocities."""
        if len(positions) < len(self.before["places"]):
            return None
        box, liquid = self.box, self.liquid
        after = self.after["velocities"][:, :3].astype(np.float64)
        rate, later = (rates(positions, v, box, liquid.mass) for v in (begin, after))
        left = residuals(g, x, rate, later, liquid)
        wanted = float(np.sqrt((left**2).mean()))
        found = self.solved.residual
        if abs(found - wanted) <= 0.02 * wanted + 1e-5:
            return None
        return f"the reported residual is {found:.3g}, but should be {wanted:.3g}"
