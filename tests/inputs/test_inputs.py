"""Particle sets: the same everywhere, in the box, with the occupancy that was asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from gpubench.base.errors import UserError
from gpubench.core.grid import Grid, grid_for
from gpubench.core.recipe import MAX_PARTICLES
from gpubench.problems.particles.axes import DISTRIBUTIONS, ORDERS, PEAK, SURFACE, Particles
from gpubench.problems.particles.drawing import DISPLACED, SPRAY, WAVES, morton_codes
from gpubench.problems.particles.inputs import from_positions, make, with_radii

BOX = Grid((6, 5, 4), (-3.0, 10.0, 0.5), (9.0, 5.0, 2.0))
UNIT = Grid((16, 16, 16), (0.0,) * 3, (1.0,) * 3)
TORUS = Grid(BOX.cells, BOX.low, BOX.size, (True, True, True))
NAN, INF = math.nan, math.inf
HASHES = {
    "uniform": "bf3b70efb8919888",
    "lattice": "8427e4fe581114fb",
    "clusters": "a22da66ad80dc12e",
    "one-cell": "4742fd2c6148f3f7",
    "symmetric": "b2319bd838378772",
    "free-surface": "7cd89b55173ca40d",
    "coincident": "f9b64cb526beda91",
    "power-law": "08fd43fe5317a519",
    "clusters, contrast 50": "082a026182a87e50",
    "free-surface, contrast 50": "bb3d4576cc560b09",
    "radii": "deef8e146dca415e",
}

sets = st.builds(
    make,
    particles=st.integers(0, 700),
    grid=st.sampled_from([BOX, TORUS, Grid.with_count(7), Grid.with_count(4096)]),
    distribution=st.sampled_from(DISTRIBUTIONS),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 2**63),
)


def rows(positions: np.ndarray) -> list[bytes]:
    """Return the rows as a multiset that ignores their order."""
    return sorted(row.tobytes() for row in positions)


@given(sets)
def test_a_set_lies_in_its_box_and_is_taken_back_unchanged(particles) -> None:
    grid, positions = particles.grid, particles.positions
    assert positions.dtype == np.float32
    assert positions.shape == (particles.particles, 4)
    assert not positions[:, 3].any()
    assert (positions[:, :3] >= np.asarray(grid.low, np.float32)).all()
    assert (positions[:, :3] < np.add(grid.low, grid.size).astype(np.float32)).all()
    assert ((particles.cell_of >= 0) & (particles.cell_of < grid.count)).all()
    # Wrapping works in float64 about the corner, so it may move a coordinate by its rounding.
    again = from_positions(positions, grid).positions
    np.testing.assert_allclose(again, positions, rtol=2e-7, atol=1e-12)


@given(sets)
def test_the_same_arguments_give_the_same_bytes(particles) -> None:
    p = particles
    again = make(p.particles, p.grid, p.distribution, p.order, p.seed)
    assert again.positions.tobytes() == p.positions.tobytes()
    assert again.hash == p.hash
    if p.particles:
        other = make(p.particles, p.grid, p.distribution, p.order, p.seed + 1)
        assert other.hash != p.hash


@settings(max_examples=30)
@given(
    st.integers(0, 500),
    st.sampled_from([BOX, TORUS]),
    st.sampled_from(DISTRIBUTIONS),
    st.integers(0),
)
def test_orders_are_permutations_of_each_other(particles, grid, distribution, seed) -> None:
    by_order = [make(particles, grid, distribution, order, seed).positions for order in ORDERS]
    expected = rows(by_order[0])
    assert all(rows(positions) == expected for positions in by_order[1:])


@pytest.mark.parametrize("particles", [0, 1, 2, 601])
def test_coincident_particles_are_two_at_each_place(particles: int) -> None:
    _, found = np.unique(make(particles, BOX, "coincident").positions, axis=0, return_counts=True)
    assert sorted(found) == [1] * (particles % 2) + [2] * (particles // 2)


def test_the_bytes_of_a_seed_are_those_of_every_machine() -> None:
    """A change here makes results with older input hashes incomparable: say so in CHANGELOG."""
    hashes = {d: make(1000, BOX, d, "random", seed=7).hash for d in DISTRIBUTIONS}
    for d in ("clusters", "free-surface"):
        hashes[f"{d}, contrast 50"] = make(1000, BOX, d, "random", 7, 50.0).hash
    hashes["radii"] = with_radii(make(1000, BOX), 16, 7).hash
    assert hashes == HASHES


def test_the_hash_covers_grid_and_positions() -> None:
    a = make(100, BOX)
    assert make(100, TORUS).hash != a.hash
    nudged = a.positions.copy()
    nudged[50, 1] = np.nextafter(nudged[50, 1], np.float32(0))
    assert from_positions(nudged, BOX).hash != a.hash
    assert from_positions(a.positions, BOX).hash == a.hash


@pytest.mark.parametrize("per_cell", [1, 2, 4, 8, 16, 3, 27])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_lattice_has_the_same_number_in_every_cell(per_cell: int, periodic: bool) -> None:
    grid = Grid((20, 33, 7), (-8.0, 0.0, 5.0), (10.0, 33.0, 2.1), (periodic,) * 3)
    particles = make(per_cell * grid.count, grid, "lattice", seed=1)
    assert (np.bincount(particles.cell_of, minlength=grid.count) == per_cell).all()


@given(st.integers(0, 1000), st.integers(0, 99))
def test_a_lattice_is_even_to_one_particle(particles: int, seed: int) -> None:
    counts = np.bincount(make(particles, BOX, "lattice", seed=seed).cell_of, minlength=BOX.count)
    assert counts.max() - counts.min() <= 1


@given(st.integers(1, 500), st.integers(0, 99))
def test_one_cell_fills_one_cell(particles: int, seed: int) -> None:
    assert len(set(make(particles, BOX, "one-cell", seed=seed).cell_of)) == 1


def test_clusters_are_denser_than_uniform() -> None:
    grid = Grid.with_count(4096)
    fullest = {d: np.bincount(make(4096, grid, d).cell_of).max() for d in ("uniform", "clusters")}
    assert fullest["clusters"] > 3 * fullest["uniform"]


def test_a_free_surface_has_an_even_fluid_below_it_and_spray_above() -> None:
    particles = 200_000
    grid = Grid((8, 8, 40), (-3.0, 10.0, 0.5), (9.0, 5.0, 2.0))
    found = make(particles, grid, "free-surface", seed=2)
    x, y, z = ((found.positions[:, :3] - grid.low) / grid.size).T

    def wave(x: np.ndarray) -> np.ndarray:
        return np.where(x < 0.5, -1, 1) * (1 - (1 - 4 * np.abs(x - 0.5)) ** 2)

    above = z > SURFACE + WAVES * wave(x) * wave(y)
    assert above.sum() == pytest.approx(SPRAY * particles, abs=3)  # rounding of a coordinate
    assert z.max() > 0.99 and z[~above].min() < 1e-4
    # Boxes of one volume below the lowest trough, and between it and the highest crest.
    for inside, low, high in ((~above, 0, SURFACE - WAVES), (above, SURFACE + WAVES, 1)):
        within = inside & (z >= low) & (z < high)
        sample = np.column_stack([x, y, z])[within]
        counts = np.histogramdd(sample, 5, ((0, 1), (0, 1), (low, high)))[0].ravel()
        volume = (high - low) / (SURFACE if low == 0 else 1 - SURFACE)
        expected = particles * (SPRAY if low else 1 - SPRAY) * volume / 125
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    # Crests are as dense as the rest.
    middle = wave((np.arange(500) + 0.5) / 500)
    crests = WAVES * np.maximum(np.outer(middle, middle), 0).mean() / SURFACE
    expected = particles * (1 - SPRAY) * crests
    assert (~above & (z > SURFACE)).sum() == pytest.approx(expected, abs=5 * np.sqrt(expected))


def test_fluids_fill_their_cells_to_the_mean_that_was_asked_for() -> None:
    recipe = Particles(2**14, 8, "free-surface")
    counts = np.bincount(recipe.make(1).cell_of, minlength=recipe.grid.count)
    assert counts.mean() == 8
    assert np.median(counts[counts > 1]) == pytest.approx(8 * (1 - SPRAY) / SURFACE, rel=0.15)


def test_a_contrast_is_the_highest_over_the_lowest_density() -> None:
    from_centre = np.abs(make(2**16, UNIT, "power-law", contrast=100).positions[:, :3] - 0.5)
    m = from_centre.max(axis=1)
    core, walls = (m < 0.05).sum() / 0.1**3, (m > 0.49).sum() / (1 - 0.98**3)
    assert core / walls == pytest.approx(100 * 0.49 / 0.5, rel=0.1)
    heights = make(2**16, UNIT, "free-surface", contrast=10).positions[:, 2]
    fluid, spray = (heights < 0.3).sum() / 0.3, (heights > 0.5).sum() / 0.5
    assert fluid / spray == pytest.approx(10, rel=0.05)
    found = make(2**16, UNIT, "clusters", contrast=20).positions[:, :3]
    centres = cKDTree(np.random.default_rng(0).random((32, 3), np.float32))
    every = np.random.default_rng(1).random((2**16, 3))
    far = np.array([(centres.query(points)[0] > 0.2).sum() for points in (found, every)])
    between = far[0] / far[1]
    assert between == pytest.approx(PEAK / (19 + PEAK), rel=0.05)
    tree = cKDTree(found)
    near = tree.query_ball_point(centres.data, 0.02, return_length=True)
    peaks = near / (4 / 3 * np.pi * 0.02**3 * 2**16)
    assert 0.9 * 20 < np.median(peaks / between) < 1.5 * 20  # neighbouring clusters add to it
    with pytest.raises(UserError, match="uniform particles take no contrast: power-law"):
        Particles(2**12, 1, contrast=10.0)


def test_radii_are_in_equal_ratios_up_to_a_cell_edge() -> None:
    inputs = Particles(2**14, 4, radii=16.0).make(3)
    assert inputs.radii is not None and inputs.radii.dtype == np.float32
    every = np.unique(inputs.radii)
    assert (len(every), every[-1], every[0]) == (256, 1.0, 0.0625)
    np.testing.assert_allclose(every[1:] / every[:-1], 16 ** (1 / 255), rtol=1e-6)
    assert inputs.grid.shortest == 0.0625
    assert inputs.hash != Particles(2**14, 4, radii=15.0).make(3).hash
    assert np.array_equal(inputs.positions, Particles(2**14, 4).make(3).positions)
    neighbours = 4 / 3 * np.pi * 4 * (inputs.radii.astype(np.float64) ** 3).sum()
    assert Particles(2**14, 4, radii=16.0).neighbours == pytest.approx(neighbours, rel=0.05)
    with pytest.raises(UserError, match="do not move"):
        Particles(2**14, 4, radii=16.0, destination="step")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_number_of_neighbours_is_known_roughly(distribution: str) -> None:
    # Cells much narrower than a cluster; a lattice of fewer than one a cell fills half of the box,
    # and of few neighbours many would be at the same place.
    per_cell = 4 if distribution in ("lattice", "coincident") else 0.125
    recipe = Particles(2**12, per_cell, distribution)
    inputs = recipe.make(1)
    tree, cutoff = cKDTree(inputs.positions[:, :3]), min(recipe.grid.cell_size)
    found = 2 * len(tree.query_pairs(cutoff, output_type="ndarray"))
    assert 0.5 < recipe.neighbours / found < 2


@given(st.integers(0, 300), st.integers(0, 99))
def test_a_symmetric_set_is_its_own_mirror_image(eighth: int, seed: int) -> None:
    grid = Grid((8, 4, 2), (-4.0, -2.0, -1.0), (8.0, 4.0, 2.0))
    positions = make(8 * eighth, grid, "symmetric", seed=seed).positions
    for axis in range(3):
        mirrored = positions.copy()
        mirrored[:, axis] *= -1
        assert rows(mirrored + np.float32(0)) == rows(positions + np.float32(0))


def test_symmetric_particles_lie_about_the_origin_in_a_study() -> None:
    grid = Particles(2**12, 8, "symmetric").grid
    assert grid.low == tuple(-edge / 2 for edge in grid.size)
    assert Particles(2**12, 8, "uniform").grid.centred() == grid
    np.testing.assert_allclose(
        Particles(2**12, 8, "symmetric").make(1).positions.mean(axis=0), 0, atol=1e-6
    )


def test_cell_order_is_sorted_and_morton_order_is_sorted_by_code() -> None:
    assert (np.diff(make(2000, BOX, order="cell").cell_of) >= 0).all()
    codes = morton_codes(BOX.coordinates(make(2000, BOX, order="morton").positions))
    assert (np.diff(codes.astype(np.int64)) >= 0).all()
    assert (np.diff(make(2000, BOX, order="random").cell_of) < 0).any()


def test_nearly_sorted_swaps_one_particle_in_a_hundred() -> None:
    particles = 20_000
    ordered = make(particles, BOX, order="cell").positions
    nearly = make(particles, BOX, order="nearly-sorted").positions
    assert (ordered != nearly).any(axis=1).sum() == particles * DISPLACED


@given(st.tuples(*[st.integers(0, 2**21 - 1)] * 3))
def test_morton_codes_interleave_bits(xyz: tuple[int, int, int]) -> None:
    expected = sum(
        (coordinate >> bit & 1) << (3 * bit + axis)
        for axis, coordinate in enumerate(xyz)
        for bit in range(21)
    )
    assert morton_codes(np.array([xyz], np.int32)).tolist() == [expected]


@pytest.mark.parametrize("per_cell", [1, 2, 4, 8, 16, 0.5, 0.25])
@pytest.mark.parametrize("particles", [2**16, 2**20, 2**26])
def test_the_grid_for_an_occupancy_has_exactly_that(particles: int, per_cell: float) -> None:
    grid = grid_for(particles, per_cell)
    assert particles / grid.count == per_cell
    assert max(grid.cells) <= 2 * min(grid.cells)


@pytest.mark.parametrize(
    ("particles", "per_cell", "suggestion"),
    [(1001, 4, 1000), (12, 2.5, 10), (10, 0.3, 9), (0, 4, 4), (3, 16, 16)],
)
def test_a_refused_occupancy_names_a_number_that_works(particles, per_cell, suggestion) -> None:
    with pytest.raises(UserError, match=f"try {suggestion} particles"):
        grid_for(particles, per_cell)
    assert grid_for(suggestion, per_cell).count >= 1


@pytest.mark.parametrize("per_cell", [0, -1, NAN, INF, 5e-324, 1e-9])
def test_impossible_occupancies_are_refused(per_cell: float) -> None:
    with pytest.raises(UserError, match="per cell"):
        grid_for(1000, per_cell)


@pytest.mark.parametrize("particles", [-1, MAX_PARTICLES + 1])
def test_impossible_numbers_of_particles_are_refused(particles: int) -> None:
    with pytest.raises(UserError, match="number of particles must be 0 to"):
        grid_for(particles, 4)
    with pytest.raises(UserError, match="number of particles must be 0 to"):
        make(particles, BOX)


def test_grids_far_from_a_cube_are_refused() -> None:
    with pytest.raises(UserError, match="small factors"):
        grid_for(10_007, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distribution": "even"}, "no distribution 'even': one of uniform, lattice"),
        ({"order": "sorted"}, "no order 'sorted': one of random, cell"),
        ({"seed": -1}, "seed"),
    ],
)
def test_unknown_choices_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(10, BOX, **arguments)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("columns", [3, 4])
def test_given_positions_may_have_any_real_type(dtype: type, columns: int) -> None:
    taken = from_positions(np.full((2, columns), 3, dtype), Grid.with_count(4096))
    assert taken.positions.tolist() == [[3, 3, 3, 0]] * 2
    assert (taken.seed, taken.order, taken.distribution) == (None, "given", "given")


def test_no_particles_may_be_given() -> None:
    empty = from_positions(np.zeros((0, 3)), BOX)
    assert empty.particles == 0
    assert len(empty.hash) == 16


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (np.zeros(3), r"shape \(particles, 3\) or \(particles, 4\), not \(3,\)"),
        (np.zeros((5, 2)), r"not \(5, 2\)"),
        (np.zeros((5, 3, 1)), r"not \(5, 3, 1\)"),
        (np.full((2, 3), "a"), "real numbers"),
        (np.zeros((2, 3), complex), "real numbers"),
        (np.array([[0, 11, 1], [0, NAN, 1]]), r"particle 1 .*1 of 2 are not finite"),
        (np.array([[0, 11, INF]]), "not finite"),
        (np.array([[0, 11, 1], [6.01, 11, 1]]), r"particle 1 .*outside the box.*1 of 2 do"),
        (np.array([[0, 9.9, 1]]), "outside the box"),
        (np.array([[1e300, 11, 1]]), "outside the box"),
    ],
)
def test_bad_positions_are_refused(positions: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_positions(positions, BOX)


def test_positions_on_the_walls_are_inside_whatever_float32_makes_of_them() -> None:
    grid = Grid((1, 1, 1), (0.1, 0.2, 0.3), (0.2, 0.1, 0.7))
    walls = np.array([grid.low, np.add(grid.low, grid.size)])
    for dtype in (np.float32, np.float64):
        assert np.array_equal(
            from_positions(walls.astype(dtype), grid).positions[:, :3], walls.astype(np.float32)
        )


@given(st.floats(-1e6, 1e6))
def test_periodic_positions_are_wrapped_below_the_far_wall(x: float) -> None:
    low, size = TORUS.low[0], TORUS.size[0]
    wrapped = float(from_positions(np.array([[x, 11, 1]]), TORUS).positions[0, 0])
    assert low <= wrapped < low + size
    turns = (x - wrapped) / size
    assert turns == pytest.approx(round(turns), abs=1e-6)
