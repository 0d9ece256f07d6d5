"""SPH on every device: one trajectory whatever keeps the cells, and what must never happen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpubench import registry
from gpubench.contracts import CellList
from gpubench.devices import Device
from gpubench.errors import UserError
from gpubench.studies.runner import missing_feature
from gpubench.workloads.sph import SPH, SPHDamBreak, SPHRigidBody
from gpubench.workloads.workload import BlowUp

FORMS = [
    (name, form)
    for name, cls in registry.algorithms().items()
    if issubclass(cls, CellList)
    for form in cls.forms
]
PARTICLES = 900
ROOM = {"fixed-capacity": {"capacity": 40}, "adaptive-bitonic": {"chunk": 32}}
WORKLOADS: list[tuple[type[SPH], dict[str, Any]]] = [
    (SPHDamBreak, {"mach": 0.4}),
    (SPHDamBreak, {"integrator": "euler", "pressure": "kept", "time_step": 0.1}),
    # Begins in the fluid, so that there are contacts from the first step on.
    (SPHRigidBody, {"drop": -0.6, "body_size": 0.7, "mach": 0.4}),
]


def made(
    device: Device,
    workload: type[SPH] = SPHDamBreak,
    algorithm: str = "counting-sort",
    form: str = "order",
    particles: int = PARTICLES,
    seed: int = 5,
    skin: float = 0.0,
    **parameters: Any,
) -> SPH:
    cls: Any = registry.find_algorithm(algorithm)
    if lacking := missing_feature(cls.forms[form].requires, device):
        pytest.skip(lacking)
    given = {**ROOM.get(algorithm, {}), **parameters}
    return workload(device, particles, cls, form, given, seed, skin)


def bits(simulation: SPH) -> bytes:
    state = simulation.state()
    by_id = np.argsort(state["places"][:, 3])
    bodies = state.pop("bodies", np.zeros(0))
    parts = [state[name][by_id] for name in sorted(state.keys() - {"step"})]
    return b"".join(part.tobytes() for part in [*parts, bodies])


def trajectory(simulation: SPH, steps: int) -> bytes:
    """Return all positions and velocities after some steps, bit for bit."""
    simulation.advance(steps)
    simulation.require_sound()
    return bits(simulation)


@pytest.fixture(scope="module")
def reference(device):
    """Trajectories of each workload over the cell list that is simplest to get right."""
    return [
        trajectory(made(device, workload, "atomic-list", "one-pass", **parameters), 12)
        for workload, parameters in WORKLOADS
    ]


@pytest.mark.parametrize("number", range(len(WORKLOADS)))
@pytest.mark.parametrize(("algorithm", "form"), FORMS)
def test_every_cell_list_gives_the_same_trajectory(device, reference, algorithm, form, number):
    workload, parameters = WORKLOADS[number]
    simulation = made(device, workload, algorithm, form, **parameters)
    assert trajectory(simulation, 12) == reference[number]


def test_lists_of_neighbours_give_the_same_trajectory(device, reference):
    workload, parameters = WORKLOADS[0]
    assert trajectory(made(device, workload, skin=0.2, **parameters), 12) == reference[0]


def test_who_has_more_neighbours_than_noted_finds_them_again(device, reference, monkeypatch):
    monkeypatch.setattr("gpubench.workloads.sph.NOTED", 0.5)
    workload, parameters = WORKLOADS[0]
    assert trajectory(made(device, workload, **parameters), 12) == reference[0]


def test_a_restored_state_goes_on_bit_for_bit(device):
    workload, parameters = WORKLOADS[2]
    first = made(device, workload, **parameters)
    first.advance(5)
    state = first.state()
    second = made(device, workload, seed=6, **parameters)
    second.restore(state)
    assert trajectory(second, 7) == trajectory(first, 7)


def test_a_state_without_its_bodies_is_refused(device):
    simulation = made(device, SPHRigidBody)
    state = simulation.state()
    del state["bodies"]
    with pytest.raises(UserError, match="no state of sph-rigid-body with 3 bodies"):
        simulation.restore(state)


def test_a_step_that_is_too_long_is_told(device):
    simulation = made(device, time_step=50.0, mach=1.0)
    simulation.advance(40)
    with pytest.raises(BlowUp, match=r"make the time step smaller than 50"):
        simulation.require_sound()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"neighbours": 3.0}, "neighbours must be 8 to 200"),
        ({"mach": -1.0}, "mach must be 0 or positive"),
        ({"pressure": "raised"}, "pressure must be one of cut, kept"),
        ({"integrator": "leap-frog"}, "integrator must be one of euler, symplectic"),
        ({"height": 0.0}, "height must be positive"),
        ({"length": 0.5}, "length and top must be at least 1"),
        ({"contact_distance": 3.0}, "contact_distance must be at most the kernel radius"),
    ],
)
def test_bad_parameters_are_refused(device, parameters, message):
    with pytest.raises(UserError, match=message):
        made(device, **parameters)


@pytest.mark.parametrize("particles", [1, 2, 63, 257])
def test_any_number_of_particles_falls(device, particles):
    simulation = made(device, particles=particles)
    before = simulation.snapshot()
    simulation.advance(20)
    simulation.require_sound()
    after = simulation.snapshot()
    assert len(after.positions) == particles
    assert after.positions[:, 2].mean() < before.positions[:, 2].mean()
