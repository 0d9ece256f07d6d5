"""The fluid held by constraints: one trajectory whatever keeps the cells, steps as in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpubench.core import registry
from gpubench.core.contracts import CellList
from gpubench.core.errors import UserError
from gpubench.devices import Device, missing_feature
from gpubench.physics.constraint import constraint_values, impulses, rates
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
