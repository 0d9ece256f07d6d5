"""DPD on every device: forces, noise, walls, and what must never happen."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import small_simulations
from hypothesis import given, settings
from hypothesis import strategies as st
from small_simulations import FORMS, bits, trajectory
from test_trajectories import CASES

from gpubench.base.errors import UserError
from gpubench.devices import Device
from gpubench.physics.observables import temperature
from gpubench.workloads import cell_workload, dpd
from gpubench.workloads.dpd import (
    DPD,
    DPDRayleighTaylor,
    DPDSeparation,
    DPDStandard,
    RayleighTaylorOfPaper,
    SeparationOfPaper,
)
from gpubench.workloads.workload import BlowUp

PARTICLES = 700
# Chunks of the default size are made for more particles than there are here.


def made(device: Device, workload: type[DPD] = DPDStandard, *words: str, **given: Any) -> DPD:
    return small_simulations.made(device, workload, *words, **given)


@pytest.mark.parametrize(("algorithm", "form"), [("counting-sort", "reorder"),
                                                 ("counting-resort", "order")])  # fmt: skip
@pytest.mark.parametrize("case", [case for case in CASES if case[0].name.startswith("dpd-")])
def test_pairs_computed_once_change_nothing(device, monkeypatch, algorithm, form, case):
    workload, _, _, parameters = case
    found = set()
    for backends in ((), (device.backend,)):
        monkeypatch.setattr(dpd, "PAIRS_ONCE", backends)
        found.add(trajectory(made(device, workload, algorithm, form, **parameters), 21))
    assert len(found) == 1


@pytest.mark.parametrize(("density", "parts"), [(3.0, 1), (25.0, 3)])
def test_cells_of_few_are_whole_where_coarse_positions_are_tested(
    opencl_device, monkeypatch, density, parts
):
    simulation = made(opencl_device, density=density)
    split = simulation.grid.count
    monkeypatch.setattr(DPD, "is_marked", True)
    simulation._choose_parts()
    assert (simulation._parts, simulation.grid.count * 3 // parts) == (parts, split)


def test_lists_are_kept_while_nothing_has_moved_far(device):
    simulation = made(device, skin=0.6, time_step=0.01)
    made_lists = []
    original = simulation._list
    simulation._list = lambda *a: (made_lists.append(simulation.step), original(*a))
    simulation.advance(30)
    assert made_lists[0] == 0
    assert 2 <= len(made_lists) < 15


def test_what_is_re_sorted_stays_where_it_is(device):
    """Else each step would look to a re-sort as if all particles had moved."""
    simulation = made(device, DPDStandard, "counting-resort", "order")
    simulation.advance(6)
    ids = simulation.state()["places"][:, 3]
    assert (ids == np.arange(PARTICLES)).all()


@pytest.mark.parametrize("skin", [0.0, 0.4])
@pytest.mark.parametrize(("algorithm", "form"), [("counting-sort", "order"),
                                                 ("counting-sort", "reorder"),
                                                 ("counting-resort", "order"),
                                                 ("atomic-list", "one-pass"),
                                                 ("fixed-capacity", "one-pass")])  # fmt: skip
def test_a_snapshot_has_velocities_of_its_moment_and_changes_nothing(device, algorithm, form, skin):
    """They are the mean of those at the half steps around it, whose kicks are two halves."""
    seen, unseen = (made(device, DPDStandard, algorithm, form, skin=skin) for _ in range(2))
    for steps in (0, 1, 4):
        seen.advance(steps)
        now = seen.snapshot()
        again = seen.snapshot()
        np.testing.assert_array_equal(again.velocities, now.velocities)
        seen.advance(1)
        around = [now.half_step_velocities, seen.snapshot().half_step_velocities]
        np.testing.assert_allclose(now.velocities, np.mean(around, axis=0), atol=1e-6)
        unseen.advance(steps + 1)
        assert bits(seen) == bits(unseen)
    found = seen.observe(now)
    assert found["half_step_temperature"] == pytest.approx(
        temperature(now.half_step_velocities, now.species, seen.fluid).overall
    )
    assert found["kinetic_temperature"] == pytest.approx(
        temperature(now.velocities, now.species, seen.fluid).overall
    )
    assert abs(found["kinetic_temperature"] - found["half_step_temperature"]) > 1e-3


def test_a_snapshot_says_when_cells_overflow(device):
    simulation = made(device, DPDStandard, "fixed-capacity", "one-pass", capacity=2)
    with pytest.raises(BlowUp, match="no room for"):
        simulation.snapshot()


def test_forces_sum_to_nothing_at_all(device):
    """Each force is a whole number of force steps, and the partner's is its negative."""
    simulation = made(device, DPDSeparation, walls="none")
    simulation.advance(9)
    force = simulation.device.download(simulation._force)[:, :3]
    steps = force / simulation.fluid.force_step(simulation.time_step)
    assert np.abs(steps).max() > 1000
    assert (steps == np.rint(steps)).all()
    assert (steps.sum(axis=0) == 0).all()


