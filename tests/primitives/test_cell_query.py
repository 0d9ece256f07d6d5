"""Counts and lists over sorted cells by the kernels of a GPU, on every device there is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

from gpubench.algorithms import counting_sort
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives import cell_query, simd_query
from gpubench.primitives.cell_query import CellQuery
from gpubench.primitives.shared_sort import SharedSort
from gpubench.problems.cells.contract import SortedCells
from gpubench.problems.cells.oracle import check_sorted
from gpubench.problems.particles.cell_ids import CellIds

pytestmark = pytest.mark.second_runtime

CUTOFF = 1.0
BOX = (4.0, 3.0, 3.5)


def particles_of(kind: str, particles: int) -> np.ndarray:
    """Return positions that lie evenly, mostly in a corner, or at the ends of the rows of cells."""
    unit = np.random.default_rng(11).random((particles, 3), np.float32)
    if kind == "corner":
        unit[particles // 4 :] *= 0.15
    if kind == "ends":
        unit[:, 0] = np.where(unit[:, 0] < 0.5, 0.2 * unit[:, 0], 1 - 0.2 * (1 - unit[:, 0]))
    positions = np.zeros((particles, 4), np.float32)
    positions[:, :3] = np.minimum(unit, np.float32(0.9999)) * np.float32(BOX)
    return positions


def expected(positions: np.ndarray, is_periodic: bool) -> set[tuple[int, int]]:
    """Return the ordered pairs within the cutoff; none of these inputs is near its edge."""
    tree = cKDTree(positions[:, :3].astype(np.float64), boxsize=BOX if is_periodic else None)
    pairs = tree.query_pairs(CUTOFF)
    return pairs | {(j, i) for i, j in pairs}


def searched(
    device: Device, positions: np.ndarray, half: bool, periodic: bool, reach: int, *, lists: bool
):
    """Return a query over sorted cells, and what it reads."""
    particles = len(positions)
    grid = Grid((4 * reach, 3, 3), (0.0, 0.0, 0.0), BOX, (periodic,) * 3)
    cells = CountingSort(device, particles, grid, "reorder", {"levels": 1})
    cell_of, given = device.empty(particles, "int32"), device.upload(positions)
    CellIds(device, grid).launch(given, cell_of)
    cells.build(cell_of, given)
    query = CellQuery(
        device, particles, grid, CUTOFF, SortedCells, lists=lists, reach=reach, half=half
    )
    return query, query.arrays(cells.answer, given)


def listed(device: Device, positions: np.ndarray, half: bool, periodic: bool, reach: int):
    """Return what a query lists, as ordered pairs, and its counts."""
    particles = len(positions)
    query, arrays = searched(device, positions, half, periodic, reach, lists=True)
    query.make_room(arrays)
    query.list(arrays)
    found = query.found
    counts, offsets, neighbours = map(
        device.download, (found.counts, found.offsets, found.neighbours)
    )
    assert np.array_equal(np.diff(offsets), counts)
    rows = np.repeat(np.arange(particles), counts)
    return list(zip(rows.tolist(), neighbours.tolist(), strict=True))


@pytest.mark.parametrize("form", ["reorder", "gather"])
def test_a_counting_sort_computes_cells_where_positions_follow(
    device: Device, form: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(SharedSort, "pays", lambda *_: False)
    positions, grid = particles_of("corner", 700), Grid((8, 3, 3), (0.0, 0.0, 0.0), BOX)
    cells = CountingSort(device, 700, grid, form, {"levels": 0})
    assert not cells.reads_cells
    cell_of = device.upload(np.full(700, -1, np.int32))
    cells.build(cell_of, device.upload(positions))
    expected = grid.cell_ids(positions)
    assert np.array_equal(device.download(cell_of), expected)
    start, order, in_order = (
        device.download(a) for a in (cells.answer.start, cells.answer.order, cells.answer.positions)
    )
    assert np.array_equal(np.diff(start), np.bincount(expected, minlength=grid.count))
    assert np.array_equal(expected[order], np.sort(expected))
    assert np.array_equal(in_order, positions[order])
    assert CountingSort(device, 700, grid, "order", {"levels": 0}).reads_cells


@pytest.mark.parametrize("form", ["reorder", "gather", "order"])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("particles", [1, 31, 33, 2047, 2048, 2049, 4100])
def test_a_counting_sort_of_many_takes_more_of_them_a_thread(
    device: Device, form: str, in_order: bool, particles: int, monkeypatch: pytest.MonkeyPatch
):
    """With runs of equal cells, at the edges of warps and blocks, twice."""
    monkeypatch.setattr(counting_sort, "MANY", 0)
    positions, grid = particles_of("corner", particles), Grid((8, 3, 3), (0.0, 0.0, 0.0), BOX)
    if in_order:
        positions = positions[np.argsort(grid.cell_ids(positions), kind="stable")]
    cell_of, uploaded = device.upload(grid.cell_ids(positions)), device.upload(positions)
    cells = CountingSort(device, particles, grid, form, {})
    for _ in range(2):
        cells.build(cell_of, uploaded)
        found = cells.answer
        start, order = device.download(found.start), device.download(found.order)
        moved = None if found.positions is None else device.download(found.positions)
        ids = grid.cell_ids(positions)
        assert check_sorted(ids, grid.count, start, order, positions, moved) is None


def one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no threads share a particle, as on a GPU they do if particles are few."""
    for few in ("FEW", "FEW_WRAPPED", "FEW_COUNTED"):
        assert getattr(cell_query, few)
        monkeypatch.setattr(cell_query, few, {0.0: 0})


