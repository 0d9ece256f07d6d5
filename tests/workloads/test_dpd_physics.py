"""DPD on every device against float64: forces, trajectories, and what the fluid is known for."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpubench.physics.box import Box
from gpubench.physics.fluid import Fluid
from gpubench.physics.forces import conservative_energy, pair_forces
from gpubench.physics.noise import pair_noise
from gpubench.physics.observables import pressure
from gpubench.physics.pairs import nearest_image
from gpubench.physics_checks.equilibrium import (
    AT_FULL_STEP,
    LAGGED_AT_HALF_STEP,
    kinetic_temperatures,
)
from gpubench.physics_checks.simulations import make
from gpubench.workloads.dpd import DPD, DPDRayleighTaylor, DPDSeparation, DPDStandard

# Share of the last change of velocity that the velocity in the drag has beyond the half step.
AHEAD = {"velocity-verlet": 0.0, "groot-warren": 0.15, "leap-frog": 0.5}
SEED, PARTICLES = 7, 600
# No two coefficients are the same, and no pair keeps the temperature of another.
UNLIKE: dict[str, float] = {
    "repulsion_aa": 25.0, "repulsion_ab": 47.0, "repulsion_bb": 13.0,
    "friction_aa": 4.5, "friction_ab": 7.5, "friction_bb": 2.5,
    "noise_aa": 3.0, "noise_ab": 5.0, "noise_bb": 1.75,
    "mass_a": 0.6, "mass_b": 1.7,
}  # fmt: skip
MODELS: dict[str, tuple[type[DPD], dict[str, Any]]] = {
    "standard": (DPDStandard, {"time_step": 0.03}),
    "unlike": (DPDSeparation, {**UNLIKE, "walls": "none", "time_step": 0.02}),
    "walls": (DPDRayleighTaylor, {**UNLIKE, "gravity": 4.0, "depth": 4.0, "time_step": 0.02}),
    "plane": (DPDSeparation, {**UNLIKE, "dimensions": 2, "walls": "none", "time_step": 0.02}),
    "walls-of-plane": (
        DPDRayleighTaylor, {**UNLIKE, "dimensions": 2, "gravity": 4.0, "time_step": 0.02}
    ),
}  # fmt: skip
every_model = pytest.mark.parametrize("model", MODELS)


class Fluids(NamedTuple):
    """All particles in the order of their ids, in float64."""

    positions: np.ndarray
    velocities: np.ndarray
    drags: np.ndarray
    species: np.ndarray


def simulation(device: Any, model: str, **more: Any) -> DPD:
    workload, parameters = MODELS[model]
    return make(device, workload, PARTICLES, SEED, **{**parameters, **more})


def particles_of(made: DPD) -> Fluids:
    state = made.state()
    order = np.argsort(state["places"][:, 3])
    columns = [state[name][order] for name in (made.columns[0], made.columns[-1])]
    velocities, drags = (column[:, :3].astype(np.float64) for column in columns)
    species = columns[0][:, 3].view(np.int32)
    return Fluids(made.box.to_positions(state["places"][order]), velocities, drags, species)


def forces(p: Fluids, box: Box, fluid: Fluid, time_step: float, step: int) -> np.ndarray:
    ids = np.arange(len(p.species))
    return pair_forces(
        p.positions, p.drags, ids, p.species, box, fluid, time_step, step, SEED
    )  # fmt: skip


def leap(p: Fluids, box: Box, fluid: Fluid, time_step: float, step: int, ahead: float) -> Fluids:
    """Do a step of leap-frog: kick from half step to half step, drift, and come back from walls."""
    mass = np.asarray(fluid.mass)[p.species][:, None]
    kick = time_step * (forces(p, box, fluid, time_step, step) / mass + fluid.gravity)
    velocities = p.velocities + kick
    drags = velocities + ahead * kick
    positions = p.positions + time_step * velocities
    for axis, edge in enumerate(box.size):
        x = positions[:, axis]
        if box.periodic[axis]:
            x %= edge
            continue
        outside = (x < 0) | (x > edge)
        x[outside] = np.where(x[outside] < 0, -x[outside], 2 * edge - x[outside])
        velocities[outside, axis] *= -1
        drags[outside, axis] *= -1
    return Fluids(positions, velocities, drags, p.species)


def apart(one: np.ndarray, other: np.ndarray, box: Box) -> float:
    """Return the furthest that two sets of positions are apart along an axis."""
    return float(np.abs(nearest_image(one - other, box)).max())


@pytest.mark.second_runtime
@every_model
def test_forces_of_a_step(device, model):
    """From the velocities of one step, and from a state that has lost its even start."""
    made = simulation(device, model)
    made.advance(4)
    before = particles_of(made)
    expected = forces(before, made.box, made.fluid, made.time_step, made.step)
    now = made.snapshot()
    mass = np.asarray(made.fluid.mass)[before.species][:, None]
    gravity = np.asarray(made.fluid.gravity)
    # Half a kick lies between the velocities at the half step and at the full step.
    kick = 2 * (now.velocities - now.half_step_velocities)
    found = (kick / made.time_step - gravity) * mass
    tolerance = 32 * made.fluid.force_step(made.time_step) + 1e-6 / made.time_step
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    assert np.sqrt(np.mean(expected**2)) > 500 * tolerance


@pytest.mark.second_runtime
@every_model
@pytest.mark.parametrize("integrator", AHEAD)
def test_trajectory_of_five_steps(device, model, integrator):
    made = simulation(device, model, integrator=integrator)
    expected = particles_of(made)
    start = expected
    for step in range(5):
        expected = leap(expected, made.box, made.fluid, made.time_step, step, AHEAD[integrator])
    made.advance(5)
    made.require_sound()
    found = particles_of(made)
    assert apart(found.positions, expected.positions, made.box) < 5e-5
    for one, other in zip(found[1:3], expected[1:3], strict=True):
        # A pair that meets almost head on turns a rounding into much more.
        assert np.abs(one - other).max() < 2e-3
        assert np.sqrt(np.mean((one - other) ** 2)) < 5e-5
    assert apart(start.positions, expected.positions, made.box) > 0.05
    if not made.box.periodic[2]:
        ahead = start.positions[:, 2] + 5 * made.time_step * start.velocities[:, 2]
        assert ((ahead < 0) | (ahead > made.box.size[2])).any()


def test_noise_of_a_pair_alone(device):
    """Two particles at rest, of which nothing acts but noise: its size, and its sign each step."""
    made = make(
        device, DPDStandard, 2, SEED, density=2 / 4**3, repulsion=0.0, friction=0.0,
        time_step=0.01,
    )  # fmt: skip
    state = made.state()
    state["velocities"][:, :3] = 0
    distance = 0.6
    positions = np.array([[1.0, 2, 2], [1.0 + distance, 2, 2]])
    state["places"][:, :3] = made.box.to_units(positions)
    state["places"][:, 3] = 0, 1
    for step in range(8):
        state["step"] = np.array(step, np.int64)
        made.restore(state)
        made.advance(1)
        theta = math.sqrt(3) * float(pair_noise(np.array(0), np.array(1), step, SEED))
        kick = 3.0 * theta * (1 - distance) / math.sqrt(0.01) * 0.01
        velocities = made.snapshot().half_step_velocities
        np.testing.assert_allclose(velocities[:, 0], [-kick, kick], atol=1e-5)
        assert np.abs(velocities[:, 1:]).max() == 0


@pytest.mark.long
@pytest.mark.parametrize("time_step", [0.02, 0.04])
def test_the_fluid_keeps_its_temperature(device, time_step):
    """Both readings; a friction or noise of 5 % more or less would be outside."""
    fluid = make(device, DPDStandard, 3000, time_step=time_step)
    half, full = kinetic_temperatures(fluid, span=12.8)
    assert half.value == pytest.approx(LAGGED_AT_HALF_STEP[time_step], abs=0.025)
    assert full.value == pytest.approx(AT_FULL_STEP[time_step], abs=0.025)


@pytest.mark.long
def test_the_pressure_is_the_published_one(device):
    fluid = make(device, DPDStandard, 3000, time_step=0.02)
    found = []
    for _ in range(6):
        fluid.advance(100)
        now = fluid.snapshot()
        found.append(pressure(now.positions, now.species, fluid.box, fluid.fluid, 1.0))
    fluid.require_sound()
    assert np.mean(found[2:]) == pytest.approx(23.64, abs=0.15)


def test_energy_is_bounded_without_friction_and_noise(device):
    """By as much as the time step's square lets it, which only leap-frog's own velocities show."""
    settled = make(device, DPDStandard, 600, time_step=0.02)
    settled.advance(200)
    start = settled.state() | {"step": np.array(0, np.int64)}
    spreads = []
    for time_step in (0.005, 0.02):
        free = make(device, DPDStandard, 600, time_step=time_step, friction=0.0, noise=0.0)
        free.restore(start)
        energies = []
        for _ in range(20):
            free.advance(round(0.1 / time_step))
            now = free.snapshot()
            energies.append(
                float((now.velocities**2).sum()) / 2
                + conservative_energy(now.positions, now.species, free.box, free.fluid)
            )
        free.require_sound()
        spreads.append(np.std(energies) / 600)
    assert spreads[0] < 5e-5
    assert spreads[1] < 1.2e-3
    assert 4 < spreads[1] / spreads[0] < 60