@settings(max_examples=8)
@given(shift=st.tuples(*[st.integers(0, 2**32 - 1)] * 3), seed=st.integers(0, 2**32 - 1))
def test_no_place_in_a_periodic_box_is_special(opencl_device, shift, seed):
    """Forces stay the same to the bit when all is shifted and numbered in another order."""
    simulation = made(opencl_device, particles=300)
    start = simulation.state()
    simulation.advance(1)
    shifted = dict(start)
    order = np.random.default_rng(seed).permutation(300)
    shifted["places"] = start["places"][order]
    shifted["places"][:, :3] += np.array(shift, np.uint32)
    shifted["velocities"] = start["velocities"][order]
    velocities = by_id(simulation)
    simulation.restore(shifted)
    simulation.advance(1)
    np.testing.assert_array_equal(by_id(simulation), velocities)


def by_id(simulation: DPD) -> Any:
    return simulation.snapshot().velocities


def nearest(simulation: DPD, differences: Any) -> Any:
    """Return differences of positions to the nearest images."""
    size = np.asarray(simulation.box.size)
    return differences - size * np.rint(differences / size) * simulation.box.periodic


def test_refuses_a_state_of_something_else(opencl_device):
    simulation = made(opencl_device)
    with pytest.raises(UserError, match="700 particles"):
        simulation.restore(made(opencl_device, particles=701).state())
    with pytest.raises(UserError):
        simulation.restore(made(opencl_device, integrator="leap-frog").state())


def test_steps_beyond_32_bits_are_counted(opencl_device):
    simulation = made(opencl_device)
    state = simulation.state()
    state["step"] = np.array(2**32 - 2, np.int64)
    simulation.restore(state)
    simulation.advance(5)
    assert simulation.step == 2**32 + 3
    clock = simulation.device.download(simulation.clock)[0]
    assert list(clock) == [3, 1, 5, 0]


def test_other_seeds_and_steps_give_other_noise(opencl_device):
    simulation = made(opencl_device, repulsion=0.0, friction=0.0)
    start = simulation.state()
    found = set()
    for step in (0, 1, 2**32):
        start["step"] = np.array(step, np.int64)
        simulation.restore(start)
        found.add(trajectory(simulation, 1))
    other = made(opencl_device, repulsion=0.0, friction=0.0, seed=6)
    start["step"] = np.array(0, np.int64)
    other.restore(start)
    found.add(trajectory(other, 1))
    assert len(found) == 4


def test_walls_keep_everything_inside(device):
    simulation = made(device, DPDRayleighTaylor, gravity=3.0, depth=4.0)
    for _ in range(10):
        simulation.advance(20)
        simulation.require_sound()
        heights = simulation.snapshot().positions[:, 2]
        assert heights.min() >= 0
        assert heights.max() < simulation.box.size[2]
    # All that weight has piled up below.
    assert heights.mean() < 0.48 * simulation.box.size[2]


def test_a_wall_reflects(opencl_device):
    """A particle alone flies straight, and comes back from the wall as fast as it went."""
    simulation = made(opencl_device, DPDSeparation, particles=60, gravity=0.0, density=1.0)
    state = simulation.state()
    state["velocities"][:, :3] = 0
    units, length = 2.0**31, simulation.box.size[2]
    alone = np.zeros((60, 4), np.uint32)
    alone[:, 3] = np.arange(60)
    # All others sit in one place, where they feel no force of each other.
    alone[1:, :3] = [2**31, 2**31, int(0.9 * units)]
    alone[0, 2] = int(0.05 / length * units)
    state["places"] = alone
    state["velocities"][0, 2] = -2.0
    simulation.restore(state)
    simulation.advance(1)
    after = simulation.snapshot()
    assert after.positions[0, 2] == pytest.approx(0.03, abs=1e-6)
    assert after.velocities[0, 2] == 2.0
    assert (after.velocities[1:] == 0).all()


@pytest.mark.parametrize("place", ["corner", "last", "one cell", "one place"])
@pytest.mark.parametrize(("algorithm", "form"), [("counting-sort", "order"),
                                                 ("atomic-list", "one-pass")])  # fmt: skip
