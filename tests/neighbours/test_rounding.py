"""What single precision does to a list where the box is many cutoffs long, or lengths are odd."""

from __future__ import annotations

import copy
import itertools
import pickle
import sys
import warnings

import numpy as np
import pytest
from builders.images import images_within
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from gpubench import NeighbourList
from gpubench.base.errors import UserError
from gpubench.neighbours.export.folder import write
from gpubench.neighbours.packing import _shelves, islands

FAR = np.array([[0.0, 0.0, 0.0], [0.589, 0.0, 0.0], [1e8, 0.0, 0.0]])
EXACT = 1e-5  # part of the cutoff within which a pair may be listed or not


def near(positions, distance, edges):
    """Return the pairs i < j of particles nearer than a distance, i * n + j of each, sorted."""
    inside = positions if edges is None else np.mod(positions, edges)
    pairs = cKDTree(inside, boxsize=edges).query_pairs(distance, output_type="ndarray")
    return np.unique(pairs[:, 0] * len(positions) + pairs[:, 1])


def assert_exact(search, positions, edges=None):
    """Check a list, and the counts, against SciPy. edges: if all axes are periodic."""
    found, n = search(positions), len(positions)
    pairs = found.pairs().astype(np.int64)
    pairs = pairs if found.ids is None else found.ids[pairs].astype(np.int64)
    is_full = len(np.unique(np.sort(pairs), axis=0)) * 2 == len(pairs)
    once = np.unique(np.sort(pairs) @ (n, 1))
    assert len(once) * (1 + is_full) == len(pairs) == search.count(positions).sum()
    exact = positions.astype(np.float64)
    must, may = (near(exact, search.cutoff * (1 + part), edges) for part in (-EXACT, EXACT))
    assert np.isin(must, once).all() and np.isin(once, may).all()
    return found


def at_the_cutoff(rng, n, edges, dtype):
    """Return n particles in a box, and for each one about 1 away, nearly half of them nearer."""
    x = rng.random((n, 3)) * edges
    way = rng.normal(size=(n, 3))
    way *= (1 + 3 * EXACT * rng.normal(size=(n, 1))) / np.linalg.norm(way, axis=1)[:, None]
    return np.concatenate((x, x + way)).astype(dtype)


@pytest.mark.parametrize("call", ["__call__", "count", "update"])
@pytest.mark.parametrize("box", [None, (2e15, 1, 1)])
@pytest.mark.parametrize("far", [1e3, 1e8, 1e15])
def test_a_pair_is_found_however_far_another_particle_is(call, box, far):
    search = NeighbourList(1.0, box, skin=0.001)
    found = getattr(search, call)(np.where(FAR == 1e8, far, FAR))
    assert (found if call == "count" else found.counts).tolist() == [1, 1, 0]


