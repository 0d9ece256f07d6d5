"""Densities and accelerations of the SPH fluid in float64: the reference for the kernels.

The formulas are those of gpubench.physics.sph. Walls and contacts with bodies are separate, in
gpubench.physics.contact.
"""

from __future__ import annotations

import numpy as np

from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.pairs import ordered_pairs
from gpubench.physics.sph import SPHFluid, poly6


def densities(positions: Floats, box: Box, fluid: SPHFluid) -> Floats:
    """Return the density at each particle by equation 4, including itself, not cut.

    positions: float64 (particles, 3).
    """
    found = np.full(len(positions), fluid.mass * float(poly6(np.zeros(()))))
    for pairs in ordered_pairs(positions, box, 1.0):
        found += np.bincount(
            pairs.first, fluid.mass * poly6(pairs.distance), minlength=len(positions)
        )
    return found


def accelerations(
    positions: Floats, velocities: Floats, density: Floats, box: Box, fluid: SPHFluid
) -> Floats:
    """Return the acceleration of each particle by the others, float64 (particles, 3).

    positions, velocities: float64 (particles, 3). density: float64 (particles,), cut if the fluid
    cuts it. Pressure acts along the slope of the spiky kernel, with p = rho - 1; viscosity uses its
    Laplacian. Coincident particles define no direction, and exert no pressure on each other.
    """
    constants = fluid.packed(1.0)[0]  # as in the kernels
    pressure = density - 1
    found = np.zeros((3, len(positions)))
    for pairs in ordered_pairs(positions, box, 1.0):
        i, j = pairs.first, pairs.second
        gap = 1 - pairs.distance
        both = density[i] * density[j]
        push = constants["pressure"] * (pressure[i] + pressure[j]) / both * gap**2
        push /= np.where(pairs.distance > 0, pairs.distance, 1)
        drag = constants["viscosity"] * gap / both
        for axis in range(3):
            towards = velocities[j, axis] - velocities[i, axis]
            along = push * pairs.offset[:, axis] + drag * towards
            found[axis] += np.bincount(i, along, minlength=len(positions))
    return found.T


def mean_pressure(positions: Floats, density: Floats, box: Box, fluid: SPHFluid) -> float:
    """Return the virial pressure of the forces in a periodic box: their virial over 3 volumes.

    It is the actual force per area, independent of the equation of state. Arguments as in
    `accelerations`.
    """
    constants = fluid.packed(1.0)[0]
    pressure = density - 1
    total = 0.0
    for pairs in ordered_pairs(positions, box, 1.0):
        i, j = pairs.first, pairs.second
        mean = (pressure[i] + pressure[j]) / (density[i] * density[j])
        total += float(mean @ ((1 - pairs.distance) ** 2 * pairs.distance))
    # Each pair was visited twice.
    return fluid.mass * float(constants["pressure"]) * total / 2 / (3 * box.volume)