def test_particles_may_be_anywhere(device, place, algorithm, form):
    simulation = made(
        device, DPDSeparation, algorithm, form, particles=100, density=1.0, time_step=1e-3
    )
    state = simulation.state()
    units = np.asarray(simulation.box.units)
    rng = np.random.default_rng(0)
    state["places"][:, :3] = {
        "corner": np.zeros((100, 3)),
        "last": np.tile(units - 1, (100, 1)),
        "one cell": rng.random((100, 3)) * units / simulation.box.size * 0.9,
        "one place": np.tile(units // 3, (100, 1)),
    }[place].astype(np.uint32)
    state["velocities"][:, :3] = 0
    simulation.restore(state)
    simulation.advance(1)
    simulation.require_sound()
    moved = np.abs(simulation.snapshot().velocities).max() > 0
    assert moved == (place == "one cell")


@pytest.mark.parametrize("velocity", [1e4, -1e4, np.inf, np.nan, 1e38])
@pytest.mark.parametrize("axis", [0, 2])
def test_names_the_particle_that_blew_up(device, velocity, axis):
    simulation = made(device, DPDSeparation)
    simulation.advance(4)
    state = simulation.state()
    row = 13
    state["velocities"][row, axis] = velocity
    at = simulation.snapshot().positions[state["places"][row, 3]]
    simulation.restore(state)
    simulation.advance(1)
    with pytest.raises(BlowUp, match=r"step 4: particle .* time_step") as caught:
        simulation.require_sound()
    # Its neighbours are dragged along in the same step: it is one of them, or the one itself.
    named = int(re.search(r"particle (\d+)", str(caught.value))[1])
    state["velocities"][row, axis] = 0
    simulation.restore(state)
    apart = simulation.snapshot().positions[named] - at
    assert np.linalg.norm(nearest(simulation, apart)) < 1
    state["velocities"][row, axis] = velocity
    simulation.restore(state)
    simulation.advance(1)
    # What is worthless stays within the box, and within memory.
    simulation.advance(3)
    assert simulation.box.to_positions(simulation.state()["places"]).min() >= 0


def test_says_when_cells_overflow(device):
    simulation = made(device, DPDStandard, "fixed-capacity", "one-pass", capacity=2)
    simulation.advance(1)
    with pytest.raises(BlowUp, match="no room for"):
        simulation.require_sound()


@pytest.mark.parametrize("particles", [1, 2, 127, 128, 129])
def test_numbers_around_a_block(device, particles):
    """Without forces they all fly straight."""
    free = {"repulsion": 0.0, "friction": 0.0, "noise": 0.0, "density": particles / 512}
    simulation = made(device, DPDStandard, particles=particles, **free)
    state = simulation.state()
    state["velocities"][:, :3] = np.random.default_rng(0).normal(size=(particles, 3))
    simulation.restore(state)
    before = simulation.snapshot()
    simulation.advance(2)
    after = simulation.snapshot()
    moved = nearest(simulation, after.positions - before.positions)
    np.testing.assert_allclose(moved, 2 * 0.04 * before.velocities, atol=1e-6)


@pytest.mark.cuda
@pytest.mark.parametrize(("algorithm", "form"), FORMS)
def test_a_graph_replays_what_launches_do(cuda_device, algorithm, form):
    simulation = made(cuda_device, DPDStandard, algorithm, form, particles=5000)
    plain = made(cuda_device, DPDStandard, algorithm, form, particles=5000)
    for steps in (1, 2, 5, 8, 3):
        simulation.advance(steps)
        for _ in range(steps):
            for _, launch in plain.phases():
                launch()
    assert simulation.step == plain.step == 19
    assert bits(simulation) == bits(plain)
    capturable = simulation.algorithm.forms[form].capturable
    assert (simulation._graph is not None) == capturable


@pytest.mark.second_runtime
def test_deferred_forces_are_no_other_forces(device, monkeypatch):
    """Room for fewer neighbours than there are, so that it is emptied on the way."""
    usual = trajectory(made(device), 5)
    for room in (0, 1, 7):
        monkeypatch.setattr(cell_workload, "DEFERRED", room)
        monkeypatch.setattr(cell_workload, "DEFERRED_ON_CPU", room)
        assert trajectory(made(device), 5) == usual


@pytest.mark.parametrize("workload", [SeparationOfPaper, RayleighTaylorOfPaper])
def test_runs_of_the_paper_have_its_form_and_the_forces_of_the_modern_ones(opencl_device, workload):
    shape = {"depth": 4.0} if "depth" in workload.defaults else {}
    ours, modern = (made(opencl_device, kind, **shape) for kind in (workload, workload.__base__))
    chosen = [ours.parameters[name] for name in ("integrator", "pair_noise", "weights", "walls")]
    assert chosen == ["leap-frog", "rozen2008", "rozen2008", "z"]
    # 25 (pi / 3) 3, 4.5 (2 pi / 15) 3 and 3 (pi / 3) 3: density 3 times the weights' integrals.
    assert ours.parameters["repulsion_aa"] == pytest.approx(78.5398, rel=1e-6)
    assert ours.parameters["friction_aa"] == pytest.approx(5.654867, rel=1e-6)
    assert ours.parameters["noise_aa"] == pytest.approx(9.424778, rel=1e-6)
    for name in ("repulsion", "friction", "noise"):
        assert getattr(ours.fluid, name) == pytest.approx(getattr(modern.fluid, name))
    assert ours.fluid.gravity == modern.fluid.gravity
