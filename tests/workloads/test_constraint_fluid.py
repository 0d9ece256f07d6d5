"""The fluid held by constraints: one trajectory whatever keeps the cells, steps as in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpubench.core import registry
from gpubench.core.contracts import CellList
from gpubench.core.errors import UserError
from gpubench.devices import Device, missing_feature
from gpubench.workloads.constraint_fluid import ConstraintFluid
from gpubench.workloads.workload import BlowUp

FORMS = [
    (name, form)
    for name, cls in registry.algorithms().items()
    if issubclass(cls, CellList)
    for form in cls.forms
]
PARTICLES = 700
ROOM = {"fixed-capacity": {"capacity": 40}, "adaptive-bitonic": {"chunk": 32}}
# Few iterations, most of them needed; in the second case the solve ends early.
SOLVES: list[dict[str, Any]] = [
    {"iterations": 6, "restart": 4, "tolerance": 1e-4, "time_step": 2.0},
    {"solver": "jacobi", "iterations": 12},
]


def made(
    device: Device,
    algorithm: str = "counting-sort",
    form: str = "order",
    particles: int = PARTICLES,
    seed: int = 5,
    skin: float = 0.0,
    **parameters: Any,
) -> ConstraintFluid:
    cls: Any = registry.find_algorithm(algorithm)
    if lacking := missing_feature(cls.forms[form].requires, device):
        pytest.skip(lacking)
    given = {"viscosity": 0.03, **ROOM.get(algorithm, {}), **parameters}
    return ConstraintFluid(device, particles, cls, form, given, seed, skin)


def trajectory(simulation: ConstraintFluid, steps: int) -> bytes:
    """Return all positions, velocities and pressures after some steps, bit for bit."""
    simulation.advance(steps)
    simulation.require_sound()
    state = simulation.state()
    by_id = np.argsort(state["places"][:, 3])
    return b"".join(state[name][by_id].tobytes() for name in ("places", "velocities"))


@pytest.fixture(scope="module")
def reference(device):
    return [trajectory(made(device, "atomic-list", "one-pass", **each), 8) for each in SOLVES]


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("algorithm", "form"), FORMS)
def test_every_cell_list_gives_the_same_trajectory(device, reference, algorithm, form, number):
    simulation = made(device, algorithm, form, **SOLVES[number])
    assert trajectory(simulation, 8) == reference[number]


@pytest.mark.second_runtime
def test_lists_of_neighbours_give_the_same_trajectory(device, reference):
    assert trajectory(made(device, skin=0.2, **SOLVES[0]), 8) == reference[0]


def test_neighbours_beyond_the_notes_are_searched_again(device, reference, monkeypatch):
    monkeypatch.setattr("gpubench.workloads.constraint_fluid.NOTED", 0.5)
    assert trajectory(made(device, **SOLVES[0]), 8) == reference[0]


def test_a_restored_state_goes_on_bit_for_bit(device):
    first = made(device)
    first.advance(3)
    second = made(device, seed=6)
    second.restore(first.state())
    assert trajectory(second, 3) == trajectory(first, 3)


@pytest.mark.second_runtime
@pytest.mark.parametrize("number", [0, 1])
def test_steps_are_those_of_float64(device, number):
    simulation = made(device, **SOLVES[number])
    simulation.advance(6)
    assert simulation.check() is None


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
    assert "the residual is told as" in (simulation.check() or "")


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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"compliance": -0.1}, "compliance must not be negative"),
        ({"iterations": 0}, "iterations must be 1 to 10000, not 0"),
        ({"restart": 0}, "restart must be 1 to 10000, not 0"),
        ({"time_step": 0.0}, "time_step must be positive"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"warm_start": 1.5}, "warm_start must be 0 to 1"),
        ({"solver": "cholesky"}, "solver must be one of conjugate-gradients, jacobi"),
        ({"neighbours": 3.0}, "neighbours must be 8 to 200"),
    ],
)
def test_bad_parameters_are_refused(opencl_device, parameters, message):
    with pytest.raises(UserError, match=message):
        made(opencl_device, **parameters)


def test_a_step_that_is_too_long_is_told(opencl_device):
    simulation = made(opencl_device, time_step=30.0, mach=0.5)
    simulation.advance(20)
    with pytest.raises(BlowUp, match=r"make the time step smaller than 30"):
        simulation.require_sound()


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
