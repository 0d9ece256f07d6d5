"""The Lennard-Jones fluid in float64: forces, energy, pressure, and a check of its steps.

Units: sigma, epsilon and mass are 1. Forces are cut off, so what a trajectory conserves is the
energy of the potential shifted to 0 at the cutoff; other codes report it unshifted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.pairs import OrderedPairs, ordered_pairs
from gpubench.physics.step import DPDStep

NOTHING = (0.0, 0.0, 0.0)
LEAST = 0.5  # distances count as at least this, as in kernels/lj_fluid.cu
# Pair forces up to 2^22 of these steps (1,024) and sums up to 2^24 are exact.
FORCE_STEP = 2.0**-12
# Relative errors in float32: of a distance near the cutoff, and of a pair's force.
NEAR, ROUNDING = 2e-6, 1e-5
# The melt of bench/in.lj and tolerances, by LAMMPS: see physics_checks/lennard_jones.py.
MELT = {
    "kinetic_temperature": (0.6975, 0.003),
    "pressure": (0.749, 0.02),
    "potential_energy": (-5.6664, 0.0045),  # per particle, cut off and not shifted
}
MOST_DRIFT = 3e-3  # of the energy of a particle, over a run


@dataclass(frozen=True)
class LennardJones(Fluid):
    """The fluid: mass and cutoff. The coefficients of dissipative particle dynamics are 0."""

    repulsion: tuple[float, float, float] = NOTHING
    friction: tuple[float, float, float] = NOTHING
    noise: tuple[float, float, float] = NOTHING
    cutoff: float = 2.5

    def force_step(self, time_step: float) -> float:
        """Return the step to which each pair's force is rounded, so that sums are exact."""
        return FORCE_STEP


@dataclass(frozen=True)
class Potential:
    """Sums over all pairs: the energy, shifted at the cutoff or not, and distance times force."""

    energy: float
    shifted: float
    virial: float


def potential(positions: Floats, box: Box, cutoff: float) -> Potential:
    """Return the sums over pairs; positions: float64 (particles, 3)."""
    energy = virial = pairs = 0.0
    for near in ordered_pairs(positions, box, cutoff):
        s6 = _inverse_square(near) ** 3
        energy += 2 * float((s6**2 - s6).sum())  # each pair comes twice
        virial += 12 * float((2 * s6**2 - s6).sum())
        pairs += len(s6) / 2
    return Potential(energy, energy - pairs * 4 * (cutoff**-12 - cutoff**-6), virial)


def _inverse_square(pairs: OrderedPairs) -> Floats:
    inverse: Floats = np.maximum(pairs.distance, LEAST) ** -2.0
    return inverse


class LJStep(DPDStep):
    """A comparison of a step with the reference."""

    def expected(
        self, near: NDArray[np.intp], step: int, seed: int, generator: str
    ) -> tuple[Floats, float | Floats]:
        """Return forces; a pair within rounding of the cutoff may count or not."""
        positions, cutoff = self.box.to_positions(self.before["places"][near]), self.fluid.cutoff
        forces, slack = np.zeros((2, 3, len(near)))
        for pairs in ordered_pairs(positions, self.box, cutoff * (1 + NEAR)):
            inverse = _inverse_square(pairs)
            factor = 24 * (2 * inverse**6 - inverse**3) * inverse
            is_near = np.abs(pairs.distance / cutoff - 1) < NEAR
            error = np.abs(factor) * np.where(is_near, 1.0, ROUNDING)
            counted = np.where(pairs.distance < cutoff, factor, 0.0)
            for axis, along in enumerate(pairs.offset.T):
                forces[axis] += np.bincount(pairs.first, counted * along, len(near))
                slack[axis] += np.bincount(pairs.first, error * np.abs(along), len(near))
        return forces.T, slack.T
