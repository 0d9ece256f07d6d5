"""`gpubench.NeighbourList` on arrays in host memory; on those of a GPU, see the end."""

from __future__ import annotations

import gc
import itertools
import pickle
import threading
import weakref

import numpy as np
import pytest
from fakes import FakeDevice
from hypothesis import given, settings
from hypothesis import strategies as st

import gpubench
from gpubench import NeighbourList
from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.neighbours import arrays
from gpubench.neighbours.method import methods
from gpubench.neighbours.plan import _parameters_for
from gpubench.neighbours.tilted import TiltedPlan
from gpubench.primitives import simd_query
from gpubench.primitives.cell_query import lanes_for, row_volume, words_for

EDGES = (5.0, 4.0, 7.0)
TILTED = np.array([(3.0, 0.0, 0.0), (1.2, 2.8, 0.0), (-0.9, 0.7, 2.5)])


def drawn(n, seed=0, edges=EDGES, dtype="float32"):
    rng = np.random.default_rng(seed)
    return (rng.random((n, 3)) * edges).astype(dtype)


def near_and_far(positions, cutoff, bound, size=None, periodic=(False,) * 3):
    """Return the pairs that must be listed, and those that may be, from both sides."""
    x = np.asarray(positions, np.float64)[:, :3]
    way = x[None] - x[:, None]
    if size is not None:
        edges = np.asarray(size)
        way -= np.where(periodic, np.rint(way / edges) * edges, 0.0)
    distance = np.sqrt((way**2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    must, may = distance < cutoff - bound, distance < cutoff + bound
    return set(zip(*must.nonzero(), strict=True)), set(zip(*may.nonzero(), strict=True))


def rows_of(found):
    """Return the pairs of a list as a sorted array, checked to be compressed rows."""
    offsets, neighbours = found.offsets, found.neighbours
    assert (np.diff(offsets) == found.counts).all() and offsets[0] == 0
    assert offsets[-1] == len(neighbours) == len(found)
    assert (found.counts.dtype, offsets.dtype, neighbours.dtype) == ("i4", "i8", "i4")
    pairs = found.pairs()
    assert np.array_equal(pairs[:, 0], np.repeat(np.arange(len(found.counts)), found.counts))
    assert np.array_equal(pairs[:, 1], neighbours)
    return pairs


def assert_right(found, positions, cutoff, bound, size=None, periodic=(False,) * 3, half=False):
    pairs = [tuple(pair) for pair in rows_of(found).tolist()]
    if half:
        pairs += [(j, i) for i, j in pairs]
    assert len(pairs) == len(set(pairs))
    must, may = near_and_far(positions, cutoff, bound, size, periodic)
    assert must <= set(pairs) <= may


@st.composite
def cases(draw):
    """Draw a box, where it repeats, a cutoff that fits, and particles, some of them far away."""
    edges = tuple(draw(st.sampled_from([3.0, 4.5, 1e3 / 3, 2.0**-6])) for _ in range(3))
    periodic = tuple(draw(st.booleans()) for _ in range(3))
    cutoff = min(edges) / draw(st.sampled_from([3.0, 3.7, 8.0]))
    n = draw(st.sampled_from([1, 2, 40, 150]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread = draw(st.sampled_from([1.0, 0.05]))  # of the box
    low = np.asarray([draw(st.sampled_from([0.0, -7.0, 1000.0])) for _ in range(3)])
    positions = low + rng.random((n, 3)) * edges * spread
    positions[rng.random(n) < 0.1] = low  # duplicates, on a corner
    periods = rng.integers(-3, 4, (n, 3)) * np.where(periodic, edges, 0.0)
    dtype = draw(st.sampled_from(["float32", "float64"]))
    given = np.full((n, draw(st.sampled_from([3, 4]))), np.nan, dtype)
    given[:, :3] = positions + periods
    if dtype == "float32":  # what rounding carried over a wall that does not repeat goes back
        open_axes = ~np.asarray(periodic)
        least, most = (wall.astype("float32") for wall in (low, low + edges))
        given[:, :3] = np.where(open_axes, np.clip(given[:, :3], least, most), given[:, :3])
    return edges, periodic, cutoff, tuple(low), given, draw(st.booleans())


def check_case(case):
    edges, periodic, cutoff, low, positions, half = case
    search = NeighbourList(cutoff, edges, periodic, low=low, half=half)
    found = search(positions)
    assert_right(found, positions, cutoff, search.bound(), edges, periodic, half)
    pairs, vectors, distances = found.pairs(), found.vectors(), found.distances()
    x = positions[:, :3].astype(np.float64)
    way = x[pairs[:, 1]] - x[pairs[:, 0]]
    way -= np.where(periodic, np.rint(way / edges) * edges, 0.0)
    assert vectors.dtype == distances.dtype == positions.dtype
    rounding = 1e-12 * (np.abs(x).max() + max(edges))
    assert np.allclose(vectors, way, rtol=1e-6, atol=rounding)
    assert np.allclose(distances, np.linalg.norm(way, axis=1), rtol=1e-6, atol=rounding)


@settings(max_examples=50)
@given(cases())
def test_lists_every_pair_and_no_other(case):
    check_case(case)


@pytest.mark.parametrize(
    "many", [100, pytest.param(2000, marks=[pytest.mark.long, pytest.mark.thorough])]
)
def test_agrees_with_libraries(many):
    """Pairs of random particles are those of SciPy and vesin, but for what is at the cutoff."""
    tree_of = pytest.importorskip("scipy.spatial").cKDTree
    vesin = pytest.importorskip("vesin").NeighborList(cutoff=1.0, full_list=True)
    rng = np.random.default_rng(many)
    for case in range(many):
        edges, periodic = rng.uniform(3.0, 7.0, 3), case % 2 == 0
        positions = rng.random((rng.integers(1, 400), 3)) * edges
        search = NeighbourList(1.0, edges, periodic)
        ours = {*map(tuple, search(positions).pairs().tolist())}
        tree = tree_of(positions, boxsize=edges if periodic else None)
        half = tree.query_pairs(1.0, output_type="ndarray")
        theirs = [{*map(tuple, half.tolist()), *map(tuple, half[:, ::-1].tolist())}]
        if periodic:
            i, j = vesin.compute(
                points=positions, box=np.diag(edges), periodic=True, quantities="ij"
            )
            theirs.append({*zip(i.tolist(), j.tolist(), strict=True)})
        for pairs in theirs:
            for a, b in pairs ^ ours:
                way = positions[a] - positions[b]
                way -= np.rint(way / edges) * edges * periodic
                assert abs(np.linalg.norm(way) - 1.0) < search.bound()


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_finds_the_same(name):
    positions = drawn(400)
    plain = NeighbourList(1.0, EDGES, True, method="counting-sort")(positions)
    search = NeighbourList(1.0, EDGES, True, method=name)
    found = search(positions)
    assert search.chosen == f"{name}, as asked"
    assert {*map(tuple, rows_of(found).tolist())} == {*map(tuple, rows_of(plain).tolist())}


@pytest.mark.parametrize("order", ["input", "cells"])
def test_counts_are_those_of_the_list(order):
    search = NeighbourList(1.0, EDGES, True, half=True, order=order)
    for n in (400, 0):
        found, counts = search(drawn(n)), search.count(drawn(n))
        expected = np.zeros(n, np.int32)
        expected[slice(None) if order == "input" else found.ids] = found.counts
        assert np.array_equal(counts, expected) and counts.dtype == np.int32
    with pytest.raises(UserError, match="position 3 is not finite"):
        search.count(np.where(np.arange(5)[:, None] == 3, np.nan, drawn(5)))


@pytest.mark.parametrize("more", [{}, {"capacity": 0}])
def test_a_count_writes_into_the_array_of_an_earlier_one(more):
    search = NeighbourList(1.0, EDGES, True, **more)
    out = search.count(drawn(400))
    before = out.copy()
    assert search.count(drawn(400, seed=1), out) is out
    assert np.array_equal(out, search.count(drawn(400, seed=1))) and (out != before).any()
    fixed = out.copy()
    fixed.setflags(write=False)
    others = (out[1:], out.astype(np.int64), out[None], np.repeat(out, 2)[::2], fixed)
    for wrong in (5, np.int32(5), out.tolist(), *others):
        with pytest.raises(UserError, match="out takes what an earlier count of 400 particles"):
            search.count(drawn(400), wrong)


class OfOther:
    """An array of a library that is neither NumPy nor PyTorch, in host memory."""

    def __init__(self, host):
        self.host, self.dtype, self.shape = host, host.dtype, host.shape

    def __array__(self, *_, **__):
        return self.host

    def __dlpack_device__(self):
        return self.host.__dlpack_device__()

    def __dlpack__(self, **more):
        return self.host.__dlpack__(**more)


def test_arrays_of_others_are_read_and_answered_with_numpy_arrays():
    positions = drawn(400)
    search = NeighbourList(1.0, EDGES, capacity=10_000)
    out = search.count(OfOther(positions))
    assert type(out) is np.ndarray and np.array_equal(out, search.count(positions))
    assert search.count(OfOther(positions), out) is out
    with pytest.raises(UserError, match="out takes what an earlier count"):
        search.count(positions, OfOther(out))


def test_errors_of_a_count_with_a_capacity_are_told_at_the_next_check():
    search = NeighbourList(1.0, EDGES, capacity=10_000)
    found = search(drawn(300))
    search.count(np.full((300, 3), np.nan, np.float32))
    with pytest.raises(UserError, match="not finite"):
        found.check()


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("box", [EDGES, None])
def test_few_particles_have_no_neighbours(n, box):
    found = NeighbourList(1.0, box, order="cells")(np.full((n, 3), 0.5))
    assert found.counts.tolist() == [0] * n and found.offsets.tolist() == [0] * (n + 1)
    assert found.ids.tolist() == list(range(n))
    assert [a.shape for a in (found.neighbours, found.pairs(), found.vectors())] == [
        (0,), (0, 2), (0, 3),
    ]  # fmt: skip
    assert found.distances().shape == (0,) and len(found.check()) == 0


def test_open_space_is_measured_and_grows_with_the_particles():
    search = NeighbourList(1.0)
    for scale in (1.0, 1.01, 30.0, 1.0):
        positions = drawn(200, seed=3) * np.float32(scale) - 20
        assert_right(search(positions), positions, 1.0, search.bound((150,) * 3))


def test_all_in_one_place():
    found = NeighbourList(1.0, EDGES, True)(np.full((500, 3), 0.1, np.float32))
    assert set(found.counts.tolist()) == {499} and found.distances().max() == 0


@pytest.mark.parametrize("periodic", [False, True])
def test_kernels_of_gpus_list_halves_on_a_cpu(periodic, monkeypatch):
    monkeypatch.setattr(simd_query, "suits", lambda device: False)
    search = NeighbourList(1.0, EDGES, periodic, half=True)
    positions = drawn(700)
    found = search(positions)
    bounds = search.bound(), EDGES, (periodic,) * 3
    assert_right(found, positions, 1.0, *bounds, half=True)


def test_rows_in_the_order_of_cells():
    positions = drawn(300)
    found = NeighbourList(1.0, EDGES, True, order="cells")(positions)
    assert sorted(found.ids.tolist()) == list(range(300))
    plain = rows_of(NeighbourList(1.0, EDGES, True)(positions))
    assert {*map(tuple, found.ids[rows_of(found)].tolist())} == {*map(tuple, plain.tolist())}
    way = positions[found.ids[found.pairs()[:, 1]]] - positions[found.ids[found.pairs()[:, 0]]]
    way -= np.rint(way / EDGES) * EDGES
    assert np.allclose(found.vectors(), way, atol=1e-5)


def test_answers_outlive_later_searches():
    search = NeighbourList(1.0, EDGES)
    first = search(drawn(300))
    before = first.neighbours.copy(), first.counts.copy()
    search(drawn(300, seed=1))
    assert np.array_equal(first.neighbours, before[0])
    assert np.array_equal(first.counts, before[1])


class TestCapacity:
    def test_with_room_the_list_is_the_same(self):
        positions = drawn(300)
        plain = NeighbourList(1.0, EDGES)(positions)
        search = NeighbourList(1.0, EDGES, capacity=len(plain) + 9)
        found = search(positions).check()
        assert len(found) == len(plain) and len(found.neighbours) == len(plain) + 9
        assert np.array_equal(found.offsets, plain.offsets)
        assert {*map(tuple, found.pairs().tolist())} == {*map(tuple, plain.pairs().tolist())}
        again = search(drawn(300, seed=1), out=found)
        assert again._rows is found._rows
        for wrong in (5, NeighbourList(1.0, EDGES, order="cells")(positions)):
            with pytest.raises(UserError, match="an earlier search like this one"):
                search(positions, out=wrong)

    def test_what_finds_no_room_is_told_once_and_nothing_is_written_beyond(self):
        positions = drawn(300)
        pairs = len(NeighbourList(1.0, EDGES)(positions))
        found = NeighbourList(1.0, EDGES, capacity=pairs - 1)(positions)
        assert found.pairs().shape == (pairs - 1, 2)
        with pytest.raises(UserError, match=f"{pairs:,} neighbours found no room in a capacity"):
            found.check()
        found.check()

    @pytest.mark.parametrize(
        ("bad", "message"), [(np.nan, "position 7 is not finite"), (9.0, "position 7 is outside")]
    )
    def test_bad_positions_are_told_at_the_check(self, bad, message):
        positions = drawn(300)
        positions[7, 1] = bad
        search = NeighbourList(1.0, EDGES, capacity=10_000)
        found = search(positions)
        with pytest.raises(UserError, match=message):
            found.check()
        search(drawn(300)).check()

    def test_a_list_has_its_room_whatever_else_was_searched(self):
        search = NeighbourList(1.0, EDGES)
        few = search(drawn(300))
        assert len(search(drawn(300) * np.float32(0.5))) > len(few)
        few.check()


def test_host_memory_is_free_when_a_search_returns():
    """With a capacity too: kernels work in NumPy's memory, which the caller may use at once."""
    positions = drawn(20_000, edges=(20.0,) * 3)
    plain = NeighbourList(1.0, (20, 20, 20), True)(positions)
    search = NeighbourList(1.0, (20, 20, 20), True, capacity=len(plain))
    row_of = np.repeat(np.arange(20_000), plain.counts)

    def in_order(neighbours):  # of a row, which they are in no particular
        return neighbours[np.lexsort((neighbours, row_of))]

    for _ in range(5):
        given = positions.copy()
        found = search(given)
        # Seen through NumPy, without asking the device for it.
        listed = found._rows.neighbours.owner.copy()
        given[:] = np.nan
        found.check()
        assert np.array_equal(found.offsets, plain.offsets)
        assert np.array_equal(in_order(listed), in_order(plain.neighbours))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("box", [EDGES, None])
def test_positions_that_are_not_finite(bad, box):
    positions = drawn(20)
    positions[11, 2] = bad
    search = NeighbourList(1.0, box, box is not None)
    with pytest.raises(UserError, match="not finite"):
        search(positions)
    assert len(search(drawn(20))) == len(NeighbourList(1.0, box, box is not None)(drawn(20)))


@pytest.mark.parametrize("images", [1 - 2**30, 2**30 - 2, 12345678.0, -1e-30])
def test_far_away_coordinates_along_a_periodic_axis_are_wrapped(images):
    edges = (3.75, 4.0, 7.25)  # which float64 holds, and so their multiples
    positions = np.round(drawn(200, 5, edges, "float64") * 2**20) / 2**20
    plain = rows_of(NeighbourList(1.0, edges, periodic=True)(positions))
    positions[7, 0] = np.remainder(positions[7, 0], edges[0]) + images * edges[0]
    found = NeighbourList(1.0, edges, periodic=True)(positions)
    assert {*map(tuple, rows_of(found).tolist())} == {*map(tuple, plain.tolist())}


@pytest.mark.parametrize("far", [1e17, -1e30, 1e300, -1.7e308])
def test_a_coordinate_that_float64_cannot_wrap_is_refused(far):
    positions, edges = drawn(20), (3.7, 4.1, 7.3)
    positions[7, 0] = far if abs(far) < 1e38 else np.float32(3e38)
    search = NeighbourList(1.0, edges, periodic=True, skin=0.1)
    for each in (positions, np.where(abs(positions) > 1e16, far, positions.astype(float))):
        for ask in (search, search.count, search.update):
            with pytest.raises(
                UserError, match=r"position 7 is not finite, or is over 2\^30 edges"
            ):
                ask(each)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize(("end", "beyond"), [(0.0, -1e-9), (1.0, 1e-9)])
def test_positions_outside_an_open_axis(axis, end, beyond):
    positions = drawn(20, dtype="float64")
    repeats = np.arange(3) != axis
    positions[3, axis] = end * EDGES[axis]
    assert len(NeighbourList(1.0, EDGES, repeats)(positions).counts) == 20
    positions[3, axis] += beyond
    with pytest.raises(UserError, match="position 3 is outside the box"):
        NeighbourList(1.0, EDGES, repeats)(positions)
    NeighbourList(1.0, EDGES, ~repeats)(positions)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cutoff": 0}, "cutoff takes a number above 0"),
        ({"cutoff": "wide"}, "cutoff takes"),
        ({"cutoff": "1.0"}, "cutoff takes a number above 0, not '1.0'"),
        ({"cutoff": 10**400}, "cutoff takes a number above 0, not 10000"),
        ({"cutoff": 1.0, "skin": -1}, "skin takes a number of at least 0"),
        ({"cutoff": 1.0, "box": (1, 2)}, "three positive finite edges"),
        ({"cutoff": 1.0, "box": (1, 2, -1)}, "three positive finite edges"),
        ({"cutoff": 1.0, "box": ("5", "4", "7")}, "three positive finite edges"),
        ({"cutoff": 1.0, "box": np.eye(2)}, "three positive finite edges"),
        (
            {"cutoff": 1.0, "box": (1e308,) * 3, "skin": 1e303},
            "give positions, box and cutoff in a",
        ),
        (
            {"cutoff": 1e-170, "box": (1e-163,) * 3, "skin": 1e-169},
            "cutoff of 1.1e-169 in a box of 1e-163",
        ),
        ({"cutoff": 1.0, "box": None, "periodic": True}, "needs the edges"),
        ({"cutoff": 1.0, "periodic": (True, False)}, "periodic takes True, False, or three"),
        ({"cutoff": 1.0, "order": "random"}, "order takes input or cells"),
        ({"cutoff": 1.0, "order": np.array(["a", "b"])}, "order takes input or cells"),
        ({"cutoff": 1.0, "half": "no"}, "half takes True or False, not 'no'"),
        ({"cutoff": 1.0, "capacity": -1}, "capacity takes"),
        ({"cutoff": 1.0, "capacity": 2.5}, "capacity takes a whole number of at least 0, not 2.5"),
        (
            {"cutoff": 1.0, "capacity": "10"},
            "capacity takes a whole number of at least 0, not '10'",
        ),
        ({"cutoff": 1.0, "capacity": True}, "capacity takes a whole number"),
        ({"cutoff": 1.0, "capacity": 10**12}, "3725.29 GiB for one array"),
        ({"cutoff": 1.0, "capacity": 10**19}, "GiB for one array"),
        ({"cutoff": 1.0, "box": None, "capacity": 9}, "give it"),
        ({"cutoff": 1.0, "method": "magic"}, "method takes auto, atomic-list, counting-sort"),
        ({"cutoff": 1.0, "method": ["counting-sort"]}, "method takes auto or the name"),
        ({"cutoff": 1.0, "method": "atomic-list", "half": True}, "need sorted cells"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message):
    with pytest.raises(UserError, match=message) as raised:
        NeighbourList(**{"box": EDGES} | arguments)(drawn(10))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (np.zeros((5, 2)), r"shape \(n, 3\) or \(n, 4\), not \(5, 2\)"),
        (np.zeros(6), "shape"),
        (np.zeros((5, 3), int), "float32 or float64, not int64"),
        ([[0.0, 0.0, 0.0]], "not list"),
        (np.ma.masked_greater(np.ones((5, 3)), 0.5), "without masked numbers"),
    ],
)
def test_wrong_positions_are_one_line(positions, message):
    with pytest.raises(UserError, match=message):
        NeighbourList(1.0, EDGES)(positions)


def test_rows_that_are_not_contiguous_are_copied():
    positions = drawn(200)
    plain = NeighbourList(1.0, EDGES)(positions)
    strided = np.zeros((400, 6), np.float32)[::2, ::2]
    strided[:] = positions
    assert np.array_equal(NeighbourList(1.0, EDGES)(strided).counts, plain.counts)


class TestUpdate:
    def test_searches_when_a_particle_moved_by_half_the_skin(self):
        search = NeighbourList(1.0, EDGES, True, skin=0.2)
        positions, rng = drawn(300, dtype="float64"), np.random.default_rng(5)
        searches = []
        for _ in range(12):
            found = search.update(positions)
            searches.append(search.searches)
            must, _ = near_and_far(positions, 1.0, search.bound(), EDGES, (True,) * 3)
            assert must <= {*map(tuple, found.pairs().tolist())}
            distances = found.distances()
            assert (distances < 1.0).sum() == len(must)
            positions = positions + rng.uniform(-0.02, 0.02, positions.shape)
        assert 1 < searches[-1] < 12 and searches[1] == 1

    def test_another_number_of_particles_is_another_search(self):
        search = NeighbourList(1.0, EDGES, skin=0.2)
        assert [len(search.update(drawn(n)).counts) for n in (30, 40, 0, 40)] == [30, 40, 0, 40]

    def test_needs_a_skin(self):
        with pytest.raises(UserError, match="needs a skin"):
            NeighbourList(1.0, EDGES).update(drawn(3))


def test_the_package_shows_what_it_has():
    assert {"NeighbourList", "Found", "tune", "load"} <= set(dir(gpubench))


def test_threads_take_turns():
    search = NeighbourList(1.0, EDGES, True)
    inputs = [drawn(200 + 10 * k, seed=k) for k in range(4)]
    expected = [NeighbourList(1.0, EDGES, True)(each).counts.sum() for each in inputs]
    wrong = []

    def work(k):
        wrong.extend(k for _ in range(10) if search(inputs[k]).counts.sum() != expected[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_arrays_that_are_dropped_are_kept_until_kernels_are_done():
    search = NeighbourList(1.0, (30, 30, 30), capacity=200_000)
    inputs = [drawn(20_000, seed=seed, edges=(30.0,) * 3) for seed in range(4)]
    for turn in range(80):  # nothing is looked at
        search(inputs[turn % 4].copy())
    plain = NeighbourList(1.0, (30, 30, 30))(inputs[0])
    assert np.array_equal(search(inputs[0]).counts, plain.counts)


def test_memory_goes_with_the_search():
    gc.disable()  # it is not what returns it
    try:
        search = NeighbourList(1.0, EDGES)
        found = search(drawn(100))
        search.count(drawn(100))
        held = weakref.ref(search._plan[1]), weakref.ref(found)
        del search, found
        assert [each() for each in held] == [None, None]
    finally:
        gc.enable()


def test_a_list_beyond_what_the_process_may_take(monkeypatch):
    monkeypatch.setattr(arrays, "LARGE", 1000)
    monkeypatch.setattr(arrays, "allowed_bytes", lambda: 2000)
    positions = drawn(100)
    with pytest.raises(UserError, match=r"more than the 0.00 GiB that this process may take"):
        NeighbourList(3.0, EDGES)(positions)
    device = arrays.arrays_of(positions).device
    with pytest.raises(UserError, match="GiB for one array"), device.memory_errors(5, "int32"):
        raise MemoryError


@pytest.mark.parametrize("periodic", [False, True])
def test_marks_of_long_rows_leave_room_in_shared_memory(periodic):
    """Of what a search on a GPU compiles, at 1 to 200 particles a cell."""
    method, found = CountingSortSearch, set()
    for per_cell in range(1, 201):
        n, grid = 1000 * per_cell, Grid((10, 10, 10), (0, 0, 0), (10, 10, 10), (periodic,) * 3)
        parts = _parameters_for(FakeDevice(), method, n, grid, 1.0)["parts"]
        parts = parts or method.parts(FakeDevice(), n, grid)
        in_row = n / 1000 * row_volume(grid, 1.0, parts)
        if not lanes_for(n, 4.2 * per_cell, in_row):
            found.add(words_for(in_row, periodic))
    assert max(found) == 9  # with 10, a block takes more than 48 KiB


# On an NVIDIA GPU


@pytest.fixture(params=["cupy", "torch"])
def to_gpu(request):
    module = pytest.importorskip(request.param)
    if request.param == "cupy":
        return module, module.asarray, lambda array: array.get()
    return module, lambda host: module.from_numpy(host).cuda(), lambda array: array.cpu().numpy()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("cutoff", [1.0, 2.5, 4.0])  # 5, 86 and 350 neighbours
def test_arrays_of_a_gpu_stay_there(to_gpu, dtype, half, cutoff):
    _, up, down = to_gpu
    positions = drawn(5000, edges=(15.0, 12.0, 21.0), dtype=dtype)
    box, periodic = (15, 12, 21), (True, False, True)
    asked = {"cutoff": cutoff, "box": box, "periodic": periodic, "half": half}
    plain = NeighbourList(**asked)(positions)
    given = up(positions)
    found = NeighbourList(**asked)(given)
    for name in ("counts", "offsets", "neighbours"):
        array = getattr(found, name)
        assert type(array) is type(given) and array.device == given.device
    assert np.array_equal(np.sort(down(found.distances())), np.sort(plain.distances()))
    both = [np.sort(p, axis=1) for p in (down(found.pairs()), plain.pairs())]
    first, second = ({*map(tuple, pairs.tolist())} for pairs in both)
    assert first == second and len(found) == len(plain)


@pytest.mark.cuda
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("cell", "periodic", "cutoff"),
    [
        ([(15, 0, 0), (4, 12, 0), (-3, 5, 21)], True, 1.5),  # tilted
        ([(3, 0, 0), (1.2, 2.8, 0), (-0.9, 0.7, 2.5)], True, 4.0),  # the cutoff is longer
        ([(3, 0, 0), (1, 4, 0), (0, 0, 0)], (True, True, False), 2.5),  # a slab
    ],
)  # fmt: skip
def test_cells_of_any_shape_are_searched_on_a_gpu(to_gpu, half, cell, periodic, cutoff):
    _, up, down = to_gpu
    x = np.random.default_rng(5).uniform(-1, 2, (500, 3)) @ np.array([*cell[:2], (0, 0, 9)])
    plain = NeighbourList(cutoff, np.array(cell, float), periodic, half=half)(x)
    found = NeighbourList(cutoff, np.array(cell, float), periodic, half=half)(up(x))
    rows = [np.column_stack(arrays) for arrays in (
        (plain.pairs(), plain.shifts), (down(found.pairs()), down(found.shifts))
    )]  # fmt: skip
    if half:  # which of both rows holds a pair is open
        rows = [np.where((r[:, :1] < r[:, 1:2]), r, np.c_[r[:, 1::-1], -r[:, 2:]]) for r in rows]
        rows = [np.c_[r[:, :2], np.abs(r[:, 2:])] for r in rows]
    mine, theirs = (r[np.lexsort(r.T)] for r in rows)
    assert len(mine) and np.array_equal(mine, theirs)
    assert np.allclose(np.sort(down(found.distances())), np.sort(plain.distances()))


@pytest.mark.cuda
@pytest.mark.parametrize("more", [{}, {"order": "cells"}])
def test_what_a_gpu_found_is_pickled(to_gpu, more):
    _, up, down = to_gpu
    found = NeighbourList(1.0, EDGES, True, **more)(up(drawn(300)))
    other = pickle.loads(pickle.dumps(found))
    assert type(other.counts) is type(found.counts)
    for mine, copied in ((found.pairs(), other.pairs()), (found.vectors(), other.vectors())):
        assert np.array_equal(down(mine), down(copied))


@pytest.mark.cuda
def test_gradients_of_a_gpu_are_those_of_the_host():
    torch = pytest.importorskip("torch")
    gradients = []
    for device in ("cpu", "cuda"):
        positions = torch.tensor(drawn(300, dtype="float64"), device=device, requires_grad=True)
        distances = NeighbourList(1.0, EDGES, True)(positions).distances()
        (distances.square().sum() + distances.sum()).backward()
        gradients.append(positions.grad.cpu())
    assert torch.allclose(*gradients)


@pytest.mark.cuda
def test_an_array_with_no_more_than_the_interface_of_cuda_is_taken():
    cupy = pytest.importorskip("cupy")

    class Own:
        def __init__(self, array):
            self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__

    found = NeighbourList(1.0, EDGES)(Own(cupy.asarray(drawn(300))))
    assert np.array_equal(found.counts.get(), NeighbourList(1.0, EDGES)(drawn(300)).counts)


@pytest.mark.cuda
def test_a_graph_of_cupy_holds_a_search():
    module = pytest.importorskip("cupy")
    positions = module.asarray(drawn(5000, edges=(15.0,) * 3))
    search = NeighbourList(1.0, (15, 15, 15), True, capacity=400_000, method="counting-sort")
    stream = module.cuda.Stream(non_blocking=True)
    with stream:
        found = search(positions).check()
        counts = search.count(positions)
        stream.begin_capture()
        search(positions, out=found)
        search.count(positions, counts)
        graph = stream.end_capture()
        for seed in (1, 2):
            other = drawn(5000, seed=seed, edges=(15.0,) * 3)
            positions.set(other)
            graph.launch(stream)
            stream.synchronize()
            again = NeighbourList(1.0, (15, 15, 15), True)(other)
            assert np.array_equal(found.offsets.get(), again.offsets)
            assert np.array_equal(counts.get(), again.counts)
            found.check()


@pytest.mark.cuda
@pytest.mark.parametrize("reuses", [False, True])
def test_a_graph_of_torch_holds_a_search(reuses):
    torch = pytest.importorskip("torch")
    positions = torch.from_numpy(drawn(5000, edges=(15.0,) * 3)).cuda()
    search = NeighbourList(1.0, (15, 15, 15), True, capacity=400_000, method="counting-sort")
    out = search(positions).check()
    before = out.offsets
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = search(positions, out=out if reuses else None)
    other = drawn(5000, seed=1, edges=(15.0,) * 3)
    positions.copy_(torch.from_numpy(other))
    graph.replay()
    torch.cuda.synchronize()
    again = NeighbourList(1.0, (15, 15, 15), True)(other)
    assert (found.offsets is before) == reuses
    assert np.array_equal(found.check().offsets.cpu().numpy(), again.offsets)


@pytest.mark.cuda
def test_what_else_a_gpu_does(to_gpu):
    _, up, down = to_gpu
    positions = drawn(3000, edges=(9.0,) * 3)
    given = up(positions)
    plain = {*map(tuple, NeighbourList(1.0)(positions).pairs().tolist())}
    assert {*map(tuple, down(NeighbourList(1.0)(given).pairs()).tolist())} == plain
    for method in methods():
        listed = NeighbourList(1.0, method=method)(given)
        assert {*map(tuple, down(listed.pairs()).tolist())} == plain
        assert repr(listed) == f"Found(3,000 particles, {len(plain):,} pairs)"
    cells = NeighbourList(1.0, (9, 9, 9), order="cells")(given)
    ids = down(cells.ids)
    assert {*map(tuple, ids[down(cells.pairs())].tolist())} == plain
    # As many arrays at once as a list has, none in the memory of another.
    assert sorted(ids) == list(range(3000)) and down(cells.offsets)[-1] == len(plain)
    skin = NeighbourList(1.0, (10, 10, 10), skin=0.4)
    for step in (0.0, 0.1, 0.1):
        given += step
        found = skin.update(given)
    assert skin.searches == 2
    assert int((down(found.distances()) < 1.0 - 1e-5).sum()) <= len(plain) <= len(found)


@pytest.mark.cuda
def test_the_stream_of_torch_is_used():
    torch = pytest.importorskip("torch")
    positions = torch.zeros((2**20, 3), device="cuda")
    final = torch.from_numpy(drawn(2**20, edges=(64.0,) * 3)).cuda()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    search = NeighbourList(1.0, (64, 64, 64), capacity=20_000_000)
    with torch.cuda.stream(stream):
        for _ in range(20):
            positions.copy_(final)
        counts = search(positions).counts.clone()
    stream.synchronize()
    plain = search(final).counts
    assert torch.equal(counts, plain)


@pytest.mark.cuda
def test_coordinates_are_wrapped_on_a_gpu(to_gpu):
    _, up, down = to_gpu
    edges, images = np.array([3.75, 4.0, 7.25]), np.random.default_rng(6).integers(-9, 9, (300, 3))
    positions = np.round(drawn(300, 5, edges, "float64") * 2**20) / 2**20
    search = NeighbourList(1.0, edges, periodic=True)
    plain = down(search.count(up(positions)))
    assert np.array_equal(plain, down(search.count(up(positions + images * edges))))
    positions[5, 2] += 2.0**32 * edges[2]
    with pytest.raises(UserError, match=r"position 5 is .* over 2\^30 edges of the box"):
        search(up(positions))


@pytest.mark.cuda
def test_errors_of_a_gpu_are_those_of_the_host(to_gpu):
    _, up, _ = to_gpu
    positions = drawn(100)
    positions[5, 0] = np.nan
    for room in ({}, {"capacity": 10_000}):
        with pytest.raises(UserError, match="position 5 is not finite"):
            NeighbourList(1.0, EDGES, **room)(up(positions)).check()
    empty = NeighbourList(1.0, EDGES)(up(positions[:0]))
    assert len(empty) == 0 and tuple(empty.vectors().shape) == (0, 3)


@pytest.mark.cuda
def test_past_two_to_the_24_neighbours():
    cupy = pytest.importorskip("cupy")
    positions = cupy.random.default_rng(1).random((2**20, 3), dtype=cupy.float32) * 64
    found = NeighbourList(1.2, (64, 64, 64), True)(positions)
    expected = 2**20 * (2**20 - 1) * 4 / 3 * np.pi * 1.2**3 / 64**3
    assert abs(len(found) / expected - 1) < 0.01
    step = 5003
    for i in itertools.islice(range(0, 2**20, step), 40):
        way = positions - positions[i]
        way -= cupy.rint(way / 64) * 64
        near = int((cupy.sqrt((way**2).sum(axis=1)) < 1.2).sum()) - 1
        assert abs(near - int(found.counts[i])) <= 1


@pytest.mark.cuda
@pytest.mark.parametrize("cutoff", [0.64, 0.68])  # nine words of marks, and too many
def test_rows_of_400_neighbours_on_a_gpu_are_those_of_the_host(to_gpu, cutoff):
    _, up, down = to_gpu
    positions, search = drawn(40_000), NeighbourList(cutoff, EDGES, True, method="counting-sort")
    found, host = search(up(positions)), search(positions)
    assert np.array_equal(down(found.counts), host.counts)
    assert down(found.neighbours).sum(dtype=np.int64) == host.neighbours.sum(dtype=np.int64)


@pytest.mark.cuda
@pytest.mark.parametrize("half", [False, True])
def test_a_batch_on_a_gpu_is_that_of_the_host(to_gpu, half):
    _, up, down = to_gpu
    rng = np.random.default_rng(4)
    offsets, cells = (
        np.arange(0, 61 * 40, 40),
        np.stack([TILTED] * 60) * rng.uniform(1, 2, (60, 1, 1)),
    )
    positions = np.concatenate([rng.normal(size=(40, 3)) @ cell for cell in cells])
    search = NeighbourList(1.5, periodic=True, half=half)
    found, host = (search(x, batch=offsets, box=cells) for x in (up(positions), positions))
    assert np.array_equal(down(found.offsets), host.offsets)
    rows = [down(found.pairs()), down(found.shifts)], [host.pairs(), host.shifts]
    listed = [{*map(tuple, np.column_stack(each).tolist())} for each in rows]
    assert listed[0] == listed[1]
    assert np.allclose(np.sort(down(found.distances())), np.sort(host.distances()))
    assert np.array_equal(down(search.count(up(positions), batch=offsets, box=cells)), host.counts)


@pytest.mark.cuda
@pytest.mark.parametrize("far", [1e3, 2.0**20, 1e9])
def test_islands_and_extents_on_a_gpu_are_those_of_the_host(to_gpu, far):
    _, up, down = to_gpu
    rng = np.random.default_rng(3)
    islands = [rng.random((500, 3)) * 4 + rng.uniform(-far, far, 3) for _ in range(6)]
    filled = rng.random((3000, 3)) * (far, 9.0, 9.0)
    for positions, edges in ((np.concatenate(islands), None), (filled, (far, 9.0, 9.0))):
        if edges is not None and far > 2.0**20:
            continue
        search = NeighbourList(1.0, edges, edges is not None)
        found, host = search(up(positions)), search(positions)
        assert np.array_equal(down(found.counts), host.counts)
        pairs = [{*map(tuple, pairs.tolist())} for pairs in (down(found.pairs()), host.pairs())]
        assert pairs[0] == pairs[1]
        for moved in (1e-3, 9.0):  # the packing serves, and does not
            again = search(up(positions + moved * (np.arange(len(positions)) == 7)[:, None]))
            assert len(again) == len(
                search(positions + moved * (np.arange(len(positions)) == 7)[:, None])
            )


@pytest.mark.cuda
@pytest.mark.parametrize(
    "cell", [np.diag((6.0, 5.0, 7.0)), [(3, 0, 0), (1.2, 2.8, 0), (0, 1, 2.5)]]
)
def test_conventions_of_other_packages_on_a_gpu(to_gpu, cell):
    _, up, down = to_gpu
    rng, cell = np.random.default_rng(2), np.array(cell, float)
    x, q = rng.uniform(-1, 2, (300, 3)) @ cell, rng.uniform(-1, 2, (40, 3)) @ cell
    radii, species = rng.uniform(0, 0.5, 300), np.arange(300) % 2
    answers = []
    for to, back in ((np.asarray, np.asarray), (up, down)):
        search = NeighbourList(1.0, cell, True, sort=True)
        table = NeighbourList([[1.0, 0.6], [0.6, 0.0]], cell, True, sort=True)
        found = [
            search(to(x)), search(to(x), box=cell * 1.1), search(to(x), queries=to(q)),
            search(to(x), radii=to(radii)), search(to(x), radii=to(radii), combine="max"),
            table(to(x), species=to(species)),
        ]  # fmt: skip
        kept = NeighbourList(1.0, cell, True, skin=0.2)
        kept.update(to(x))
        moved = kept.update(to(x * 1.01), box=cell * 1.01)
        assert kept.searches == 1 and type(found[2].neighbours) is type(to(x))
        answers.append([np.sort(back(moved.distances()))])
        for each in found:
            arrays = (each.neighbours, each.pairs(), each.shifts, each.vectors(), *each.matrix())
            answers[-1] += map(back, arrays)
    for host, gpu in zip(*answers, strict=True):
        assert host.shape == gpu.shape and np.allclose(host, gpu)


@pytest.mark.cuda
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(
    ("particles", "cutoff"),
    [
        (40_000, 1.0), (40_000, 1.6), (40_000, 2.4),  # 4, 16 and 58 neighbours, by a thread
        (30_000, 2.4), (30_000, 3.9),  # 43 and 186, by 16 and 32 threads
        (80_000, 4.1),  # more than a thread can mark
    ],
)  # fmt: skip
def test_a_tilted_cell_on_a_gpu_is_that_of_the_host(to_gpu, particles, cutoff, half):
    _, up, down = to_gpu
    rng, cell = np.random.default_rng(5), np.array(TILTED) * 12.4
    positions = (rng.random((particles, 3)) + rng.integers(-1, 2, (particles, 3))) @ cell
    positions[:900] = cell[0] + rng.normal(size=(900, 3)) * 0.1  # in one place, at a corner
    search, pairs = NeighbourList(cutoff, cell, True, half=half), []
    for to, back in ((up, down), (np.asarray, np.asarray)):
        found = search(to(positions))
        assert isinstance(search._plan[1], TiltedPlan)
        assert np.array_equal(np.diff(back(found.offsets)), back(found.counts))
        i, j = back(found.pairs()).astype(np.int64).T
        sums = (back(found.shifts) * np.where(i < j, 1, -1)[:, None]).sum(axis=0)
        i, j = (np.minimum(i, j), np.maximum(i, j)) if half else (i, j)
        pairs.append([np.sort(i * len(positions) + j), sums, np.sort(back(found.distances()))])
        assert int(back(search.count(to(positions))).sum()) == len(found)
    (codes, *sums), (host_codes, *host_sums) = pairs
    assert np.array_equal(codes, host_codes) and all(map(np.allclose, sums, host_sums))
