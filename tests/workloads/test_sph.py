"""SPH on every device: an unbounded world, walls, bodies, and what must never happen."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
import small_simulations
from small_simulations import trajectory

from gpubench.base import paths
from gpubench.base.errors import NotSupported, UserError
from gpubench.devices import Device, open_device
from gpubench.workloads import sph_at_rest
from gpubench.workloads.sph import SPH, SPHDamBreak, SPHOfPaper, SPHRigidBody, SPHUnbounded
from gpubench.workloads.sph_at_rest import SPHAtRest
from gpubench.workloads.workload import BlowUp


def made(device: Device, workload: type[SPH] = SPHDamBreak, **given: Any) -> SPH:
    return small_simulations.made(device, workload, **{"particles": 900, **given})


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("buckets", [1, 3, 8, 64])
def test_cells_that_share_their_buckets_do_too(device, number, buckets):
    """Beside the seam of the box, which repeats, as elsewhere; with any number of buckets."""
    workload, more = ((SPHDamBreak, {}), (SPHRigidBody, {"drop": -0.6, "body_size": 0.7}))[number]
    given = {"workload": workload, "mach": 0.4, **more}
    hashed = made(device, algorithm="hash-grid", form="original", buckets=buckets, **given)
    assert trajectory(hashed, 12) == trajectory(made(device, **given), 12)


HASHES = ("original", "world-limits")
# Of the edge of a small world, so that a grid can have its cells too.
SMALL = 2.0**6


def unbounded(device: Device, form: str = "original", **parameters: Any) -> SPH:
    return made(device, SPHUnbounded, algorithm="hash-grid", form=form, mach=0.4, **parameters)


@pytest.fixture(scope="module")
def at_the_origin(device):
    return places_about_the_column(unbounded(device), 12)


def places_about_the_column(simulation: SPH, steps: int) -> tuple[bytes, bytes]:
    """Return places, in units from where the column stood, and velocities after some steps."""
    simulation.advance(steps)
    simulation.require_sound()
    state = simulation.state()
    by_id = np.argsort(state["places"][:, 3])
    unit = simulation.box.units[0] / simulation.box.size[0]
    away = np.int64(simulation.number("away") * unit)
    places = state["places"][by_id, :3].astype(np.int64) - [away, 0, away]
    return places.tobytes(), state["velocities"][by_id].tobytes()


@pytest.mark.second_runtime
@pytest.mark.parametrize("away", [-10_000.0, -16_300.0, 10_000.0])
@pytest.mark.parametrize("form", HASHES)
def test_an_unbounded_world_is_the_same_everywhere(device, at_the_origin, form, away):
    """To the bit, at 10,000 cells from the origin, to either side, as about it."""
    assert places_about_the_column(unbounded(device, form, away=away), 12) == at_the_origin


@pytest.mark.parametrize("buckets", [1, 3, 64])
@pytest.mark.parametrize("form", HASHES)
def test_and_with_any_number_of_buckets(device, at_the_origin, form, buckets):
    found = unbounded(device, form, buckets=buckets, away=3000.0)
    assert places_about_the_column(found, 12) == at_the_origin


@pytest.mark.parametrize("skin", [0.0, 0.2])
@pytest.mark.parametrize("form", HASHES)
def test_a_grid_has_the_same_world_where_it_is_small(device, monkeypatch, form, skin):
    monkeypatch.setattr("gpubench.workloads.sph.WORLD", SMALL)
    given = {"workload": SPHUnbounded, "mach": 0.4, "away": -11.0, "skin": skin}
    hashed = made(device, algorithm="hash-grid", form=form, **given)
    assert trajectory(hashed, 12) == trajectory(made(device, **given), 12)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("to_the_end", [False, True])
def test_a_particle_that_leaves_the_world_is_told(device, axis, to_the_end):
    simulation = unbounded(device)
    simulation.advance(2)
    state = simulation.state()
    row = int(np.flatnonzero(state["places"][:, 3] == 17)[0])
    state["places"][row, axis] = 2**31 - 2 if to_the_end else 1
    state["velocities"][row] = 0
    state["velocities"][row, axis] = 0.3 if to_the_end else -0.3
    simulation.restore(state)
    simulation.advance(3)
    if axis == 1 and not to_the_end:  # the floor
        simulation.require_sound()
        return
    with pytest.raises(BlowUp, match=r"^step 2: particle 17 would leave the world, whose edges"):
        simulation.require_sound()


def test_a_world_without_a_hash_is_refused(device):
    with pytest.raises(NotSupported, match="hash them, with --algorithm hash-grid"):
        made(device, SPHUnbounded)


@pytest.mark.parametrize("away", [-17_000.0, 16_384.0])
def test_a_column_outside_its_world_is_refused(device, away):
    with pytest.raises(UserError, match="away must leave the column inside the world"):
        unbounded(device, away=away)


@pytest.mark.long
def test_without_epsilon_walls_push_as_they_did_before_it(opencl_device, monkeypatch, tmp_path):
    """To the bit, as without the parameter in the kernel."""
    kernels = shutil.copytree(paths.kernel_folder(), tmp_path / "kernels")
    walls = kernels / "common" / "sph.h"
    text = walls.read_text()
    assert text.count("inside > fluid->wall_epsilon ?") == 1
    text = text.replace("inside > fluid->wall_epsilon ?", "inside > 0.0f ?")
    walls.write_text(text)
    given = {"wall_stiffness": 3.0, "wall_distance": 1.0, "mach": 0.4}
    with monkeypatch.context() as patch, open_device(opencl_device.spec) as other:
        patch.setattr(paths, "kernel_folder", lambda: kernels)
        before = trajectory(made(other, **given), 12)
        # The kernels of the folder are those that ran: they know no epsilon.
        assert trajectory(made(other, wall_epsilon=0.6, **given), 12) == before
    assert trajectory(made(opencl_device, wall_epsilon=0.0, **given), 12) == before
    assert trajectory(made(opencl_device, wall_epsilon=0.6, **given), 12) != before


@pytest.mark.parametrize(
    "epsilon", [0.3, *(pytest.param(each, marks=pytest.mark.long) for each in (0.1, 0.2, 0.5))]
)
def test_epsilon_lets_the_fluid_sink_that_much_deeper(opencl_device, epsilon):
    """By explicit Euler as in the paper: the lowest layer rests where walls begin to push."""
    column = made(
        opencl_device, SPHOfPaper, particles=400, length=1.0, height=1.0, viscosity=0.3,
        time_step=0.05, wall_epsilon=epsilon,
    )  # fmt: skip
    column.advance(1500)
    column.require_sound()
    lowest = np.sort(column.snapshot().positions[:, 2])[:20] / column.spacing
    assert abs(lowest.mean() - (0.5 - epsilon)) < 0.01


@pytest.mark.parametrize("neighbours", [8.0, 100.0, 200.0])
def test_marks_of_short_and_long_rows_give_the_same_trajectory(device, neighbours):
    """A row of cells takes up to four words of 32 marks."""
    given: dict[str, Any] = {"neighbours": neighbours, "particles": 3000, "mach": 0.4}
    plain = made(device, algorithm="atomic-list", form="one-pass", **given)
    assert trajectory(made(device, **given), 6) == trajectory(plain, 6)


@pytest.mark.parametrize(
    ("algorithm", "form"), [("counting-sort", "order"), ("atomic-resort", "one-pass")]
)
def test_a_simulation_that_goes_back_forgets_the_cells_of_later(device, algorithm, form):
    simulation = made(device, algorithm=algorithm, form=form, mach=0.4)
    simulation.advance(5)
    state = simulation.state()
    later = trajectory(simulation, 40)
    simulation.restore(state)
    assert trajectory(simulation, 40) == later


def test_a_state_without_its_bodies_is_refused(device):
    simulation = made(device, SPHRigidBody)
    state = simulation.state()
    del state["bodies"]
    with pytest.raises(UserError, match="no state of sph-rigid-body with 3 bodies"):
        simulation.restore(state)


@pytest.mark.parametrize("particles", [1, 2, 63, 257])
def test_any_number_of_particles_falls(device, particles):
    simulation = made(device, particles=particles)
    before = simulation.snapshot()
    simulation.advance(20)
    simulation.require_sound()
    after = simulation.snapshot()
    assert len(after.positions) == particles
    assert after.positions[:, 2].mean() < before.positions[:, 2].mean()


def test_bodies_that_begin_in_the_fluid_take_its_place(device):
    simulation = made(device, SPHRigidBody, particles=3000, drop=-0.8, body_size=0.6)
    box, ball, _ = simulation.scene.bodies
    away = simulation.scene.positions - box.centre
    half = 0.6 * simulation.scene.height / 2
    assert len(simulation.scene.positions) == 3000
    assert np.abs(away).max(axis=1).min() > half
    assert np.sqrt(((simulation.scene.positions - ball.centre) ** 2).sum(axis=1)).min() > half
    # There is fluid below, beside and above.
    assert simulation.scene.positions[:, 2].min() < box.centre[2] - half
    assert simulation.scene.positions[:, 2].max() > box.centre[2]


@pytest.mark.second_runtime
def test_a_picture_shows_the_nearest_particle(device):
    """Held against NumPy: the nearest particle, of those as near the slowest, has the pixel."""
    simulation = made(device, particles=700, mach=0.4)
    simulation.advance(30)
    simulation.paint()
    seen = simulation.picture.speeds()
    state = simulation.state()
    places, speeds = state["places"], np.linalg.norm(state["velocities"][:, :3], axis=1)
    middles = simulation.box.to_positions(places)
    height, size = simulation.picture.height, simulation.picture.size
    columns = (middles[:, 2] * simulation.picture.scale).astype(int) - size // 2
    rows = height - 1 - (middles[:, 1] * simulation.picture.scale).astype(int) - size // 2
    expected = np.full(seen.shape, np.nan)
    disc = 2 * np.arange(size) + 1 - size
    inside = disc[:, None] ** 2 + disc[None, :] ** 2 <= size**2
    # Drawn from the furthest on; a depth has 19 bits.
    for i in np.lexsort((-speeds, -(places[:, 0].astype(np.int64) >> 13))):
        for y, x in np.argwhere(inside):
            at = rows[i] + y, columns[i] + x
            if 0 <= at[0] < seen.shape[0] and 0 <= at[1] < seen.shape[1]:
                expected[at] = speeds[i]
    assert (np.isnan(seen) == np.isnan(expected)).mean() > 0.999  # but for roundings at edges
    both = ~np.isnan(seen) & ~np.isnan(expected)
    shade = simulation.picture.fastest / 2**12
    assert both.sum() > 10_000
    assert (np.abs(seen - expected)[both] <= shade).mean() > 0.999


def test_a_heavy_body_comes_to_rest_on_the_floor(device):
    simulation = made(
        device, SPHRigidBody, particles=300, bodies=1, body_density=4.0, drop=-0.9, mach=0.4
    )
    simulation.advance(400)
    simulation.require_sound()
    (body,) = simulation.bodies_in(simulation.state())
    lowest = body.particle_positions()[:, 1].min()  # the second axis in memory is up
    assert 0 < lowest < simulation.spacing
    assert abs(body.velocity[1]) < 0.01


# The longest step of a column at rest


def at_rest(device: Device, **walls: float) -> SPHAtRest:
    column = small_simulations.made(device, SPHAtRest, particles=216, **walls)
    assert isinstance(column, SPHAtRest)
    return column


def test_the_longest_step_is_the_last_before_one_that_is_not_stable(opencl_device, monkeypatch):
    monkeypatch.setattr(SPHAtRest, "_pass", lambda column, time: None)
    tried = []
    monkeypatch.setattr(
        SPHAtRest, "_is_stable", lambda column, start, step: tried.append(step) or step < 0.03
    )
    assert at_rest(opencl_device).outcome() == {"longest_step": tried[-2]}
    assert tried == pytest.approx([0.02 * 1.1**n for n in range(6)])
    monkeypatch.setattr(SPHAtRest, "_is_stable", lambda column, start, step: False)
    assert at_rest(opencl_device).longest_step() == 0


@pytest.mark.long
def test_a_stable_step_gives_a_column_no_energy(opencl_device, monkeypatch):
    """Explicit Euler gives it some: soon where epsilon lets the walls' force begin with a jump."""
    found = {}
    for wall in ("wall_epsilon", "wall_distance"):
        column = at_rest(opencl_device, **{wall: 0.4 if wall == "wall_epsilon" else 0.0})
        settled = column._with(0.05)
        settled._pass(column._fall)
        found[wall] = [column._is_stable(settled.state(), step) for step in (0.02, 0.1, 2.0)]
    assert found == {"wall_epsilon": [True, False, False], "wall_distance": [True, True, False]}
    monkeypatch.setattr(sph_at_rest, "GAIN", -1.0)
    assert not column._is_stable(settled.state(), 0.1)
