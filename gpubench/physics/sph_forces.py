"""Densities and accelerations of the fluid of SPH in float64, to compare the kernels' with.

The formulas are those of gpubench.physics.sph. Walls and contacts with bodies are apart, in
gpubench.physics.contact.
"""

from __future__ import annotations

import numpy as np

from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.pairs import ordered_pairs
from gpubench.physics.sph import SPHFluid, poly6


def densities(positions: Floats, box: Box, fluid: SPHFluid) -> Floats:
    """Return the density at each particle by equation 4, itself included, uncut.

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

    positions, velocities: float64 (particles, 3). density: float64 (particles,), cut where the
    fluid's is. By pressure along the slope of the spiky kernel, with p = rho - 1, and by viscosity
    with its Laplacian. Coincident particles have no direction, and no pressure on each other.
    """
    constants = fluid.packed(1.0)[0]  # as the kernels have them
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
    """Return the pressure that the forces exert in a periodic box: their virial over 3 volumes.

    What a force over an area is, whatever the equation of state says. Arguments as those of
    `accelerations`.
    """
    constants = fluid.packed(1.0)[0]
    pressure = density - 1
    total = 0.0
    for pairs in ordered_pairs(positions, box, 1.0):
        i, j = pairs.first, pairs.second
        mean = (pressure[i] + pressure[j]) / (density[i] * density[j])
        total += float(mean @ ((1 - pairs.distance) ** 2 * pairs.distance))
    # Each pair came twice.
    return fluid.mass * float(constants["pressure"]) * total / 2 / (3 * box.volume)
