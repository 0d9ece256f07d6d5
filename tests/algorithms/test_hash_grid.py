"""Hash grids: cells to the bit, every bucket visited once, and worlds that lie anywhere."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import problems
from gpubench.algorithms.hash_grid import HashGrid
from gpubench.algorithms.hash_query import HashQuery
from gpubench.base.errors import NotSupported, UserError
from gpubench.core.grid import (
    CELL_REACH,
    HASH_PRIMES,
    LARGEST_CELL,
    MAX_BUCKETS,
    SMALLEST_CELL,
    Grid,
    UnboundedGrid,
    hash_buckets,
)
from gpubench.devices import Device
from gpubench.problems.cells.contract import NULL
from gpubench.problems.particles.inputs import ParticleSet, make
from gpubench.studies.study import load_study

LIMITS = ("original", "world-limits")
QUERIES = tuple(HashQuery.forms)
# One bucket for all, a power of two and others; each that is none compiles its own program.
BUCKETS = (1, 3, 8, 1000)
UNIT = Grid((1, 1, 1), (0.0,) * 3, (1.0,) * 3)
ABOUT = Grid((6, 4, 8), (-3.0, -2.0, -4.0), (6.0, 4.0, 8.0))
every_form = pytest.mark.parametrize("form", LIMITS)
every_query = pytest.mark.parametrize("form", QUERIES)
every_number = pytest.mark.parametrize(
    "buckets", [*BUCKETS[:-1], pytest.param(BUCKETS[-1], marks=pytest.mark.long)]
)
coordinates = st.floats(allow_nan=False, allow_infinity=False, width=32)
edges = st.floats(2 * SMALLEST_CELL, LARGEST_CELL / 2).map(lambda edge: float(np.float32(edge)))


def given_at(xyz: Any, cell: float = 1.0) -> ParticleSet:
    """Return particles at the given places, which need not lie in any box."""
    positions = np.zeros((len(xyz), 4), np.float32)
    positions[:, :3] = xyz
    grid = Grid((1, 1, 1), (0.0,) * 3, (cell,) * 3)
    return ParticleSet(positions, grid, "given", "given", None)


def built(device: Device, inputs: ParticleSet, form: str, **parameters: int) -> HashGrid:
    algorithm = HashGrid(device, inputs.particles, inputs.grid, form, parameters)
    algorithm.load(inputs)
    algorithm.launch()
    assert problems.problems()["hash-grid"].check(algorithm, inputs) is None
    return algorithm


def queried(device: Device, inputs: ParticleSet, form: str, **parameters: int) -> HashQuery:
    algorithm = HashQuery(device, inputs.particles, inputs.grid, form, parameters)
    algorithm.load(inputs)
    algorithm.launch()
    assert problems.problems()["unbounded-query"].check(algorithm, inputs) is None
    return algorithm


def cells_of(inputs: ParticleSet) -> np.ndarray:
    return UnboundedGrid(inputs.grid.cell_size).coordinates(inputs.positions)


def around(cells: np.ndarray) -> np.ndarray:
    """Return the 27 cells about each cell, shape (cells, 27, 3)."""
    steps = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(27, 3)
    return cells[:, None] + steps


# Cells and hashes by NumPy, which the devices are held against


def assert_cell_is_floor(coordinate: float, edge: float) -> None:
    exact = floor(Fraction(coordinate) / Fraction(edge))
    found = cells_of(given_at([[coordinate, 0, 0]], edge))[0]
    assert found.tolist() == [max(-CELL_REACH, min(CELL_REACH, exact)), 0, 0]


@given(coordinates, edges)
def test_a_cell_is_the_floor_of_exact_arithmetic(coordinate: float, edge: float) -> None:
    assert_cell_is_floor(coordinate, edge)


@given(st.integers(-CELL_REACH, CELL_REACH), edges)
def test_at_the_edges_of_cells_too(cell: int, edge: float) -> None:
    at = np.float32(cell) * np.float32(edge)
    for near in (at, np.nextafter(at, np.float32(-np.inf)), np.nextafter(at, np.float32(np.inf))):
        assert_cell_is_floor(float(near), edge)


@given(coordinates, st.floats(-1, 1, exclude_min=True, exclude_max=True), edges)
def test_what_is_nearer_than_an_edge_is_in_the_next_cell_at_most(
    coordinate: float, apart: float, edge: float
) -> None:
    other = float(np.float32(np.clip(coordinate + apart * edge, -3.4e38, 3.4e38)))
    cells = cells_of(given_at([[coordinate, 0, 0], [other, 0, 0]], edge))[:, 0]
    if abs(Fraction(coordinate) - Fraction(other)) < Fraction(edge):
        assert abs(int(cells[0]) - int(cells[1])) <= 1


@given(st.tuples(*[st.integers(-CELL_REACH, 2 * CELL_REACH)] * 3), st.integers(1, MAX_BUCKETS))
def test_the_hash_is_algorithm_1(cell: tuple[int, int, int], buckets: int) -> None:
    x, y, z = (c * p % 2**32 for c, p in zip(cell, HASH_PRIMES, strict=True))
    assert hash_buckets(np.array([cell], np.int32), buckets).tolist() == [(x ^ y ^ z) % buckets]


def test_signs_of_two_coordinates_often_do_not_matter() -> None:
    """What the paper observed: of mirror images about cell 0, many share their whole hash."""
    cells = np.random.default_rng(3).integers(1, 200, (10_000, 3)).astype(np.int32)
    whole = hash_buckets(cells, MAX_BUCKETS)
    two = hash_buckets(cells * np.array([-1, -1, 1], np.int32), MAX_BUCKETS)
    one = hash_buckets(cells * np.array([-1, 1, 1], np.int32), MAX_BUCKETS)
    assert np.mean(whole == two) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean(whole == one) < 0.001


# The query on devices


def neighbours_by_brute_force(inputs: ParticleSet) -> list[list[int]]:
    """Compare all pairs in float32, as the kernel does."""
    xyz = inputs.positions[:, :3]
    apart = xyz[None] - xyz[:, None]
    near = (apart**2).sum(axis=2, dtype=np.float32) < np.float32(inputs.grid.cell_size[0]) ** 2
    np.fill_diagonal(near, False)
    return [np.flatnonzero(row).tolist() for row in near]


@every_number
@every_query
def test_few_buckets(device: Device, form: str, buckets: int) -> None:
    """Many of the 27 cells share a bucket, down to all: nothing is found twice."""
    for inputs in (make(200, ABOUT, "symmetric"), make(90, ABOUT, "one-cell"), make(200, ABOUT)):
        algorithm = queried(device, inputs, form, buckets=buckets)
        expected = neighbours_by_brute_force(inputs)
        counts = device.download(algorithm.answer.counts)
        assert counts.tolist() == [len(row) for row in expected]
        if algorithm.answer.offsets is not None:
            offsets = device.download(algorithm.answer.offsets)
            listed = np.split(device.download(algorithm.answer.neighbours), offsets[1:-1])
            assert [sorted(row.tolist()) for row in listed] == expected


@every_number
@every_form
def test_each_bucket_around_a_particle_is_visited_once(
    device: Device, form: str, buckets: int
) -> None:
    inputs = make(500, ABOUT, "symmetric", seed=2)
    cells = cells_of(inputs)
    corner = cells.min(axis=0) if form == "world-limits" else np.zeros(3, np.int32)
    sizes = np.bincount(hash_buckets(cells - corner, buckets), minlength=buckets)
    visited = hash_buckets(around(cells - corner).reshape(-1, 3), buckets).reshape(-1, 27)
    tested = sum(int(sizes[np.unique(row)].sum()) - 1 for row in visited)
    outcome = queried(device, inputs, f"count-{form}", buckets=buckets).outcome()
    found = sum(map(len, neighbours_by_brute_force(inputs)))
    assert outcome == {"pairs": found, "candidates_per_neighbour": tested / found}


@given(
    places=st.lists(st.tuples(*[coordinates] * 3), max_size=6),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 4.0]),
    cell=st.sampled_from([0.1, 1.0, 3.0]),
    copies=st.integers(1, 60),
    buckets=st.sampled_from([0, *BUCKETS]),
    form=st.sampled_from(QUERIES),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40)
def test_any_world(
    device: Device,
    places: list[tuple[float, float, float]],
    spread: float,
    cell: float,
    copies: int,
    buckets: int,
    form: str,
    seed: int,
) -> None:
    """Particles about a few places anywhere in float32."""
    about = np.repeat(np.array(places, np.float64).reshape(-1, 3), copies, axis=0)
    about += np.random.default_rng(seed).normal(0, spread * cell, about.shape)
    inputs = given_at(np.clip(about, -3.4e38, 3.4e38), cell)
    number = buckets or 1 << max(0, len(about) - 1).bit_length()
    built(device, inputs, form.partition("-")[2], buckets=number)
    queried(device, inputs, form, buckets=buckets)


@every_query
def test_a_particle_that_is_nowhere_is_nobodys_neighbour(device: Device, form: str) -> None:
    inputs = make(300, ABOUT, seed=4)
    sound = neighbours_by_brute_force(inputs)
    for value in (np.nan, np.inf, -np.inf):
        positions = inputs.positions.copy()
        positions[7, 1] = value
        algorithm = HashQuery(device, 300, ABOUT, form, {})
        algorithm.load(ParticleSet(positions, ABOUT, "given", "given", None))
        algorithm.launch()
        left = [0 if i == 7 else len({*row} - {7}) for i, row in enumerate(sound)]
        assert device.download(algorithm.answer.counts).tolist() == left


# The table on devices


@every_number
@every_form
def test_every_bucket_holds_the_particles_of_its_cells(
    device: Device, form: str, buckets: int
) -> None:
    inputs = make(700, ABOUT, "symmetric", seed=5)
    algorithm = built(device, inputs, form, buckets=buckets)
    bounds, order, positions, corner = (
        device.download(array) for array in vars(algorithm.answer).values()
    )
    expected = hash_buckets(cells_of(inputs) - corner, buckets)
    for bucket, (start, end) in enumerate(bounds):
        members = np.flatnonzero(expected == bucket)
        if len(members) == 0:
            assert (start, end) == (NULL, NULL)
        else:
            assert sorted(order[start:end]) == members.tolist()
    np.testing.assert_array_equal(positions, inputs.positions[order])


@every_form
def test_a_table_is_built_anew_each_step(device: Device, form: str) -> None:
    """From any arrays: the corner of a world that has moved on is not the corner of the last."""
    algorithm = HashGrid(device, 400, UNIT, form, {})
    for step, place in enumerate((0.0, -50.0, 1e5, 3.0)):
        xyz = np.random.default_rng(step).uniform(-4, 4, (400, 3)) + place
        inputs = given_at(xyz)
        inputs.positions[:, 3] = np.arange(400)
        algorithm.load(inputs)
        algorithm.launch()
        assert problems.problems()["hash-grid"].check(algorithm, inputs) is None
        answer = algorithm.answer
        np.testing.assert_array_equal(
            device.download(answer.positions)[:, 3], device.download(answer.order)
        )
        lowest = cells_of(inputs).min(axis=0) if form == "world-limits" else np.zeros(3)
        np.testing.assert_array_equal(device.download(answer.corner), lowest)


def test_with_limits_the_place_of_the_world_does_not_matter(device: Device) -> None:
    """A world that is shifted by whole cells has the same table, and without limits another."""
    inputs = make(2000, ABOUT, "lattice", seed=6)
    shifted = given_at(inputs.positions[:, :3] + np.float32([16, -64, 32]))
    for form, is_same in (("original", False), ("world-limits", True)):
        before, after = (
            device.download(built(device, world, form, buckets=512).answer.bounds)
            for world in (inputs, shifted)
        )
        assert np.array_equal(before, after) == is_same


def test_limits_keep_mirror_images_apart(device: Device) -> None:
    """The paper's reason for them: without, cells of a symmetric world share buckets."""
    grid = Grid((32, 32, 32), (-16.0,) * 3, (32.0,) * 3)
    inputs = make(2**15, grid, "symmetric", seed=7)
    original, limited = (built(device, inputs, form, buckets=2**18).outcome() for form in LIMITS)
    assert original["cells"] == limited["cells"]
    # Of cells that fall into buckets by chance, one in 16 would share its bucket here.
    assert limited["collisions"] < 0.08 * limited["used"]
    assert original["collisions"] > 0.25 * original["used"]


