"""Many systems in one search, against a search for each."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import NeighbourList
from gpubench.base.errors import UserError
from gpubench.neighbours import batch

TILTED = np.array([(3.0, 0.0, 0.0), (1.2, 2.8, 0.0), (-0.9, 0.7, 2.5)])
SIZES = (3, 0, 5)  # particles of the systems of `few`
OFFSETS = (0, 3, 3, 8)


@pytest.fixture(params=[1, 16], ids=["rows", "shared-rows"], scope="module")
def lanes(request):
    """Threads that share a row: those of a CPU, and of a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "lanes_on", lambda _: request.param)
        yield request.param


def few():
    return np.random.default_rng(2).random((8, 3)) * 2


@st.composite
def batches(draw):
    """Draw systems with a cell each, some of them empty, and particles also outside of cells."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 30, 200]), min_size=1, max_size=6))
    periodic = np.array(draw(st.sampled_from([(1, 1, 1), (1, 1, 0), (0, 1, 0), (0, 0, 0)])), bool)
    cells = np.eye(3) * rng.uniform(1.0, 3.0, (len(sizes), 3, 1))
    cells += np.tril(rng.uniform(-1.0, 1.0, cells.shape), -1) * draw(st.booleans())
    cells = cells @ np.linalg.qr(rng.normal(size=cells.shape))[0]  # half of them left-handed
    far = draw(st.sampled_from([0.0, 1e4]))
    positions = [
        (rng.random((n, 3)) + rng.integers(-2, 3, (n, 3)) * periodic) @ cell + far * rng.random(3)
        for n, cell in zip(sizes, cells, strict=True)
    ]
    given_as = np.full((sum(sizes), draw(st.sampled_from([3, 4]))), np.nan, np.float64)
    given_as[:, :3] = np.concatenate(positions)
    given_as = given_as.astype(draw(st.sampled_from(["float32", "float64"])))
    return sizes, periodic, cells, given_as, draw(st.floats(0.2, 1.5)), draw(st.booleans())


def listed(found, first=0, last=None):
    """Return the pairs, shifts and distances of the rows from `first` on, numbered from there."""
    here = slice(found.offsets[first], found.offsets[last] if last is not None else None)
    pairs = np.column_stack((found.pairs()[here] - first, found.shifts[here])).tolist()
    return dict(zip(map(tuple, pairs), found.distances()[here].tolist(), strict=True))


def one_way(pair):
    i, j, *shift = pair
    return max((i, j, *shift), (j, i, *(-s for s in shift)))


@settings(max_examples=20)
@given(batches())
def test_a_batch_finds_what_each_search_does(lanes, case):
    sizes, periodic, cells, positions, cutoff, half = case
    offsets = np.cumsum([0, *sizes])
    search = NeighbourList(cutoff, periodic=periodic, half=half)
    found = search(positions, batch=offsets, box=cells)
    assert (np.diff(found.offsets) == found.counts).all()
    assert np.array_equal(search.count(positions, batch=offsets, box=cells), found.counts)
    x = positions[:, :3].astype(np.float64)
    i, j = found.pairs().T
    system = np.repeat(np.arange(len(sizes)), sizes)
    assert np.array_equal(system[i], system[j])
    shift = np.einsum("ki,kij->kj", found.shifts, np.where(periodic[:, None], cells, 0)[system[i]])
    assert np.allclose(found.vectors(), x[j] - x[i] + shift, rtol=1e-5, atol=1e-9)
    for cell, first, last in zip(cells, offsets[:-1], offsets[1:], strict=True):
        # Tilted vectors of open axes are ignored; edges of orthogonal boxes would be bounds.
        own = NeighbourList(cutoff, np.where(periodic[:, None], cell, 0), periodic, half=half)
        ours, theirs = listed(found, first, last), listed(own(positions[first:last]))
        if half:
            assert len({*map(one_way, ours)}) == len(ours)
            ours, theirs = ({one_way(p): d for p, d in each.items()} for each in (ours, theirs))
        for pair in ours.keys() ^ theirs.keys():
            assert abs({**ours, **theirs}[pair] - cutoff) < 1.1e-5 * cutoff + 1e-7
        assert all(abs(ours[pair] - theirs[pair]) < 1e-5 for pair in ours.keys() & theirs.keys())


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("kept", "room"), [(2**26, 640), (0, 7)])
def test_rows_that_threads_share_are_sorted_rows(half, kept, room, monkeypatch):
    """Bits kept or found again, rows in shared memory or beyond, and few or many images."""
    monkeypatch.setattr(batch, "MOST_WORDS", kept)
    monkeypatch.setattr(batch, "STAGE", room)
    rng = np.random.default_rng(1)
    for cutoff, sizes in ((0.7, (90, 0, 31)), (2.5, (40, 1, 17)), (6.0, (2, 1, 1))):
        x = rng.uniform(-9, 9, (sum(sizes), 3))
        given = {"batch": np.cumsum((0, *sizes)), "box": np.stack([TILTED, TILTED * 2, np.eye(3)])}
        found = []
        for lanes in (1, 16):
            monkeypatch.setattr(batch, "lanes_on", lambda _, lanes=lanes: lanes)
            search = NeighbourList(cutoff, periodic=True, half=half, sort=not half and lanes == 1)
            found.append(search(x, **given))
            assert np.array_equal(search.count(x, **given), found[-1].counts)
        rows, shared = (np.column_stack((each.pairs(), each.shifts)) for each in found)
        assert len(shared) and np.array_equal(shared, shared[np.lexsort(shared.T[::-1])])
        assert np.array_equal(rows[np.lexsort(rows.T[::-1])], shared)


@pytest.mark.parametrize("of", [OFFSETS, np.array(OFFSETS, np.int32), [0, 0, 0, 1, 1, 1, 1, 1]])
def test_offsets_or_the_system_of_each_particle(of):
    found = NeighbourList(5.0)(few(), batch=of)
    assert found.counts.tolist() == [2, 2, 2, 4, 4, 4, 4, 4]
    assert len(NeighbourList(5.0)(few()[:0], batch=[0])) == 0
    assert len(NeighbourList(5.0)(few()[:0], batch=[])) == 0


@pytest.mark.parametrize("box", [(2.5,) * 3, np.eye(3) * 2.5, np.stack([np.eye(3) * 2.5] * 3)])
def test_one_cell_for_all_or_one_each(box):
    x, search = few(), NeighbourList(1.4, (2.5, 2.5, 2.5), True)
    found = search(x, batch=OFFSETS)  # the box of the list
    again = NeighbourList(1.4, periodic=True)(x, batch=OFFSETS, box=box)
    assert listed(again) == listed(found) and found.shifts.any()
    assert listed(found, 3, 8) == pytest.approx(listed(search(x[3:])))


def test_a_batch_takes_a_cell_each_by_that_name():
    x, cells = few(), np.stack([TILTED, TILTED, TILTED * 1.2])
    search = NeighbourList(1.4, cell=TILTED, periodic=True)
    found = search(x, batch=OFFSETS, cell=cells)
    assert np.array_equal(search.count(x, batch=OFFSETS, cell=cells), found.counts)
    assert listed(found) == listed(search(x, batch=OFFSETS, box=cells))
    assert listed(found) != listed(search(x, batch=OFFSETS))
    own = NeighbourList(1.4, TILTED * 1.2, True)
    assert listed(found, 3, 8) == pytest.approx(listed(own(x[3:])))


def test_pairs_are_exact_however_far_apart_particles_and_systems_are(lanes):
    x = np.array([(0, 0, 0), (0.589, 0, 0), (1e8, 0, 0), (1e8 + 0.5, 0, 0), (0.1, 0, 0)])
    found = NeighbourList(1.0)(x, batch=(0, 4, 5))
    assert found.pairs().tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert found.distances().tolist() == [0.589, 0.589, 0.5, 0.5]


def test_double_precision_decides_at_the_cutoff(lanes):
    x = np.argwhere(np.ones((4, 4, 4))) + 0.3125
    for cutoff, each in ((1.0, 0), (1 + 1e-12, 6), (2.0, 26), (2 + 1e-12, 32)):
        found = NeighbourList(cutoff, (4, 4, 4), True)(x, batch=(0, 64))
        assert found.counts.tolist() == [each] * 64


def test_a_batch_is_prepared_again_only_where_systems_or_cells_differ():
    search, x = NeighbourList(1.0, periodic=True), few()
    cells = np.stack([TILTED] * 3)
    search(x, batch=OFFSETS, box=cells)
    plan = search._plan[1]
    search(x * 0.9, batch=list(OFFSETS), box=cells.copy())
    assert search._plan[1] is plan
    search(x, batch=np.array(OFFSETS), box=cells)
    assert search._plan[1] is plan
    cells *= 1.1  # in place
    wider = search(x, batch=np.array(OFFSETS), box=cells)
    assert search._plan[1] is not plan
    own = NeighbourList(1.0, TILTED * 1.1, True)
    assert listed(wider, 3, 8) == pytest.approx(listed(own(x[3:])))
    assert search.searches == 4 and "batch" in search.chosen


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_what_was_found_is_copied_and_outlives_later_searches(way):
    search = NeighbourList(1.5, TILTED, True)
    found = search(few(), batch=OFFSETS)
    before, again = listed(found), way(found)
    search(few() * 0.5, batch=OFFSETS)
    assert listed(again) == before == listed(found) and len(again.check()) == len(found)
    assert np.array_equal(again.vectors(), found.vectors())


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("at", [3, 5])  # the first of a system, or another
def test_positions_that_are_not_finite(lanes, bad, at):
    x, search = few(), NeighbourList(1.0, TILTED, True)
    x[at, 1] = bad
    for call in (search, search.count):
        with pytest.raises(UserError, match=r"position \d is not finite, or is over 2"):
            call(x, batch=OFFSETS)
    if bad != 1e30:
        with pytest.raises(UserError, match=f"position {at} is not finite"):
            NeighbourList(1.0)(x, batch=OFFSETS)
    assert len(search(few(), batch=OFFSETS)) > 0


FLAT = np.stack([TILTED, np.ones((3, 3)), TILTED])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"batch": [0, 0, 0, 2, 2, 2, 2, 2]}, "batch has no particle in system 1: number systems"),
        ({"batch": [1, 1, 1, 2, 2, 2, 2, 2]}, "batch has no particle in system 0"),
        ({"batch": [0, 0, 1, 1, 0, 1, 1, 1]}, "number 4 is less than the one before"),
        ({"batch": (0, 5, 3, 8)}, "number 2 is less than the one before"),
        ({"batch": (0, 3, 7)}, "offsets from 0 to 8, or 8 systems, one for each particle, not 3"),
        ({"batch": (1, 3, 8)}, "offsets from 0 to 8"),
        ({"batch": (0, 3, 9)}, "offsets from 0 to 8"),
        ({"batch": [0.0, 8.0]}, "whole numbers, not"),
        ({"batch": [[0, 8]]}, "whole numbers, not"),
        ({"batch": "two"}, "whole numbers, not"),
        ({"batch": [[0], [1, 2]]}, "batch takes an array of numbers"),
        ({"box": np.stack([TILTED] * 2)}, "box of a batch takes 3 edges, a 3x3 matrix, or 3 matri"),
        ({"box": np.full((3, 3, 3), np.nan)}, "of finite numbers"),
        ({"box": "cubes"}, "of finite numbers"),
        ({"box": FLAT}, r"cell of system 1 .*\(determinant 0\): open an axis"),
        ({"box": TILTED * 1e-5}, "over 1,000 images of the cell of system 0: take a shorter"),
        ({"box": TILTED * 1e200}, "too long or too short"),
        ({"box": None}, "a periodic batch needs its cells"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(more, message):
    with pytest.raises(UserError, match=message) as raised:
        NeighbourList(1.0, periodic=True)(few(), **{"batch": OFFSETS, "box": TILTED} | more)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "cells"}, "order='cells' is not for a batch: leave one out"),
        ({"box": (9, 9, 9), "capacity": 9}, "capacity is not for a batch: leave one out"),
        ({"method": "counting-sort"}, "method is not for a batch: leave one out"),
        ({"skin": 0.1}, "skin is not for a batch: leave one out"),
    ],
)
def test_options_that_a_batch_does_not_have_are_refused(options, message):
    search = NeighbourList(1.0, **options)
    for call in (search, search.count):
        with pytest.raises(UserError, match=message):
            call(few(), batch=OFFSETS)


def test_a_periodic_list_without_a_box_searches_batches_alone():
    search = NeighbourList(1.0, periodic=True)
    for call in (search, search.count):
        with pytest.raises(UserError, match="a periodic search needs the edges of its box"):
            call(few())
