"""The fluid of smoothed particle hydrodynamics (silva2012, sections 3 and 4), and its kernels.

Lengths are in kernel radii, speeds in speeds of sound, densities in rest densities. In these units
the kernel radius, the speed of sound, the rest density and, by equation 7, k are 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.fluid import require_amounts

INTEGRATORS = ("euler", "symplectic")
POLY6 = 315 / (64 * math.pi)
SPIKY = 45 / math.pi  # factor in the spiky kernel's slope and the viscosity kernel's Laplacian

# The layout of `struct Fluid` in kernels/common/sph.h.
FLUID_DTYPE = np.dtype([
    ("weight", np.float32), ("floor", np.float32), ("pressure", np.float32),
    ("viscosity", np.float32), ("gravity", np.float32, 3), ("time_step", np.float32),
    ("wall_stiffness", np.float32), ("wall_damping", np.float32), ("wall_distance", np.float32),
    ("wall_epsilon", np.float32), ("contact_stiffness", np.float32),
    ("contact_damping", np.float32), ("contact_distance", np.float32),
    ("density_rounder", np.float32), ("rounder", np.float32), ("force_step", np.float32),
    ("inverse_force_step", np.float32),
])  # fmt: skip
DENSITY_STEP = 2.0**-22  # each neighbour's density term is rounded to this
COMPRESSION = 0.1  # a pair's force at this compression sets the range of force steps


def poly6(r: Floats) -> Floats:
    """Return W of equation 8 at distances r, any shape, for a kernel radius of 1."""
    return np.where(r <= 1, POLY6 * (1 - r**2) ** 3, 0.0)


def poly6_slope(r: Floats) -> Floats:
    """Return the derivative of `poly6`."""
    return np.where(r <= 1, -6 * POLY6 * r * (1 - r**2) ** 2, 0.0)


def spiky(r: Floats) -> Floats:
    """Return W of equation 9."""
    return np.where(r <= 1, 15 / math.pi * (1 - r) ** 3, 0.0)


def spiky_slope(r: Floats) -> Floats:
    """Return the derivative of `spiky`."""
    return np.where(r <= 1, -SPIKY * (1 - r) ** 2, 0.0)


def viscous(r: Floats) -> Floats:
    """Return W of equation 10, reading its h/2r as h / (2 r); infinite at 0."""
    with np.errstate(divide="ignore"):
        inside = -(r**3) / 2 + r**2 + 1 / (2 * np.asarray(r, np.float64)) - 1
    return np.where(r <= 1, 15 / (2 * math.pi) * inside, 0.0)


def viscous_laplacian(r: Floats) -> Floats:
    """Return the Laplacian of `viscous` in three dimensions."""
    return np.where(r <= 1, SPIKY * (1 - r), 0.0)


def spacing_for(neighbours: float) -> float:
    """Return the spacing of a lattice with this number of particles in a kernel radius."""
    return float((4 / 3 * math.pi / neighbours) ** (1 / 3))


def mass_for(spacing: float, kernel: Callable[[Floats], Floats] = poly6) -> float:
    """Return the particle mass that gives a lattice of this spacing the rest density."""
    return 1 / float(kernel(_lattice(spacing)).sum())


def slope_for(spacing: float) -> float:
    """Return m times the factor of the spiky kernel's slope, normalised on a lattice at rest.

    With this factor, the virial pressure of a lattice at rest agrees with the equation of state.
    Normalising by the integral over space gives SPIKY times the mass, a few percent less.
    """
    r = _lattice(spacing)
    return 3 / float((r * (1 - r) ** 2)[r <= 1].sum())


def _lattice(spacing: float) -> Floats:
    """Return the distances of a lattice's particles from one of them, including itself."""
    steps = np.arange(-math.ceil(1 / spacing), math.ceil(1 / spacing) + 1) * spacing
    x, y, z = np.meshgrid(steps, steps, steps)
    r: Floats = np.sqrt(x**2 + y**2 + z**2).ravel()
    return r


@dataclass(frozen=True)
class SPHFluid:
    """The coefficients of the forces.

    spacing: distance of particles at rest. mass: particle mass. viscosity: mu of equation 1.
    gravity: acceleration along x, y, z.
    cuts: whether densities below the rest density are raised to it, to avoid negative pressure.
    wall_stiffness, wall_damping, wall_distance: K_s, K_d and the range of equation 13, which here
        gives accelerations.
    wall_epsilon: the collision accuracy of equation 13: walls start to push at this depth within
        `wall_distance`.
    contact_stiffness, contact_damping, contact_distance: k, eta and t_rad of equations 11 and 12,
        divided by a particle's mass.
    """

    spacing: float
    mass: float
    viscosity: float
    gravity: tuple[float, float, float]
    cuts: bool
    wall_stiffness: float
    wall_damping: float
    wall_distance: float
    contact_stiffness: float = 0.0
    contact_damping: float = 0.0
    contact_distance: float = 0.0
    wall_epsilon: float = 0.0

    def __post_init__(self) -> None:
        require_amounts(self)
        if not (0 < self.spacing <= 1 and self.mass > 0):
            raise UserError(
                "spacing and mass must be positive, and the spacing at most the kernel radius, not"
                f" {self.spacing:g} and {self.mass:g}"
            )
        if self.contact_distance > 1:
            raise UserError(
                f"contact_distance must be at most the kernel radius 1, not {self.contact_distance}"
            )

    @property
    def force_step(self) -> float:
        """The step to which the acceleration by a neighbour is rounded, so that sums are exact.

        As in fluid.Fluid.force_step: the range holds 32 times the acceleration by a neighbour at
        the pressure of COMPRESSION, or by a contact.
        """
        strongest = max(
            slope_for(self.spacing) * 2 * COMPRESSION,
            self.mass * SPIKY * self.viscosity,
            self.contact_stiffness * self.contact_distance,
        )
        return 2.0 ** (math.ceil(math.log2(32 * strongest)) - 24)

    def packed(self, time_step: float) -> NDArray[np.void]:
        """Return the fluid as the kernels read it: one element of FLUID_DTYPE.

        floor: the minimum density. pressure, viscosity: include constant factors of the sums over
        neighbours. The rounders are 1.5 * 2^23 steps; see fluid.Fluid.packed.
        """
        packed = np.zeros(1, FLUID_DTYPE)
        packed["weight"] = self.mass * POLY6
        packed["floor"] = 1.0 if self.cuts else 0.0
        packed["pressure"] = slope_for(self.spacing)
        packed["viscosity"] = self.mass * SPIKY * self.viscosity
        packed["time_step"], packed["gravity"] = time_step, self.gravity
        for name in ("wall", "contact"):
            for what in ("stiffness", "damping", "distance"):
                packed[f"{name}_{what}"] = getattr(self, f"{name}_{what}")
        packed["wall_epsilon"] = self.wall_epsilon
        packed["density_rounder"] = 1.5 * 2**23 * DENSITY_STEP
        packed["rounder"] = 1.5 * 2**23 * self.force_step
        packed["force_step"], packed["inverse_force_step"] = self.force_step, 1 / self.force_step
        return packed
