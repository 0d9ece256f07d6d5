"""The check of an SPH step: silent where a step is right, and not where anything is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gpubench import registry
from gpubench.physics import motion
from gpubench.physics.box import Box
from gpubench.physics.rigid import RigidBody
from gpubench.physics.sph import SPHFluid, mass_for, spacing_for
from gpubench.physics.sph_forces import accelerations, densities
from gpubench.physics.sph_step import BodiesStep, check_sph_step, with_doubt
from gpubench.workloads.sph import SPH, SPHDamBreak, SPHRigidBody, SPHUnbounded

CASES: dict[str, tuple[type[SPH], dict[str, Any]]] = {
    "dam": (SPHDamBreak, {"mach": 0.4}),
    "euler": (SPHDamBreak, {"integrator": "euler", "pressure": "kept", "time_step": 0.1}),
    "epsilon": (SPHDamBreak, {"mach": 0.4, "wall_distance": 1.0, "wall_epsilon": 0.3}),
    "bodies": (
        SPHRigidBody,
        {"drop": -0.6, "body_size": 0.7, "mach": 0.4, "contact_stiffness": 5.0},
    ),
    "unbounded": (SPHUnbounded, {"mach": 0.4, "away": -10000.0}),
}
ALGORITHMS = [
    ("counting-sort", "order"),
    ("hash-grid", "world-limits"),
    ("atomic-list", "one-pass"),
    ("atomic-resort", None),
]
# Each case over a sort; bodies, and what no grid holds, over a hash grid too. The others are long.
STEPS = [
    pytest.param(case, name, form, marks=[pytest.mark.long] * is_long)
    for case, (workload, _) in CASES.items()
    for name, form in ALGORITHMS
    if workload is not SPHUnbounded or name == "hash-grid"  # no grid has so many cells
    for is_long in [
        name.startswith("atomic") or (name == "hash-grid" and case in ("dam", "euler", "epsilon"))
    ]
]


@dataclass
class Done:
    """A step that a device did."""

    before: dict[str, Any]
    after: dict[str, Any]
    force: np.ndarray
    flow: np.ndarray
    simulation: SPH
    bodies: BodiesStep | None

    def problem(self) -> str | None:
        simulation = self.simulation
        return check_sph_step(
            self.before, self.after, self.force, self.flow, simulation.box, simulation.fluid,
            str(simulation.parameters["integrator"]), simulation.time_step, self.bodies,
        )  # fmt: skip


def unpacked(states: np.ndarray, simulation: SPH) -> list[RigidBody]:
    """Bodies as the kernels have them: momenta are in masses of a particle of the fluid."""
    return [
        replace(
            body,
            centre=simulation.box.to_positions(state[:1].copy().view(np.uint32))[0],
            orientation=np.roll(state[1].astype(np.float64), 1),
            velocity=state[2, :3].astype(np.float64),
            angular_momentum=simulation.fluid.mass * state[3, :3].astype(np.float64),
        )
        for state, body in zip(states, simulation.bodies, strict=True)
    ]


def do_step(simulation: SPH) -> Done:
    before = simulation.state()
    for _, launch in simulation.phases():
        launch()
    simulation.require_sound()
    after, bodies = simulation.state(), None
    if simulation.bodies:
        pushes = simulation.device.download(simulation.on_device.pushes)
        bodies = BodiesStep(
            unpacked(before["bodies"], simulation), unpacked(after["bodies"], simulation), pushes
        )
    force, flow = simulation.in_place(simulation.force), simulation.in_place(simulation.flow)
    return Done(before, after, force, flow, simulation, bodies)


def made(device, case: str, algorithm: str = "counting-sort", form: str | None = "order") -> SPH:
    workload, parameters = CASES[case]
    cls: Any = registry.find_algorithm(algorithm)
    return workload(device, 1500, cls, form or next(iter(cls.forms)), parameters, 7)


@pytest.mark.second_runtime
@pytest.mark.parametrize(("case", "algorithm", "form"), STEPS)
def test_right_steps_are_right(device, case, algorithm, form):
    simulation = made(device, case, algorithm, form)
    for steps in (0, 40, 150):
        simulation.advance(steps)
        assert do_step(simulation).problem() is None


@pytest.fixture
def step(intel):
    """A step with contacts, spinning bodies and all that."""
    simulation = made(intel, "bodies")
    simulation.advance(60)
    done = do_step(simulation)
    assert np.abs(done.bodies.pushes).max() > 0
    assert np.abs(done.bodies.before[0].angular_momentum).max() > 0
    return done


def test_a_wrong_velocity_at_the_floor_of_a_world_is_told(intel):
    """However far the world's ends are: a rounding of places there is none of the floor's."""
    simulation = made(intel, "unbounded", "hash-grid", "original")
    simulation.advance(60)
    done = do_step(simulation)
    lowest = int(done.after["places"][:, 1].argmin())  # the second axis in memory is up
    height = simulation.box.to_positions(done.before["places"])[:, 1].min()
    assert height < simulation.fluid.wall_distance
    done.after["velocities"][lowest, 1] += 1e-5
    assert re.search("the velocity of particle [0-9]+ along y", done.problem() or "")


def test_a_spring_that_meets_its_damper_is_in_doubt_all_the_same():
    """A particle that leaves a wall, barely within its range, at just the speed of the spring."""
    stiffness, damping, error, depth = 1.0, 0.5, 5e-5, 1e-5
    speed = stiffness * (depth + error) / damping

    def felt(beyond: float) -> np.ndarray:
        inside = depth + beyond
        return np.array([stiffness * inside - damping * speed if inside > 0 else 0.0])

    now, doubt = with_doubt(felt, error)
    assert felt(error) == pytest.approx(felt(-error), abs=1e-12)
    assert now == felt(0.0)
    assert doubt >= np.abs(felt(1e-6) - now)


def of_body(done: Done, **changes: Any) -> None:
    bodies = done.bodies
    first, *others = bodies.after
    changed = {name: getattr(first, name) + change for name, change in changes.items()}
    done.bodies = replace(bodies, after=[replace(first, **changed), *others])


def double_an_id(done):
    done.after["places"][3, 3] = done.after["places"][4, 3]


def change_a_density(done):
    done.flow[10, 3] *= 1 + 2e-5


def change_a_force(done):
    done.force[10, 0] += 200
    done.force[11, 0] -= 200


def forget_a_step_of_force(done):
    done.force[10, 2] += 1


def move_a_particle(done):
    done.after["places"][10, 1] ^= 1 << 12


def change_a_velocity(done):
    done.after["velocities"][10, 2] += 1e-5


def forget_a_push(done):
    worst = np.abs(done.bodies.pushes[:, :3]).max(axis=1).argmax()
    done.bodies.pushes[worst, :3] = 0


def exchange_pushes(done):
    pushed = np.flatnonzero(done.bodies.pushes[:, 0])
    done.bodies.pushes[pushed[:2]] = done.bodies.pushes[pushed[1::-1]]


def push_a_body(done):
    of_body(done, velocity=np.array([0.0, 1e-4, 0.0]))


def shift_a_body(done):
    of_body(done, centre=np.array([1e-4, 0.0, 0.0]))


def spin_a_body(done):
    of_body(done, angular_momentum=np.array([0.0, 0.0, 1e-2]))


def turn_a_body(done):
    of_body(done, orientation=np.array([0.0, 1e-4, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (double_an_id, "is there 2 times|is there 0 times"),
        (change_a_density, "the density at particle"),
        (change_a_force, "the acceleration of particle"),
        (forget_a_step_of_force, "should add up to 0"),
        (move_a_particle, "the place of particle"),
        (change_a_velocity, "the velocity of particle"),
        (forget_a_push, "should add up to 0"),
        (exchange_pushes, "the fluid's force on particle"),
        (push_a_body, "the velocity of body 0 along y"),
        (shift_a_body, "the place of body 0 along x"),
        (spin_a_body, "component 2 of the angular momentum of body 0"),
        (turn_a_body, "component 1 of the orientation of body 0"),
    ],
)
def test_what_is_wrong_is_told(step, change, message):
    change(step)
    with pytest.raises(AssertionError, match=message):
        assert step.problem() is None


def test_a_forgotten_neighbour_is_noticed_outside_the_region(step, monkeypatch):
    monkeypatch.setattr(motion, "SAMPLE", 1)
    step.force[step.force[:, 1].argmax(), 1] -= 300
    assert "should add up to 0" in step.problem()


class TestForces:
    """The oracle itself, against what is known of it."""

    FLUID = SPHFluid(
        spacing_for(30), mass_for(spacing_for(30)), 0.1, (0.0, 0.0, 0.0), False, 0, 0, 0
    )

    def lattice(self) -> tuple[np.ndarray, Box]:
        edge = 6
        spacing = self.FLUID.spacing
        axis = np.arange(edge) * spacing
        points = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
        return points, Box((edge * spacing,) * 3)

    def test_a_lattice_has_the_rest_density_and_no_forces(self) -> None:
        points, box = self.lattice()
        density = densities(points, box, self.FLUID)
        assert density == pytest.approx(1)
        found = accelerations(points, np.zeros_like(points), density, box, self.FLUID)
        assert np.abs(found).max() < 1e-12

    def test_momentum_is_conserved(self) -> None:
        rng = np.random.default_rng(1)
        points, box = self.lattice()
        points += rng.normal(scale=0.1, size=points.shape)
        density = densities(points, box, self.FLUID)
        velocities = rng.normal(size=points.shape)
        found = accelerations(points, velocities, density, box, self.FLUID)
        assert np.abs(found).max() > 0.1
        assert found.sum(axis=0) == pytest.approx([0, 0, 0], abs=1e-12)

    def test_viscosity_slows_a_shear_as_it_should(self) -> None:
        # nu times the second derivative, to what a lattice of 30 neighbours resolves.
        points, box = self.lattice()
        wave = 2 * np.pi / box.size[1]
        velocities = np.zeros_like(points)
        velocities[:, 0] = np.sin(wave * points[:, 1])
        found = accelerations(points, velocities, np.ones(len(points)), box, self.FLUID)
        expected = -self.FLUID.viscosity * wave**2 * velocities
        assert found == pytest.approx(expected, abs=0.15 * np.abs(expected).max())
