"""Observables of one snapshot: temperature, momentum, pressure, structure.

In two dimensions particles lie in a plane of constant z, and areas replace volumes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats, Integers
from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.forces import virial
from gpubench.physics.pairs import ordered_pairs


@dataclass(frozen=True)
class Temperature:
    """Kinetic temperatures, in units of energy (k T).

    overall: temperature of all particles, in the frame of their common centre of mass.
    species: temperatures of species 0 and 1, each in its own centre-of-mass frame, so that relative
        streaming is not counted as heat. NaN for a species of fewer than two particles.
    """

    overall: float
    species: tuple[float, float]


@dataclass(frozen=True)
class RadialDistribution:
    """The radial distribution function.

    distance: float64 (bins,), bin centres. g: float64 (bins,), 1 for an ideal gas.
    """

    distance: Floats
    g: Floats


def observed(workload: str, seen: Mapping[str, Any]) -> dict[str, Any]:
    """Return a simulation's observations at one time under their current names.

    Up to version 0.2.0, DPD's `kinetic_temperature` was that at half steps.
    """
    if not workload.startswith("dpd-") or "half_step_temperature" in seen:
        return dict(seen)
    names = {"kinetic_temperature": "half_step_temperature"}
    return {names.get(name, name): value for name, value in seen.items()}


def momentum(velocities: Floats, species: Integers, fluid: Fluid) -> Floats:
    """Return the total momentum, float64 (3,)."""
    total: Floats = np.asarray(fluid.mass)[species] @ velocities
    return total


def temperature(
    velocities: Floats, species: Integers, fluid: Fluid, dimensions: int = 3
) -> Temperature:
    """Return the kinetic temperatures; velocities: float64 (particles, 3)."""
    mass = np.asarray(fluid.mass)[species]
    of_species = (
        _kinetic_temperature(velocities[chosen], mass[chosen], dimensions)
        for chosen in (species == 0, species == 1)
    )
    first, second = of_species
    return Temperature(_kinetic_temperature(velocities, mass, dimensions), (first, second))


def _kinetic_temperature(velocities: Floats, mass: Floats, dimensions: int) -> float:
    """Return the sum of m v^2 per degree of freedom, relative to the centre of mass."""
    if len(mass) < 2:
        return math.nan
    thermal = velocities - mass @ velocities / mass.sum()
    twice_energy = float(mass @ np.einsum("pk,pk->p", thermal, thermal))
    return twice_energy / (dimensions * (len(mass) - 1))


def pressure(
    positions: Floats,
    species: Integers,
    box: Box,
    fluid: Fluid,
    temperature: float,
    dimensions: int = 3,
) -> float:
    """Return rho k T + (sum of r f_C over pairs) / (d V); d: dimensions, f_C: conservative force.

    temperature: k T, measured or nominal. Drag and noise add nothing on average (Groot and
    Warren 1997). In a box with walls it is the mean over the box, without the walls' contribution.
    """
    volume = _volume(box, dimensions)
    return len(positions) * temperature / volume + virial(positions, species, box, fluid) / (
        dimensions * volume
    )


def radial_distribution(
    positions: Floats, box: Box, reach: float, bins: int, dimensions: int = 3
) -> RadialDistribution:
    """Return g(r) up to `reach` in `bins` equal bins.

    Raises UserError where an axis of the fluid is not periodic, as walls would cut off shells.
    """
    if not all(box.periodic[:dimensions]):
        raise UserError("a radial distribution needs a box that is periodic along all its axes")
    if (particles := len(positions)) < 2:
        raise UserError(f"a radial distribution needs two particles or more, not {particles}")
    edges = np.linspace(0, reach, bins + 1)
    counts = np.zeros(bins)
    for pairs in ordered_pairs(positions, box, reach):
        counts += np.histogram(pairs.distance, edges)[0]
    ball = {2: math.pi, 3: 4 / 3 * math.pi}[dimensions] * edges**dimensions
    expected = particles * (particles - 1) / _volume(box, dimensions) * np.diff(ball)
    return RadialDistribution((edges[1:] + edges[:-1]) / 2, counts / expected)


def _volume(box: Box, dimensions: int) -> float:
    """Return the volume, or the area of the x-y plane in two dimensions."""
    return math.prod(box.size[:dimensions])
