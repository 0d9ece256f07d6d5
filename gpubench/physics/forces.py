"""Forces of dissipative particle dynamics in float64: the reference for the kernels.

The forces are those of gpubench.physics.fluid. Walls reflect, and gravity acts on the velocities,
so neither is included.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from gpubench.physics.arrays import Floats, Integers
from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.noise import pair_noise
from gpubench.physics.pairs import ordered_pairs

PARTS = ("conservative", "dissipative", "random")


def pair_forces(
    positions: Floats,
    velocities: Floats,
    ids: Integers,
    species: Integers,
    box: Box,
    fluid: Fluid,
    time_step: float,
    step: int,
    seed: int,
    parts: Collection[str] = PARTS,
    generator: str = "philox-10",
) -> Floats:
    """Return the force on each particle from all others, float64 (particles, 3).

    positions: float64 (particles, 3). velocities: likewise, as used in the drag.
    ids: the particle ids that seed the noise. species: 0 or 1.
    step, seed, generator: see noise.pair_noise. parts: which of PARTS to add up.
    Coincident particles exert no force on each other: they define no direction.
    """
    if unknown := set(parts) - set(PARTS):
        raise ValueError(f"no part of the force is called {unknown}: they are {PARTS}")
    repulsion, friction, noise = (
        np.asarray(values) for values in (fluid.repulsion, fluid.friction, fluid.noise)
    )
    forces = np.zeros((3, len(positions)))
    for pairs in ordered_pairs(positions, box, fluid.cutoff):
        i, j = pairs.first, pairs.second
        kind = species[i] + species[j]
        weight = 1 - pairs.distance / fluid.cutoff
        direction = pairs.offset / np.where(pairs.distance > 0, pairs.distance, 1)[:, None]
        strength = np.zeros(len(i))
        if "conservative" in parts:
            strength += repulsion[kind] * weight
        if "dissipative" in parts:
            receding = np.einsum("pk,pk->p", direction, velocities[i] - velocities[j])
            strength -= friction[kind] * weight**2 * receding
        if "random" in parts:
            unit_variance = math.sqrt(3) * pair_noise(ids[i], ids[j], step, seed, generator)
            strength += noise[kind] * weight * unit_variance / math.sqrt(time_step)
        for axis in range(3):
            np.add.at(forces[axis], i, strength * direction[:, axis])
    return forces.T


def conservative_energy(positions: Floats, species: Integers, box: Box, fluid: Fluid) -> float:
    """Return the conservative potential energy: the sum over pairs of a * cutoff * w^2 / 2."""
    repulsion = np.asarray(fluid.repulsion)
    energy = 0.0
    for pairs in ordered_pairs(positions, box, fluid.cutoff):
        weight = 1 - pairs.distance / fluid.cutoff
        energy += float(repulsion[species[pairs.first] + species[pairs.second]] @ weight**2)
    return energy * fluid.cutoff / 4  # each pair was visited twice


def virial(positions: Floats, species: Integers, box: Box, fluid: Fluid) -> float:
    """Return the virial of the conservative forces: the sum of distance times force over pairs.

    With all lengths scaled by s, it is -dE / d(ln s), where E is `conservative_energy`.
    """
    repulsion = np.asarray(fluid.repulsion)
    total = 0.0
    for pairs in ordered_pairs(positions, box, fluid.cutoff):
        force = repulsion[species[pairs.first] + species[pairs.second]] * (
            1 - pairs.distance / fluid.cutoff
        )
        total += float(force @ pairs.distance)
    return total / 2  # each pair was visited twice
