"""Particles that move: how many, where to, and the bad input that is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.problems.particles.drawing import STEP
from gpubench.problems.particles.inputs import make, move

BOX = Grid((6, 5, 4), (-3.0, 10.0, 0.5), (9.0, 5.0, 2.0))
TORUS = dataclasses.replace(BOX, periodic=(True, True, True))
SLAB = Grid((2, 1, 3), (0.0, 0.0, 0.0), (2.0, 1.0, 3.0), (True, True, False))
PAIR = Grid((1, 1, 2), (0.0, 0.0, 0.0), (1.0, 1.0, 2.0))
GRIDS = [BOX, TORUS, SLAB, PAIR, Grid.with_count(4096)]


def cells_apart(before, after, grid: Grid) -> np.ndarray:
    """Return the distance of cells along each axis, the short way round where it is periodic."""
    start, end = (np.stack(np.unravel_index(c, grid.cells, "F")) for c in (before, after))
    apart, cells = np.abs(end - start), np.asarray(grid.cells)[:, None]
    return np.where(np.asarray(grid.periodic)[:, None], np.minimum(apart, cells - apart), apart)


@given(
    st.sampled_from(GRIDS),
    st.sampled_from(["random", "next"]),
    st.integers(0, 300),
    st.floats(0, 1),
    st.integers(0, 2**63),
)
def test_exactly_so_many_particles_are_in_another_cell(grid, destination, n, share, seed) -> None:
    before, moved = make(n, grid, seed=seed), round(share * n)
    after = move(before, moved, destination, seed)
    changed = after.cell_of != before.cell_of
    assert after.moved == np.count_nonzero(changed) == moved
    assert np.array_equal(after.positions[~changed], before.positions[~changed])
    assert after.before is before and before.before is None and before.moved is None
    assert after.hash == move(before, moved, destination, seed).hash
    if destination == "next":
        assert cells_apart(before.cell_of, after.cell_of, grid).max(initial=0) <= 1
    # Well inside the cell, so that every device agrees on which it is.
    low, size = np.asarray(grid.low), np.asarray(grid.cell_size)
    inside = (after.positions[changed, :3] - low) / size % 1
    assert ((inside > 0.04) & (inside < 0.96)).all()


@pytest.mark.parametrize("grid", [TORUS, SLAB, PAIR])
def test_every_other_cell_and_every_next_cell_is_as_likely(grid) -> None:
    draws = 400 * grid.count
    start = make(draws, grid, "one-cell")
    cell = start.cell_of[0]
    others = np.delete(np.arange(grid.count), cell)
    near = others[(cells_apart(np.full(len(others), cell), others, grid) <= 1).all(axis=0)]
    for destination, reached in (("random", others), ("next", near)):
        found = np.bincount(move(start, draws, destination).cell_of, minlength=grid.count)
        assert np.flatnonzero(found).tolist() == reached.tolist()
        expected = draws / len(reached)
        assert np.abs(found[reached] - expected).max() < 6 * np.sqrt(expected)


def test_one_wall_is_open_and_the_other_leads_across() -> None:
    column = Grid((1, 1, 5), (0.0, 0.0, 0.0), (1.0, 1.0, 5.0))
    ring = dataclasses.replace(column, periodic=(False, False, True))
    for grid, reached in ((column, {1}), (ring, {1, 4})):
        first = make(5000, grid)
        start = dataclasses.replace(first, positions=first.positions[first.cell_of == 0])
        assert set(move(start, start.particles, "next").cell_of.tolist()) == reached


@pytest.mark.parametrize("grid", [BOX, TORUS, Grid.with_count(1)])
def test_a_step_moves_every_particle_a_little_and_some_to_other_cells(grid) -> None:
    before = make(20000, grid, seed=3)
    after = move(before, None, "step", 3)
    apart = np.abs(after.positions - before.positions)[:, :3]
    size = np.asarray(grid.size)
    apart = np.where(grid.periodic, np.minimum(apart, size - apart), apart)
    assert (apart.max(axis=1) > 0).mean() > 0.99
    rms = np.sqrt((apart**2).mean(axis=0)) / grid.cell_size
    assert rms == pytest.approx(STEP, rel=0.1)
    low, high = np.asarray(grid.low), np.add(grid.low, grid.size)
    assert ((after.positions[:, :3] >= low) & (after.positions[:, :3] < high)).all()
    # Through each wall between two cells go sigma sqrt(2 / pi) of the particles of one cell.
    walls = sum((n - 1 + (p and n > 1)) / n for n, p in zip(grid.cells, grid.periodic, strict=True))
    expected = STEP * np.sqrt(2 / np.pi) * walls
    assert after.moved / 20000 == pytest.approx(expected, rel=0.15)


def test_the_hash_names_both_states() -> None:
    before = make(100, BOX)
    few, many = move(before, 1, "random"), move(before, 50, "random")
    alone = dataclasses.replace(few, before=None)
    assert len({before.hash, few.hash, many.hash, alone.hash}) == 4
    assert [state.hash for state in few.history] == [before.hash, few.hash]


@pytest.mark.parametrize(
    ("grid", "moved", "destination", "message"),
    [
        (BOX, 11, "random", "11 of 10 particles cannot move: give a number from 0 to 10"),
        (BOX, -1, "next", "-1 of 10 particles"),
        (Grid.with_count(1), 1, "random", "one cell"),
        (Grid.with_count(1), 1, "next", "one cell"),
        (BOX, None, "random", "number"),
        (BOX, 3, "step", "decides for itself"),
        (BOX, 3, "far", "no destination 'far': one of random, next, step"),
    ],
)
def test_what_cannot_move_is_refused(grid, moved, destination, message) -> None:
    with pytest.raises(UserError, match=message) as raised:
        move(make(10, grid), moved, destination)
    assert "\n" not in str(raised.value)


def test_cells_too_narrow_for_float32_are_refused() -> None:
    narrow = Grid((2**20, 1, 1), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    with pytest.raises(UserError, match="fewer cells along an axis"):
        move(make(1000, narrow), 1000, "random")
