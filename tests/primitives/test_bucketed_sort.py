"""Sorting particles by cell in two levels, on every device there is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sorted_cells import GRID, conforms, particles_of, sorted_right

import gpubench
from gpubench.algorithms import cell_search, counting_sort
from gpubench.base.errors import NotSupported, UserError
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives.bucketed_sort import GROUP, BucketedSort, Shape, Tile
from gpubench.workloads.dpd import DPDStandard

pytestmark = pytest.mark.second_runtime


class SmallSort(BucketedSort):
    """Tiles and buckets so small that a thousand particles fill many."""

    tile = Tile(64, 4, 1)
    shapes = (Shape(tile, 32, 2, 1, 40, 256, 64), Shape(tile, 32, 4, 1, 80, 256, 4096))


@pytest.mark.parametrize("sort", [BucketedSort, SmallSort])
@pytest.mark.parametrize("kind", ["even", "corner", "first cell"])
@pytest.mark.parametrize("particles", [0, 1, 127, 2300])
def test_particles_lie_in_the_order_of_their_cells(
    device: Device, sort: type[BucketedSort], kind: str, particles: int
):
    sorted_right(device, sort(device, particles, GRID), particles_of(kind, particles), GRID)


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("groups", [1, 2])
def test_runs_lie_in_groups_of_buckets(device: Device, groups: int, more: int):
    buckets = groups * GROUP + more
    particles = buckets * SmallSort.shapes[0].in_bucket
    assert SmallSort.shapes[0].buckets_of(particles, GRID.count) == buckets
    for kind in ("even", "corner"):
        sorted_right(
            device, SmallSort(device, particles, GRID), particles_of(kind, particles), GRID
        )


# Those after the first are for more particles, and compile for seconds each: the last is long,
# those between are thorough.
LAST = len(BucketedSort.shapes) - 1


@pytest.mark.parametrize(
    "number",
    [
        0,
        *(pytest.param(n, marks=[pytest.mark.long, pytest.mark.thorough]) for n in range(1, LAST)),
        pytest.param(LAST, marks=pytest.mark.long),
    ],
)
def test_each_shape_sorts_more_than_a_tile(device: Device, number: int):
    shape = BucketedSort.shapes[number]
    if shape.needed_bytes > device.shared_bytes:
        pytest.skip("a block shares less here")
    particles = shape.tile.size + 1
    sorts = type("Sort", (BucketedSort,), {"shapes": (shape,)})(device, particles, GRID)
    sorted_right(device, sorts, particles_of("even", particles), GRID)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_bucket_holds_what_a_block_sorts_and_no_more(device: Device, more: int):
    most = SmallSort.shapes[0].most
    sorts = SmallSort(device, most + more, GRID)
    sorted_right(device, sorts, particles_of("first cell", most + more), GRID)
    assert sorts.large_buckets() == (more > 0)


@settings(max_examples=60, derandomize=True)
@given(
    tiles=st.integers(0, 4),
    more=st.sampled_from([-1, 0, 1, 31, 32, 33]),
    cells=st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(1, 3)),
    spots=st.lists(
        st.tuples(*[st.floats(0, 1, width=32)] * 3, st.floats(0, 0.5)), min_size=1, max_size=4
    ),
    in_order=st.booleans(),
    seed=st.integers(0, 99),
)
def test_particles_about_a_few_spots_are_sorted(
    device: Device, tiles: int, more: int, cells: tuple[int, ...], spots: list[tuple[float, ...]],
    in_order: bool, seed: int,
):  # fmt: skip
    """At the edges of tiles, with runs longer than a warp, in buckets that fit or do not."""
    particles = max(1, tiles * SmallSort.tile.size + more)
    grid = Grid(cells, (0.0, 0.0, 0.0), tuple(map(float, cells)))
    random = np.random.default_rng(seed)
    of = np.float32(spots)[random.integers(len(spots), size=particles)]
    unit = of[:, :3] + of[:, 3:] * (random.random((particles, 3), np.float32) - np.float32(0.5))
    positions = np.zeros((particles, 4), np.float32)
    positions[:, :3] = np.clip(unit, 0, np.float32(0.999)) * np.float32(cells)
    if in_order:
        positions = positions[np.argsort(grid.cell_ids(positions), kind="stable")]
    sorted_right(device, SmallSort(device, particles, grid), positions, grid)


def test_buckets_that_do_not_fit_are_sorted_too(device: Device):
    sorts = SmallSort(device, 2300, GRID)
    sorts.launch(device.upload(particles_of("corner", 2300)))
    assert 0 < sorts.large_buckets() < 58
    sorts.launch(device.upload(particles_of("even", 2300)))
    assert sorts.large_buckets() == 0


def test_the_first_shape_that_suffices_and_fits_is_taken(device: Device):
    small, large = SmallSort.shapes
    assert small.buckets_of(64 * 40, GRID.count) == 64
    assert SmallSort.shape_of(device, 64 * 40, GRID) is small
    assert SmallSort.shape_of(device, 64 * 40 + 1, GRID) is large
    at_most = SimpleNamespace(shared_bytes=large.needed_bytes - 1)
    assert SmallSort.shape_of(at_most, 64 * 40, GRID) is small
    assert SmallSort.shape_of(at_most, 64 * 40 + 1, GRID) is None
    wide = Grid((4096, 255, 1), GRID.low, GRID.size)
    with pytest.raises(NotSupported, match=r"at most 327,680 particles .* not 10 in 1,044,480"):
        SmallSort(device, 10, wide)


@pytest.mark.parametrize(
    ("particles", "kib", "number"),
    [
        (2**18, 227, 0), (2**19, 227, 0), (2**20, 227, 0), (2**21, 227, 1), (2**22, 227, 2),
        (2**24, 227, 2), (2**26, 227, 3), (2**21, 99, 1), (2**22, 99, 5), (2**24, 163, 4),
        (2**26, 163, None), (2**20, 64, None),
    ],
)  # fmt: skip
def test_shapes_are_those_that_were_fastest(particles: int, kib: int, number: int | None):
    """And as many blocks fit a multiprocessor of an H200 as are asked for."""
    cells = Grid((particles // 4 // 2**10, 2**10, 1), (0.0,) * 3, (100.0,) * 3)
    shape = BucketedSort.shape_of(SimpleNamespace(shared_bytes=kib << 10), particles, cells)
    if number is None:
        assert shape is None
        return
    assert shape == BucketedSort.shapes[number]
    for one, blocks, threads in (
        (shape.shared_bytes, shape.blocks, shape.block),
        (shape.shared_bytes_of_tile, shape.tile.blocks, shape.tile.block),
    ):
        assert blocks * (one + 4 * threads + 1040) <= 228 << 10


def test_two_levels_pay_past_the_cache_of_a_gpu():
    gpu = SimpleNamespace(is_cpu=False, cache_bytes=60 << 20, shared_bytes=227 << 10)
    cpu = SimpleNamespace(is_cpu=True, cache_bytes=60 << 20, shared_bytes=227 << 10)
    assert BucketedSort.pays(gpu, 2**21, GRID)
    assert BucketedSort.pays(gpu, 2**20, GRID)
    assert not BucketedSort.pays(gpu, 2**19, GRID)
    assert not BucketedSort.pays(cpu, 2**21, GRID)
    gpu.shared_bytes = 64 << 10
    assert not BucketedSort.pays(gpu, 2**21, GRID)
    gpu.shared_bytes = 227 << 10
    assert not BucketedSort.pays(gpu, 2**25, GRID)  # no cell fits into a bucket
    assert not BucketedSort.pays(gpu, 2**21, Grid((512, 512, 256), GRID.low, GRID.size))


def test_a_neighbour_list_takes_what_pays(monkeypatch: pytest.MonkeyPatch):
    """Also where a position has no cell. It has one runtime, whatever others there are."""
    monkeypatch.setattr(cell_search.CellSearch, "preferred_form", lambda *_: "gather")
    monkeypatch.setattr(counting_sort, "BucketedSort", SmallSort)
    positions = particles_of("corner", 2300)[:, :3]
    expected = gpubench.NeighbourList(cutoff=0.3, method="counting-sort")(positions)
    monkeypatch.setattr(SmallSort, "pays", lambda *_: True)
    found = gpubench.NeighbourList(cutoff=0.3, method="counting-sort")(positions)
    assert found.counts.max() > 10
    np.testing.assert_array_equal(found.counts, expected.counts)
    assert set(map(tuple, found.pairs())) == set(map(tuple, expected.pairs()))
    positions[7] = np.nan
    with pytest.raises(UserError, match="not finite"):
        gpubench.NeighbourList(cutoff=0.3, method="counting-sort")(positions)


def test_no_workload_sorts_in_two_levels(device: Device):
    """Its places are no float32, from which the cells would be computed."""
    with pytest.raises(UserError, match="counting-sort gather computes cells"):
        DPDStandard(device, 700, counting_sort.CountingSort, "gather", {"levels": 2}, 1)
    simulation = DPDStandard(device, 700, counting_sort.CountingSort, "gather", {}, 1)
    assert simulation.algorithm.reads_cells


def test_two_levels_are_those_of_gather(device: Device):
    with pytest.raises(NotSupported, match="only gather"):
        counting_sort.CountingSort(device, 10, GRID, "order", {"levels": 2})
    with pytest.raises(UserError, match="not 3"):
        counting_sort.CountingSort(device, 10, GRID, "gather", {"levels": 3})


@pytest.mark.parametrize(
    ("algorithm", "form"), [("counting-sort", "gather"), ("search-counting-sort", "count")]
)
@pytest.mark.long
def test_algorithms_over_two_levels_conform(
    device: Device, algorithm: str, form: str, monkeypatch: pytest.MonkeyPatch
):
    """Also from small inputs."""
    monkeypatch.setattr(cell_search.CellSearch, "preferred_form", lambda *_: "gather")
    monkeypatch.setattr(counting_sort, "BucketedSort", SmallSort)
    conforms(device, algorithm, form, levels=2)
