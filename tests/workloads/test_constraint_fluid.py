"""The fluid held by constraints: steps as in float64, and what a solve tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import small_simulations
from small_simulations import trajectory

from gpubench.base.errors import UserError
from gpubench.devices import Device
from gpubench.workloads.constraint_fluid import MATRICES, ConstraintFluid

PARTICLES = 700


def made(device: Device, **given: Any) -> ConstraintFluid:
    return small_simulations.made(device, ConstraintFluid, **{"viscosity": 0.03, **given})


# Few iterations, most of them needed; in the second case the solve ends early.
SOLVES: list[dict[str, Any]] = [
    {"iterations": 6, "restart": 4, "tolerance": 1e-4, "time_step": 2.0},
    {"solver": "jacobi", "iterations": 12},
]
STORED = [matrix for matrix in MATRICES if matrix != "free"]


@pytest.mark.second_runtime
@pytest.mark.parametrize("number", [0, 1])
def test_steps_are_those_of_float64(device, number):
    simulation = made(device, **SOLVES[number])
    simulation.advance(6)
    assert simulation.check() is None


@pytest.mark.second_runtime
@pytest.mark.parametrize("matrix", STORED)
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_stored_matrix_solves_the_same(device, number, matrix):
    simulation = made(device, matrix=matrix, **SOLVES[number])
    free = made(device, **SOLVES[number])
    for each in (simulation, free):
        each.advance(6)
    largest = free.pressures().max()
    assert largest > 0
    assert np.abs(simulation.pressures() - free.pressures()).max() < 1e-3 * largest
    assert simulation.check() is None
    words = {"float4": 4, "planes": 3}[matrix]
    stored = simulation.workspace_bytes - free.workspace_bytes
    assert stored == 4 * words * PARTICLES * 48  # 1.6 times 30 neighbours


def test_layouts_of_the_matrix_give_one_trajectory_to_the_bit(device):
    found = [trajectory(made(device, matrix=matrix, tolerance=1e-4), 6) for matrix in STORED]
    assert found[0] == found[1]


def test_steps_of_a_stirred_and_soft_fluid_are_those_of_float64(opencl_device):
    """Here compliance and the velocities before the step weigh in the residual."""
    given = {"compliance": 1.0, "damping": 0.5, "time_step": 2.0}
    simulation = made(opencl_device, length=1.2, **given)
    state = simulation.state()
    velocities = np.random.default_rng(3).normal(0, 0.02, (PARTICLES, 3))
    state["velocities"][:, :3] = velocities
    simulation.restore(state)
    for _ in range(2):
        simulation.advance(1)
        assert simulation.check() is None


def test_steps_at_the_far_wall_of_a_long_box_are_those_of_float64(opencl_device):
    simulation = made(opencl_device, length=60.0, time_step=0.5)
    state = simulation.state()
    state["places"][:, 2] = 2**31 - 1 - state["places"][:, 2]
    simulation.restore(state)
    for _ in range(5):
        simulation.advance(3)
        assert simulation.check() is None


@pytest.mark.parametrize("end", ["low", "high"])
def test_particles_too_near_a_wall_leave_it_as_in_float64(opencl_device, end):
    simulation = made(opencl_device)
    state = simulation.state()
    nearest = np.argsort(state["places"][:, 2])[:10]
    state["places"][nearest, 2] = 2**18 if end == "low" else 2**31 - 2**18
    simulation.restore(state)
    assert simulation.check() is None


def test_wrong_velocities_and_residuals_are_noticed(opencl_device, monkeypatch):
    simulation = made(opencl_device)
    simulation.advance(4)
    original = simulation.state
    calls = []

    def nudged():
        state = original()
        calls.append(None)
        if len(calls) > 1:  # after the step
            state["velocities"][7, 0] += 1e-3
        return state

    monkeypatch.setattr(simulation, "state", nudged)
    assert "the velocity of particle" in (simulation.check() or "")
    monkeypatch.undo()
    simulation.liquid = simulation.liquid.__class__(
        **{**vars(simulation.liquid), "compliance": 0.5}
    )
    assert "the reported residual is" in (simulation.check() or "")


def test_conjugate_gradients_and_jacobi_find_the_same_pressures(opencl_device):
    found = []
    for solver, iterations in (("conjugate-gradients", 200), ("jacobi", 800)):
        # A falling column that is stopped by the floor: pressures from nothing.
        simulation = made(
            opencl_device, solver=solver, iterations=iterations, tolerance=1e-5, mach=0.4
        )
        simulation.advance(1)
        simulation.require_sound()
        assert simulation.solves()["unconverged_steps"] == 0
        found.append(simulation.pressures())
    assert np.abs(found[0] - found[1]).max() < 0.02 * found[0].max()


def test_a_solve_that_does_not_converge_is_said_once_with_its_residual(opencl_device, capsys):
    simulation = made(opencl_device, iterations=1, tolerance=1e-6)
    simulation.advance(3)
    simulation.require_sound()
    simulation.require_sound()
    told = capsys.readouterr().err
    assert told.count("did not converge") == 1
    assert "the solve of step 0" in told and "tolerance 1e-06" in told
    solves = simulation.outcome()
    assert solves["unconverged_steps"] == 3
    assert solves["iterations"] == 1
    assert solves["largest_residual"] >= solves["residual"] > 1e-6


def test_forged_pressures_are_refused(opencl_device):
    simulation = made(opencl_device)
    state = simulation.state()
    state["velocities"][3, 3] = -1.0
    with pytest.raises(UserError, match="pressures that are below 0"):
        simulation.require_possible(state)


def test_a_lone_particle_lies_on_the_floor_and_a_column_falls(opencl_device):
    for particles, falls in ((1, False), (65, True)):
        simulation = made(opencl_device, particles=particles)
        before = simulation.snapshot().positions
        simulation.advance(10)
        simulation.require_sound()
        fallen = (before - simulation.snapshot().positions)[:, 2]
        assert (fallen.mean() > 1e-3) == falls
        assert abs(fallen).max() < 1