@pytest.mark.parametrize("way", ["groups", "marks", "one word a row"])
@pytest.mark.parametrize("kind", ["even", "corner", "ends"])
@pytest.mark.parametrize("periodic", [pytest.param(False, marks=pytest.mark.long), True])
def test_lists_hold_each_pair_once(
    device: Device, monkeypatch: pytest.MonkeyPatch, way: str, kind: str, periodic: bool
):
    monkeypatch.setattr(simd_query, "suits", lambda _: False)
    if way != "groups":
        one_thread_each(monkeypatch)
    if way == "one word a row":  # what does not fit is tested again
        monkeypatch.setattr(cell_query, "words_for", lambda *_: 1)
    for particles, reach in ((1, 2), (33, 3), (700, 2)):  # each reach is compiled
        positions = particles_of(kind, particles)
        pairs = expected(positions, periodic)
        found = listed(device, positions, False, periodic, reach)
        assert len(found) == len(pairs)
        assert set(found) == pairs
        half = listed(device, positions, True, periodic, reach)
        assert len(half) == len(pairs) // 2
        assert {(max(pair), min(pair)) for pair in half} == {p for p in pairs if p[0] > p[1]}


@pytest.mark.parametrize("kind", ["even", "corner", "ends"])
@pytest.mark.parametrize("periodic", [pytest.param(False, marks=pytest.mark.long), True])
def test_counts_are_of_each_pair_from_both_sides_or_once(
    device: Device, monkeypatch: pytest.MonkeyPatch, kind: str, periodic: bool
):
    monkeypatch.setattr(simd_query, "suits", lambda _: False)
    one_thread_each(monkeypatch)
    for particles, reach in ((1, 2), (33, 3), (700, 2)):  # each reach is compiled
        positions = particles_of(kind, particles)
        pairs = expected(positions, periodic)
        for half in (False, True):
            query, arrays = searched(device, positions, half, periodic, reach, lists=False)
            query.count(arrays)
            counts = device.download(query.found.counts)
            if half:
                assert counts.sum() == len(pairs) // 2
            else:
                of = [i for i, _ in pairs]
                assert np.array_equal(counts, np.bincount(of, minlength=particles))


def test_rows_beyond_the_room_are_cut_and_nothing_else_is_written(
    device: Device, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(simd_query, "suits", lambda _: False)
    one_thread_each(monkeypatch)
    query, arrays = searched(device, particles_of("even", 300), False, True, 1, lists=True)
    query.make_room(arrays)
    query.list(arrays)
    whole = device.download(query.found.neighbours)
    offsets = device.download(query.found.offsets)
    room, behind = 1000, 64
    assert room < offsets[-1]
    memory = device.upload(np.full(room + behind, -7, np.int32))
    query.write_to(query.found.counts, query.found.offsets, memory[:room])
    query.fill(arrays)
    cut = device.download(memory)
    assert (cut[room:] == -7).all()
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        if end <= room:
            assert set(cut[begin:end]) == set(whole[begin:end])