@every_number
@every_form
def test_outcome(device: Device, form: str, buckets: int) -> None:
    inputs = make(600, ABOUT, "symmetric", seed=8)
    algorithm = built(device, inputs, form, buckets=buckets)
    members: dict[int, list[tuple[int, ...]]] = {}
    cells = cells_of(inputs)
    corner = device.download(algorithm.answer.corner)
    for cell, bucket in zip(cells, hash_buckets(cells - corner, buckets), strict=True):
        members.setdefault(int(bucket), []).append(tuple(cell))
    outcome = algorithm.outcome()
    assert outcome.pop("sort") in ("cub", "three-kernels")
    assert outcome == {
        "buckets": buckets,
        "used": len(members),
        "empty": buckets - len(members),
        "largest": max(map(len, members.values())),
        "cells": len({*map(tuple, cells)}),
        "collisions": sum(len({*found}) > 1 for found in members.values()),
    }


@pytest.mark.parametrize(
    ("particles", "buckets"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128), (4097, 8192)]
)
def test_by_default_there_are_as_many_buckets_as_particles(
    opencl_device: Device, particles: int, buckets: int
) -> None:
    assert built(opencl_device, make(particles, UNIT), "original").buckets == buckets


@pytest.mark.parametrize("algorithm", [HashGrid, HashQuery])
@pytest.mark.parametrize("buckets", [-1, MAX_BUCKETS + 1])
def test_a_bad_number_of_buckets_is_one_line(
    opencl_device: Device, algorithm: Any, buckets: int
) -> None:
    form = next(iter(algorithm.forms))
    with pytest.raises(UserError, match=f"buckets must be 1 to .*, not {buckets}$") as error:
        algorithm(opencl_device, 10, UNIT, form, {"buckets": buckets})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("algorithm", [HashGrid, HashQuery])
def test_a_periodic_box_is_not_supported(opencl_device: Device, algorithm: Any) -> None:
    form = next(iter(algorithm.forms))
    torus = Grid((3, 3, 3), (0.0,) * 3, (3.0,) * 3, (False, True, False))
    with pytest.raises(NotSupported, match="leave every axis open"):
        algorithm(opencl_device, 10, torus, form, {})


@pytest.mark.second_runtime
def test_what_the_study_names_is_reported(opencl_device: Device) -> None:
    inputs = make(500, ABOUT, "symmetric")
    reported = built(opencl_device, inputs, "original").outcome().keys()
    reported |= queried(opencl_device, inputs, "count-original").outcome().keys()
    assert load_study("silva2012-hash-grid").outcomes.keys() <= reported
