"""The grid: cell ids against an independent float64 reading, counts, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpubench.base.errors import UserError
from gpubench.core.grid import GRID_DTYPE, MAX_CELLS, Grid

UNIT = (1.0, 1.0, 1.0)
ORIGIN = (0.0, 0.0, 0.0)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    cells = draw(st.tuples(*[st.integers(1, 40)] * 3))
    low = draw(st.tuples(*[st.floats(-100, 100, width=32)] * 3))
    size = draw(st.tuples(*[st.floats(1, 100, width=32)] * 3))
    return Grid(cells, low, size, draw(st.tuples(*[st.booleans()] * 3)))


def test_cells_are_numbered_x_fastest_then_y_then_z() -> None:
    grid = Grid((3, 4, 5), ORIGIN, (3.0, 4.0, 5.0))
    centres = np.array(
        [[x + 0.5, y + 0.5, z + 0.5] for z in range(5) for y in range(4) for x in range(3)],
        np.float32,
    )
    assert grid.cell_ids(centres).tolist() == list(range(60))
    assert grid.cell_ids(centres).dtype == np.int32


@pytest.mark.parametrize(
    ("x", "cell"), [(0, 0), (0.999, 0), (1, 1), (3.999, 3), (4, 3), (4.001, 3), (-0.001, 0)]
)
@pytest.mark.parametrize("periodic", [False, True])
def test_lower_edges_belong_to_a_cell_and_the_walls_to_the_outermost(
    x: float, cell: int, periodic: bool
) -> None:
    grid = Grid((4, 1, 1), ORIGIN, (4.0, 1.0, 1.0), (periodic, False, False))
    assert grid.cell_ids(np.array([[x, 0.5, 0.5]], np.float32)).tolist() == [cell]


@given(grids(), st.data())
def test_cell_ids_agree_with_exact_arithmetic_away_from_edges(
    grid: Grid, data: st.DataObject
) -> None:
    unit = data.draw(hnp.arrays(np.float64, (20, 3), elements=st.floats(0, 1)))
    positions = (np.asarray(grid.low) + unit * grid.size).astype(np.float32)
    ids = grid.cell_ids(positions)
    assert ids.min() >= 0
    assert ids.max() < grid.count

    scaled = (positions.astype(np.float64) - grid.low) / grid.cell_size
    whole = np.floor(scaled).astype(int)
    expected = np.clip(whole, 0, np.asarray(grid.cells) - 1)
    away = np.abs(scaled - np.rint(scaled)) > 1e-2
    assert np.array_equal(grid.coordinates(positions)[away], expected[away])
    x, y, z = grid.coordinates(positions).T
    assert np.array_equal(ids, x + grid.cells[0] * (y + grid.cells[1] * z))


@given(st.integers(1, 10**6))
def test_a_grid_of_a_count_has_that_count(count: int) -> None:
    grid = Grid.with_count(count)
    assert grid.count == count
    assert grid.cell_size == UNIT
    assert list(grid.cells) == sorted(grid.cells, reverse=True)


@pytest.mark.parametrize(
    ("count", "cells"),
    [(1, (1, 1, 1)), (8, (2, 2, 2)), (2**20, (128, 128, 64)), (30, (5, 3, 2)), (7, (7, 1, 1))],
)
def test_a_grid_of_a_count_is_near_to_a_cube(count: int, cells: tuple[int, int, int]) -> None:
    assert Grid.with_count(count).cells == cells


@given(st.floats(1e-3, 1e3), st.integers(1, 500))
def test_a_box_is_cut_into_as_many_cells_as_fit(cell_size: float, n: int) -> None:
    grid = Grid.in_box(ORIGIN, (n * cell_size, (n + 0.5) * cell_size, 0.5 * cell_size), cell_size)
    assert grid.cells == (n, n, 1)
    assert grid.cell_size[0] == pytest.approx(cell_size)
    assert grid.cell_size[1] >= cell_size


def test_the_packed_grid_is_what_kernels_read() -> None:
    grid = Grid((2, 4, 8), (-1.0, 0.0, 1.0), (1.0, 1.0, 1.0), (True, False, True))
    packed = grid.packed()
    assert packed.shape == (1,)
    assert packed.dtype == GRID_DTYPE
    assert packed.nbytes == 15 * 4
    assert packed["inverse_cell"].tolist() == [[2, 4, 8]]
    assert packed["periodic"].tolist() == [[1, 0, 1]]


@pytest.mark.parametrize(
    ("cells", "low", "size", "message"),
    [
        ((0, 1, 1), ORIGIN, UNIT, "at least one cell"),
        ((1, -1, 1), ORIGIN, UNIT, "at least one cell"),
        ((1, 1, 1), ORIGIN, (1.0, 0.0, 1.0), "positive edges"),
        ((1, 1, 1), ORIGIN, (1.0, -2.0, 1.0), "positive edges"),
        ((1, 1, 1), (math.nan, 0.0, 0.0), UNIT, "finite"),
        ((1, 1, 1), ORIGIN, (1.0, math.inf, 1.0), "finite"),
        ((2048, 1024, 1024), ORIGIN, (2048.0, 1024.0, 1024.0), f"at most {MAX_CELLS}"),
        ((1, 1, 1), (1e9, 0.0, 0.0), UNIT, "cannot resolve cells of 1 "),
        ((1, 1, 1), ORIGIN, (1e-40, 1.0, 1.0), "cannot resolve"),
        ((1, 1, 1), ORIGIN, (1e40, 1.0, 1.0), "cannot resolve"),
    ],
)
def test_impossible_grids_are_refused(cells, low, size, message) -> None:
    with pytest.raises(UserError, match=message):
        Grid(cells, low, size)


@pytest.mark.parametrize("cell_size", [0.0, -1.0, math.nan, math.inf, 1e-300, 5e-324])
def test_impossible_cell_sizes_are_refused(cell_size: float) -> None:
    with pytest.raises(UserError, match="cell"):
        Grid.in_box(ORIGIN, UNIT, cell_size)


@pytest.mark.parametrize("edge", [0.0, -1.0, math.nan, math.inf])
def test_a_box_without_extent_is_refused(edge: float) -> None:
    with pytest.raises(UserError, match="edge"):
        Grid.in_box(ORIGIN, (1.0, edge, 1.0), 0.5)


@pytest.mark.parametrize("count", [0, -3, MAX_CELLS + 1, 10**30])
def test_impossible_counts_are_refused(count: int) -> None:
    with pytest.raises(UserError, match="cell"):
        Grid.with_count(count)
