"""A fluid with density constraints (Bodin, Lacoursiere and Servin, IEEE TVCG 18, 2012).

Lengths are in kernel radii, densities in rest densities, times as for SPH at the same Mach number,
where the speed of sound is 1. W is the cubic spline (Monaghan, Annu. Rev. Astron. Astrophys. 30,
543, 1992), m a particle's mass:

    g_i = rho_i - 1,  rho_i = sum_j m W(x_i - x_j), including j = i
    G_ij = dg_i / dx_j = -m grad W(x_i - x_j),  G_ii = m sum_j grad W(x_i - x_j)

The SPOOK stepper (Lacoursiere 2007) with compliance eps and damping time tau solves, with
Y = 1 / (1 + 4 tau / h), S = (4 / h^2) eps Y and f without the pressure,

    (G M^-1 G^T + S) lambda = -(4 / h) Y g + Y G v - G (v + h M^-1 f),  lambda <= 0,

as a complementarity problem: constraints only push. Here x = -lambda / m is the pressure times h,
and `compliance` = m eps: the speed of sound is 1 / sqrt(compliance). Walls are constraints too,
which, given x, are solved exactly: velocities that lead through a wall are cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.fluid import require_amounts
from gpubench.physics.pairs import ordered_pairs
from gpubench.physics.sph import DENSITY_STEP, SPIKY

SOLVERS = ("conjugate-gradients", "jacobi")
SPLINE = 8 / math.pi
STEEPEST = 2 * SPLINE  # the steepest slope of the spline, at 1/3

# The layout of `struct Liquid` in kernels/constraint_fluid.cu.
LIQUID_DTYPE = np.dtype([
    ("weight", np.float32), ("steepest", np.float32), ("viscosity", np.float32),
    ("gravity", np.float32, 3), ("time_step", np.float32), ("wall_distance", np.float32),
    ("density_rounder", np.float32), ("viscous_rounder", np.float32),
    ("block_rounder", np.float32), ("correction", np.float32), ("kept", np.float32),
    ("softness", np.float32), ("relaxation", np.float32), ("warm_start", np.float32),
    ("sum_scale", np.float32), ("product_scale", np.float32), ("limit", np.float32),
    ("residual_scale", np.float32),
])  # fmt: skip


def spline(r: Floats) -> Floats:
    """Return W at distances r, any shape, for a kernel radius of 1."""
    near, far = 1 - 6 * r**2 + 6 * r**3, 2 * (1 - r) ** 3
    return SPLINE * np.where(r < 0.5, near, np.where(r < 1, far, 0.0))


def spline_slope(r: Floats) -> Floats:
    """Return the derivative of `spline`."""
    near, far = -12 * r + 18 * r**2, -6 * (1 - r) ** 2
    return SPLINE * np.where(r < 0.5, near, np.where(r < 1, far, 0.0))


@dataclass(frozen=True)
class Liquid:
    """The coefficients of a step.

    mass: particle mass. viscosity, gravity: as in SPHFluid. wall_distance: how near a particle
    may come to a wall. compliance: m eps; 0 for none. damping: tau over the time step.
    relaxation: Jacobi's factor. warm_start: initial pressures as a fraction of the last ones.
    tolerance: the solver stops below this residual, see `residuals`.
    """

    mass: float
    viscosity: float
    gravity: tuple[float, float, float]
    wall_distance: float
    compliance: float
    damping: float
    relaxation: float
    warm_start: float
    tolerance: float
    time_step: float

    def __post_init__(self) -> None:
        require_amounts(self)
        for name in ("mass", "relaxation", "tolerance", "time_step"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} must be positive, not {getattr(self, name):g}")
        if self.warm_start > 1:
            raise UserError(f"warm_start must be 0 to 1, not {self.warm_start:g}")

    @property
    def kept(self) -> float:
        """Y: the fraction of a rate of change that remains after damping."""
        return 1 / (1 + 4 * self.damping)

    @property
    def correction(self) -> float:
        """4 Y / h: the rate at which a density error is corrected."""
        return 4 * self.kept / self.time_step

    @property
    def softness(self) -> float:
        """S times the mass: the term that compliance adds to the diagonal of the matrix."""
        return self.correction * self.compliance / self.time_step

    @property
    def viscous_step(self) -> float:
        """The step to which viscosity terms of neighbours are rounded, like SPHFluid.force_step."""
        strongest = max(self.time_step * self.viscosity * self.mass * SPIKY, 1e-9)
        return 2.0 ** (math.ceil(math.log2(32 * strongest)) - 24)

    def packed(self, particles: int) -> NDArray[np.void]:
        """Return the liquid as the kernels read it: one element of LIQUID_DTYPE.

        sum_scale: fixed-point steps per unit for squared residuals, whose sum must fit in 64 bits.
        """
        packed = np.zeros(1, LIQUID_DTYPE)
        steepest = STEEPEST * self.mass
        sum_scale = 2.0 ** (60 - max(1, math.ceil(math.log2(particles + 1))))
        entry = 30 * steepest**2 / 4 + self.softness  # roughly a diagonal entry
        packed["weight"], packed["steepest"] = self.mass * SPLINE, steepest
        packed["viscosity"] = self.time_step * self.viscosity * self.mass * SPIKY
        packed["density_rounder"] = 1.5 * 2**23 * DENSITY_STEP
        packed["viscous_rounder"] = 1.5 * 2**23 * self.viscous_step
        packed["block_rounder"] = 1.5 * 2**23 * DENSITY_STEP * 4
        packed["sum_scale"], packed["product_scale"] = sum_scale, 1 / entry
        packed["limit"] = (self.tolerance / 2) ** 2 * particles * sum_scale
        packed["residual_scale"] = 1 / (particles * sum_scale)
        for name in (
            "gravity", "time_step", "wall_distance", "correction", "kept", "softness", "relaxation",
            "warm_start",
        ):  # fmt: skip
            packed[name] = getattr(self, name)
        return packed


def constraint_values(positions: Floats, box: Box, mass: float) -> Floats:
    """Return g, float64 (particles,), at positions, float64 (particles, 3)."""
    found = np.full(len(positions), mass * SPLINE - 1)
    for pairs in ordered_pairs(positions, box, 1.0):
        found += np.bincount(pairs.first, mass * spline(pairs.distance), minlength=len(positions))
    return found


def rates(positions: Floats, velocities: Floats, box: Box, mass: float) -> Floats:
    """Return G v, float64 (particles,): the rate of change of g."""
    found = np.zeros(len(positions))
    for pairs in ordered_pairs(positions, box, 1.0):
        i, j = pairs.first, pairs.second
        along = ((velocities[i] - velocities[j]) * pairs.offset).sum(axis=1)
        found += np.bincount(i, _slopes(pairs.distance, mass) * along, minlength=len(positions))
    return found


def impulses(positions: Floats, x: Floats, box: Box, mass: float) -> Floats:
    """Return M^-1 G^T lambda for lambda = -m x: velocity changes, float64 (particles, 3)."""
    found = np.zeros((3, len(positions)))
    for pairs in ordered_pairs(positions, box, 1.0):
        i, j = pairs.first, pairs.second
        both = -(x[i] + x[j]) * _slopes(pairs.distance, mass)
        for axis in range(3):
            found[axis] += np.bincount(i, both * pairs.offset[:, axis], minlength=len(positions))
    return found.T


def viscous(positions: Floats, velocities: Floats, box: Box, liquid: Liquid) -> Floats:
    """Return viscous accelerations, as in SPH with all densities 1, (particles, 3)."""
    found = np.zeros((3, len(positions)))
    factor = liquid.viscosity * liquid.mass * SPIKY
    for pairs in ordered_pairs(positions, box, 1.0):
        i, j = pairs.first, pairs.second
        for axis in range(3):
            drag = factor * (1 - pairs.distance) * (velocities[j, axis] - velocities[i, axis])
            found[axis] += np.bincount(i, drag, minlength=len(positions))
    return found.T


def within_walls(
    positions: Floats, velocities: Floats, box: Box, liquid: Liquid
) -> tuple[Floats, Floats]:
    """Return velocities that cross no wall within a step, and how much each was changed.

    In a step, a particle nearer than `wall_distance` moves away by 4 Y times the shortfall.
    """
    cut = velocities.copy()
    h = liquid.time_step
    for axis in np.flatnonzero(~np.asarray(box.periodic)):
        low = (liquid.wall_distance - positions[:, axis]) / h
        high = (box.size[axis] - positions[:, axis] - liquid.wall_distance) / h
        low = np.where(low > 0, low * liquid.correction * h, low)
        high = np.where(high < 0, high * liquid.correction * h, high)
        cut[:, axis] = np.minimum(np.maximum(velocities[:, axis], low), high)
    return cut, cut - velocities


def residuals(
    g: Floats, x: Floats, rate_before: Floats, rate_after: Floats, liquid: Liquid
) -> Floats:
    """Return h r, float64 (particles,): the density error that a step leaves unsolved.

    r = (4 Y / h) g - Y G v + G v' - S x, and 0 where x is 0 and r is below 0, as complementarity
    allows. rate_before, rate_after: G v and G v', before and after the step.
    """
    r = liquid.correction * g - liquid.kept * rate_before + rate_after - liquid.softness * x
    return np.where((x > 0) | (r > 0), liquid.time_step * r, 0.0)


def _slopes(distance: Floats, mass: float) -> Floats:
    """Return m dW/dr divided by r."""
    return mass * spline_slope(distance) / np.where(distance > 0, distance, 1)
