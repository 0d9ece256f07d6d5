"""Two fluids in contact: interfacial tension, and how they settle under their weight."""

from __future__ import annotations

import math

import numpy as np

from gpubench.physics.arrays import Floats, Integers
from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.pairs import ordered_pairs


def interface_stress(positions: Floats, species: Integers, box: Box, fluid: Fluid) -> float:
    """Return the conservative part of edge_z (P_zz - (P_xx + P_yy) / 2); P: the pressure tensor.

    Its time average is the sum of the tensions of all flat interfaces across z: velocities are
    isotropic and contribute nothing. The result is minus the derivative of the energy with respect
    to ln s if the box is stretched by s along z at constant volume, divided by the area.
    """
    repulsion = np.asarray(fluid.repulsion)
    total = 0.0
    for pairs in ordered_pairs(positions, box, fluid.cutoff):
        weight = 1 - pairs.distance / fluid.cutoff
        force = repulsion[species[pairs.first] + species[pairs.second]] * weight
        square = pairs.offset**2
        normal = square[:, 2] - (square[:, 0] + square[:, 1]) / 2
        # Coincident particles define no direction, and exert no force.
        total += float((force / np.where(pairs.distance > 0, pairs.distance, 1)) @ normal)
    return total / 2 / (box.size[0] * box.size[1])  # each pair was visited twice


def settled_heights(
    heights: Floats,
    edge: float,
    light_share: float,
    gravity: float,
    mass: tuple[float, float],
    stiffness: float,
) -> Floats:
    """Return the heights of an initially uniform column's particles, settled under its weight.

    heights: float64 (particles,), 0 to `edge`; particles are light below light_share * edge, heavy
    above. gravity: downwards, positive. mass: light and heavy particle mass. stiffness: derivative
    of the pressure with respect to the number density, assumed uniform, so that the density falls
    as exp(-gravity / stiffness * integral of the mass over z).
    The fraction of particles below each particle is unchanged.
    """
    from scipy.optimize import brentq  # slow to import

    light, heavy = (gravity * m / stiffness for m in mass)  # decay rates of the density

    def below(z: float) -> float:
        return -math.expm1(-light * z) / light

    def above(z: float) -> float:
        return -math.exp(-light * z) * math.expm1(-heavy * (edge - z)) / heavy

    interface = brentq(
        lambda z: below(z) * (1 - light_share) - above(z) * light_share, 0.0, edge, xtol=1e-12
    )
    of_light = below(interface)
    wanted = heights / edge * (of_light + above(interface))
    in_light = -np.log1p(-light * np.minimum(wanted, of_light)) / light
    further = np.maximum(wanted - of_light, 0) * math.exp(light * interface)
    settled: Floats = np.where(
        wanted < of_light, in_light, interface - np.log1p(-heavy * further) / heavy
    )
    return np.clip(settled, 0, edge)