def test_a_box_that_is_too_long_for_a_capacity_is_warned_of_where_it_is_given():
    with pytest.warns(UserWarning, match=r"up to 48 \(NeighbourList.bound\)") as warned:
        search = NeighbourList(1.0, (1e8, 1.0, 1.0), capacity=9)
    assert warned[0].filename == __file__ and search.bound() == pytest.approx(48, abs=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once, and where the list is made
        search(FAR)
        NeighbourList(1.0, (1200, 1200, 1200), capacity=9)
        assert NeighbourList(1.0, (1e8, 1.0, 1.0)).bound() == EXACT


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tile_of_10_km_has_all_pairs_and_no_other(dtype):
    """Of which single precision lost 36 in 61,490."""
    rng = np.random.default_rng(7)
    positions = at_the_cutoff(rng, 30_000, (36_000, 36_000, 400), np.float64)
    search = NeighbourList(0.25)
    assert len(assert_exact(search, (positions / 4 + 500).astype(dtype))) > 25_000


@st.composite
def long_cases(draw):
    """Draw a box of up to 2^20 cutoffs along one axis, options, and particles in it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges = rng.permutation(
        [2.0 ** draw(st.integers(5, 20)), rng.uniform(3.5, 9), rng.uniform(3.5, 40)]
    )
    more = draw(st.sampled_from([{}, {"half": True}, {"order": "cells"}]))
    periodic = draw(st.booleans())
    dtype = np.dtype(draw(st.sampled_from(["float32", "float64"])))
    positions = at_the_cutoff(rng, draw(st.sampled_from([3, 300])), edges, dtype)
    if not periodic:
        return NeighbourList(1.0, **more), positions, None
    return NeighbourList(1.0, edges, True, **more), positions, edges


@settings(max_examples=40)
@given(long_cases())
def test_extents_of_a_million_cutoffs(case):
    assert_exact(*case)


@pytest.mark.long
@pytest.mark.thorough
@settings(max_examples=1000)
@given(long_cases())
def test_extents_of_a_million_cutoffs_of_many(case):
    assert_exact(*case)


def test_a_box_of_three_cutoffs_by_many_is_searched_with_images():
    """Where cells of a third of an edge are too short for what rounding adds to the cutoff."""
    rng = np.random.default_rng(5)
    for edges in ((3.0, 3.0, 3.0 * 2**18), (3.0, 3.0, 0.0)):
        positions = at_the_cutoff(rng, 150, (3.0, 3.0, 3.0 * 2**18), np.float64)
        search = NeighbourList(1.0, edges, True)
        repeats = np.array(edges) > 0
        found = {
            *map(tuple, np.column_stack((search(positions).pairs(), search(positions).shifts)))
        }
        must, may = (
            {*map(tuple, rows[:, :5].astype(int).tolist())}
            for part in (-EXACT, EXACT)
            for rows in [images_within(positions, np.diag((3, 3, 3.0 * 2**18)), repeats, 1 + part)]
        )
        assert must <= found <= may
        with pytest.raises(UserError, match="order='cells' is not for a cell"):
            NeighbourList(1.0, edges, True, order="cells")(positions)


@pytest.mark.parametrize("far", [30.0, 1e3, 1e9])
@pytest.mark.parametrize("kind", ["outlier", "clusters", "evaporated"])
@pytest.mark.parametrize("box", [None, (4e9, 4e9, 4e9)])
def test_islands_are_packed_into_a_small_box(far, kind, box):
    rng = np.random.default_rng(3)
    away = 2e9 + rng.uniform(-far, far, {"outlier": 1, "clusters": 8, "evaporated": 99}[kind] * 3)
    away = np.repeat(away.reshape(-1, 3), 100 if kind == "clusters" else 1, axis=0)
    away += rng.random(away.shape) * 3
    positions = np.concatenate((away, 2e9 + rng.random((2000, 3)) * 8))
    search = NeighbourList(1.0, box)
    assert_exact(search, positions)
    packing = search._plan[1].packing
    assert packing is not None or far == 30.0
    assert packing is None or np.prod(packing.box.size) < 30_000


def test_a_packing_serves_until_a_particle_leaves_the_blocks_in_use():
    rng = np.random.default_rng(3)
    positions = np.concatenate((rng.random((2000, 3)) * 8, [(500.5, 500.5, 500.5)]))
    search = NeighbourList(1.0)
    search(positions)
    packing = search._plan[1].packing
    positions[2000] += 0.1
    assert_exact(search, positions)
    assert search._plan[1].packing is packing
    positions[2000] = (8.3, 4, 4)  # beside the others: in no island of its own
    assert_exact(search, positions)
    positions[2000] = (-700, 4, 4)
    assert_exact(search, positions)
    assert search._plan[1].packing not in (None, packing)
    positions[2000] = np.nan
    for call in (search, search.count):
        with pytest.raises(UserError, match="not finite"):
            call(positions)


def test_bounds_hold_for_what_is_packed():
    rng = np.random.default_rng(3)
    positions = np.concatenate((rng.random((2000, 3)) * 8, [(500.0, 1000.0, 500.0)]))
    search = NeighbourList(1.0, (1000, 1000, 1000))
    assert search(positions).counts[2000] == 0 and search._plan[1].packing
    positions[2000, 1] += 0.1
    with pytest.raises(UserError, match="position 2000 is outside the box"):
        search(positions)


def test_an_atom_that_left_a_slab_is_packed_along_the_open_axis():
    rng = np.random.default_rng(3)
    slab = np.concatenate((rng.random((2000, 3)) * (9, 8, 5), [(1, 1, 6e6), (8.9, 1, 6e6)]))
    search = NeighbourList(1.0, (9, 8, 0), True)
    found = search(slab)
    assert found.counts[2000:].tolist() == [0, 0] or found.counts[2000:].tolist() == [1, 1]
    assert search._plan[1].packing.box.size[2] < 20
    slab[2000:, 2] = 50
    assert np.array_equal(np.sort(search(slab).counts), np.sort(found.counts))


def test_islands_touch_also_at_corners():
    at = np.array(
        [(0, 0, 0), (1, 1, 1), (3, 1, 1), (2, 2, 2), (0, 9, 0), (10**15, 0, -1), (0, 9, 2)]
    )
    number = islands(at)
    assert len({*number[:4]}) == 1 and len({*number[3:]}) == 4


def test_packed_boxes_do_not_overlap():
    sizes = np.random.default_rng(1).integers(2, 9, (60, 3))
    for axes in (1, 2, 3):
        starts = _shelves(sizes[:, :axes])
        for i, j in itertools.combinations(range(60), 2):
            ends = starts + sizes[:, :axes]
            assert ((starts[i] >= ends[j]) | (starts[j] >= ends[i])).any()
        assert starts.min() == 0 and (starts.max(axis=0) < 4 * 60 ** (1 / axes) * 6).all()


def test_what_float64_does_not_hold_is_refused():
    with pytest.raises(UserError, match="further apart than float64 holds"):
        NeighbourList(1.0)(np.array([[0, 0, 0], [0.589, 0, 0], [1.5e308] * 3]))
    with pytest.raises(UserError, match="float64 does not hold a cutoff of 1 in a box of 1"):
        NeighbourList(1.0)(np.array([[0, 0, 0], [0.589, 0, 0], [1e200] * 3]))
    with pytest.raises(UserError, match="remove what is far away"):
        slab = [(5, 0, 0), (1, 5, 0), (0, 0, 0)]
        NeighbourList(1.0, slab, True)(np.array([[0, 0, 0], [0.589, 0, 0], [0, 0, 1e9]]))


def test_what_a_kept_list_may_lack_is_taken_off_its_skin():
    search = NeighbourList(1.0, (9000, 10, 10), skin=0.02)
    search.update(np.full((2, 3), 5.0))
    for spared, searches in ((1.01, 1), (0.99, 2)):
        search.update(np.full((2, 3), [5.0 + 0.5 * (0.02 - spared * search.bound()), 5.0, 5.0]))
        assert search.searches == searches


@pytest.mark.parametrize("cutoff", [1e-23, 1e-150])
@pytest.mark.parametrize("half", [False, True])
def test_a_tiny_cutoff_finds_what_is_in_one_place(cutoff, half):
    positions = np.random.default_rng(0).random((50, 3)) * 10
    search = NeighbourList(cutoff, (10,) * 3, True, half=half)
    assert search.count(positions).tolist() == [0] * 50
    positions[7] = positions[9]
    assert search.count(positions).sum() == len(search(positions)) == 2 - half


@pytest.mark.parametrize("cutoff", [1e14, 1e19, 1e150, 1e308])
def test_a_huge_cutoff_finds_all(cutoff):
    positions = np.random.default_rng(0).random((50, 3)) * 10
    for half in (False, True):
        search = NeighbourList(cutoff, (10,) * 3, half=half)
        assert search.count(positions).sum() == len(search(positions)) == 50 * 49 // (1 + half)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ([1e307], "float64 does not hold a cutoff of 1"),
        ([1e308, -1e308], "further apart than float64 holds"),
        ([-1e200], "float64 does not hold a cutoff of 1"),
    ],
)
def test_coordinates_far_beyond_float32(ends, message):
    positions = np.random.default_rng(0).random((50, 3)) * 10
    positions[: len(ends), 0] = ends
    with pytest.raises(UserError, match=message):
        NeighbourList(1.0)(positions)
    with pytest.raises(UserError, match=r"or is over 2\^30 edges of the box away"):
        NeighbourList(1.0, (10,) * 3, True)(positions)


def test_the_bound_in_open_space_is_that_of_the_last_search():
    search = NeighbourList(1.0)
    with pytest.raises(UserError, match="search first, or give the edges of the box"):
        search.bound()
    search(np.array([[0.0, 0, 0], [10, 0, 0]]))
    for each in (search, pickle.loads(pickle.dumps(search)), copy.copy(search)):
        assert each.bound() == search.bound()
    assert search.bound() == pytest.approx(2.0**-21 * (np.hypot(11, np.sqrt(2)) + 1))
    assert search.bound((99, 4, 7)) == EXACT
    assert search.bound((5, 4, 7)) == pytest.approx(2.0**-21 * (np.sqrt(90) + 1))
    with pytest.raises(UserError, match="bound takes no box where the list has one"):
        NeighbourList(1.0, (5, 4, 7)).bound((1, 1, 1))


@pytest.mark.parametrize("edges", [(5, 0, 7), (0, 0, 1.5)])
def test_the_bound_of_a_box_with_open_axes_is_that_of_the_last_search(edges):
    """Also where the axis is short, which is searched with images."""
    search = NeighbourList(1.0, edges, True)
    with pytest.raises(UserError, match=r"none has succeeded yet: search first$"):
        search.bound()
    with pytest.raises(UserError, match="bound takes no box where the list has one"):
        search.bound((1, 1, 1))
    with pytest.raises(UserError):
        search(np.full((2, 3), np.nan))
    search(np.array([[0.0, 0, 0], [0, 5, 0]]))
    bound = search.bound()
    assert 2.0**-21 * 5 < bound < EXACT
    assert pickle.loads(pickle.dumps(search)).bound() == copy.deepcopy(search).bound() == bound


class CuPy:
    """As much of CuPy as it takes to make what was exported."""

    asarray, empty, zeros = np.asarray, np.empty, np.zeros

    def __init__(self, **_):
        self.get_function = {}.get

    RawModule = property(lambda _: CuPy)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return the class of the file for CuPy."""
    write(tmp_path / "it")
    monkeypatch.setitem(sys.modules, "cupy", CuPy())
    code = compile((tmp_path / "it" / "cupy_neighbours.py").read_text(), __file__, "exec")
    exec(code, taken := {"__file__": str(tmp_path / "it" / "cupy_neighbours.py")})
    return taken["NeighbourList"]


@pytest.mark.parametrize("name", ["bound", "n", "cutoff", "count"])
def test_nothing_of_the_file_for_cupy_can_be_set(make, name):
    search = make(10, (0, 0, 0), (9, 9, 9), 1.0)
    for change in (lambda: setattr(search, name, 3), lambda: delattr(search, name)):
        with pytest.raises(AttributeError, match=f"{name} of a NeighbourList cannot be .*: make"):
            change()


def test_the_file_for_cupy_warns_too(make):
    assert make(10, (0, 0, 0), (9, 9, 9), 1.0).bound < 1e-4
    with pytest.warns(UserWarning, match="pairs may be lost"):
        assert make(10, (0, 0, 0), (10, 10, 10), 1e-23)._cutoff2 > 0
    with pytest.warns(UserWarning, match=r"up to 0.0095 "):
        make(10, (0, 0, 0), (1e4, 1e4, 100), 0.25)
    assert np.isfinite(make(10, (0, 0, 0), (10, 10, 10), 1e30)._cutoff2)
    with pytest.raises(ValueError, match="float32 cannot tell"):
        make(10, (0, 0, 0), (1e19, 1e19, 1e19), 1e18)
