"""Searches in cells of any shape, with any number of images, against all images in float64."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import needs
import numpy as np
import pytest
from builders.images import images_within
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpubench import NeighbourList
from gpubench.base.errors import UserError
from gpubench.neighbours.cell import step_of
from gpubench.neighbours.images import CellPlan
from gpubench.neighbours.refined import Refined
from gpubench.neighbours.tilted import TiltedPlan
from gpubench.primitives import simd_query

TILTED = np.array([(3.0, 0.0, 0.0), (1.2, 2.8, 0.0), (-0.9, 0.7, 2.5)])
NEIGHBOURS = (0.3, 5.0, 40.0)  # mean number, about


@st.composite
def cases(draw):
    """Draw a cell, which axes repeat, a cutoff, and particles, some of them outside of the cell."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["orthogonal", "tilted", "turned", "much tilted"]))
    plain = np.diag(rng.uniform(1.0, 4.0, 3))
    if kind != "orthogonal":
        plain += np.tril(rng.uniform(-1.0, 1.0, (3, 3)), -1)
    if kind in ("turned", "much tilted"):
        plain = plain @ np.linalg.qr(rng.normal(size=(3, 3)))[0]  # half of them left-handed
    periodic = np.array(draw(st.sampled_from([(1, 1, 1), (1, 1, 0), (0, 1, 0), (1, 0, 1)])), bool)
    whole = np.eye(3, dtype=int)
    if kind == "much tilted":
        for _ in range(4):
            a, b = rng.choice(3, 2, replace=False)
            whole[a] += rng.integers(-5, 6) * whole[b] * (periodic[a] and periodic[b])
    n = draw(st.sampled_from([1, 2, 17, 50]))
    volume = abs(np.linalg.det(plain)) / n
    cutoff = (draw(st.sampled_from(NEIGHBOURS)) * volume * 3 / 4 / np.pi) ** (1 / 3)
    low = rng.choice([0.0, -7.0, 100.0], 3)
    spread = draw(st.sampled_from([1.0, 4.0, 0.01]))
    x = (rng.random((n, 3)) - 0.5) * spread
    x[rng.random(n) < 0.2] = 0.0  # duplicates, on a corner
    x = low + np.where(periodic, x + rng.integers(-2, 3, (n, 3)), x) @ plain
    dtype = draw(st.sampled_from(["float32", "float64"]))
    positions = np.full((n, draw(st.sampled_from([3, 4]))), np.nan, dtype)
    positions[:, :3] = x
    return plain, whole, periodic, cutoff, low, positions, draw(st.booleans())


@st.composite
def long_cells(draw):
    """Draw a tilted cell that holds three cutoffs, and particles around it."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    angles = np.radians(draw(st.tuples(*[st.integers(52, 118)] * 3)))
    x, y, z = np.cos(angles)
    along = (x - y * z) / np.sin(angles[2])
    rest = 1 - y * y - along * along
    cell = np.array([(1, 0, 0), (z, np.sin(angles[2]), 0), (y, along, max(rest, 0.1) ** 0.5)])
    cell = cell * rng.uniform(5, 9, (3, 1)) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    n, low = draw(st.sampled_from([1, 40, 300])), rng.choice([0.0, -7.0, 100.0], 3)
    positions = low + (rng.random((n, 3)) + rng.integers(-2, 3, (n, 3))) @ cell
    crowded = rng.random(n) < draw(st.sampled_from([0.0, 0.5]))  # around a corner
    positions[crowded] = low + rng.normal(size=(crowded.sum(), 3)) * 0.3
    cutoff = draw(st.sampled_from([0.4, 1.0, 1.3]))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    whole, repeats, half = np.eye(3, dtype=int), np.ones(3, bool), draw(st.booleans())
    return cell, whole, repeats, cutoff, low, positions.astype(dtype), half


def listed(found):
    """Return the pairs and shifts of a list as tuples."""
    return [*map(tuple, np.column_stack((found.pairs(), found.shifts)).tolist())]


def one_way(pair):
    """Return one of (i, j, S) and (j, i, -S), the same for both."""
    i, j, *shift = pair
    return max((i, j, *shift), (j, i, *(-s for s in shift)))


def expected(case, difference):
    """Return the pairs of the oracle whose distance is below the cutoff plus a difference."""
    plain, whole, periodic, cutoff, _, positions, half = case
    rows = images_within(positions, plain, periodic, cutoff + difference)[:, :5].astype(int)
    rows[:, 2:] = rows[:, 2:] @ np.rint(np.linalg.inv(whole)).astype(int)
    return {one_way(pair) if half else pair for pair in map(tuple, rows.tolist())}


def check_case(case):
    plain, whole, periodic, cutoff, low, positions, half = case
    cell = whole @ plain
    # Vectors of open axes are ignored, unless the box is orthogonal.
    is_bounded = not np.count_nonzero(plain - np.diag(np.diagonal(plain)))
    given_cell = np.where(periodic[:, None], cell, 0.0) if is_bounded else cell
    search = NeighbourList(cutoff, given_cell, periodic, low=low, half=half)
    found = search(positions)
    pairs, bound = listed(found), search.bound()
    if half:
        pairs = [one_way(pair) for pair in pairs]
    assert len(set(pairs)) == len(pairs)
    assert expected(case, -bound) <= set(pairs) <= expected(case, bound)
    if not half:  # both rows of a pair agree
        assert {(j, i, -x, -y, -z) for i, j, x, y, z in pairs} == set(pairs)
    assert np.array_equal(search.count(positions), found.counts)
    assert found.shifts.dtype == np.int32 and (np.diff(found.offsets) == found.counts).all()
    i, j = found.pairs().T
    x = positions[:, :3].astype(np.float64)
    way = x[j] - x[i] + found.shifts @ np.where(periodic[:, None], cell, 0.0)
    vectors, distances = found.vectors(), found.distances()
    assert vectors.dtype == distances.dtype == positions.dtype
    rounding = 1e-13 * (np.abs(x).max() + np.abs(cell).max() * (1 + np.abs(whole).max()))
    assert np.allclose(vectors, way, rtol=1e-6, atol=rounding)
    assert np.allclose(distances, np.linalg.norm(way, axis=1), rtol=1e-6, atol=rounding)


@settings(max_examples=25)
@given(cases())
def test_every_image_is_found(case):
    check_case(case)


@pytest.mark.long
@pytest.mark.thorough
@settings(max_examples=2000)
@given(cases() | long_cells())
def test_every_image_is_found_of_many(case):
    check_case(case)


def check_libraries(case):
    """But for what is at the cutoff, pairs and shifts are theirs; the oracle is not asked."""
    plain, whole, periodic, cutoff, low, positions, _ = case
    cell, x = whole @ plain, positions[:, :3].astype(np.float64)
    search = NeighbourList(cutoff, np.where(periodic[:, None], cell, 0.0), periodic, low=low)
    ours = set(listed(search(x)))
    # Of the same lattice, since ASE takes minutes and gigabytes for cells that are tilted much.
    back = np.rint(np.linalg.inv(whole)).astype(int)
    for i, j, shifts in others(x, plain, periodic, cutoff):
        theirs = set(map(tuple, np.column_stack((i, j, shifts @ back)).tolist()))
        for a, b, *shift in ours ^ theirs:
            distance = np.linalg.norm(x[b] - x[a] + np.array(shift) @ cell)
            assert abs(distance - cutoff) < search.bound()


@pytest.mark.long
@settings(max_examples=150)
@given(cases())
def test_agrees_with_ase_matscipy_and_vesin(case):
    check_libraries(case)


@pytest.mark.long
@pytest.mark.thorough
@settings(max_examples=2000)
@given(cases())
def test_agrees_with_libraries_on_many(case):
    check_libraries(case)


def others(x, cell, periodic, cutoff):
    """Yield i, j and S of the libraries; only ASE is asked about open axes."""
    asked = library("ASE", "ase.neighborlist").primitive_neighbor_list
    yield asked("ijS", periodic, cell, x, cutoff)
    if periodic.all():
        asked = library("matscipy", "matscipy.neighbours").neighbour_list
        yield asked("ijS", positions=x, cell=cell, pbc=periodic, cutoff=cutoff)
        asked = library("vesin", "vesin").NeighborList(cutoff=cutoff, full_list=True)
        yield asked.compute(points=x, box=cell, periodic=True, quantities="ijS")


def library(name, module):
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        needs.skip_without(name)
    return importlib.import_module(module)


def test_both_rows_of_a_pair_agree_at_the_cutoff():
    """Where the cutoff is the distance of a pair, so that rounding decides about it."""
    x = np.random.default_rng(3).random((20, 3)) @ TILTED
    rows = images_within(x, TILTED, (1, 1, 1), 2.0)
    across = rows[rows[:, 2:5].any(axis=1)]
    for cutoff in across[:: len(across) // 60, 5]:
        pairs = listed(NeighbourList(cutoff, TILTED, True)(x))
        assert {(j, i, -a, -b, -c) for i, j, a, b, c in pairs} == set(pairs)


class TestSlabs:
    """Axes without bounds."""

    @pytest.mark.parametrize("box", [(5, 6, 0), [(5, 0, 0), (1, 6, 0), (0, 0, 0)]])
    @pytest.mark.parametrize("repeats", [True, (True, True, False)])
    def test_an_axis_of_length_0_is_open_and_has_no_bounds(self, box, repeats):
        x = np.random.default_rng(2).random((300, 3)) * (5, 6, 9) - (0, 0, 400)
        search = NeighbourList(1.3, box, repeats)
        vectors = np.diag(box) if np.ndim(box) == 1 else np.array(box)
        for up in (0.0, 1.0, 3000.0):  # each is measured anew
            moved = x + np.array((0, 0, up))
            rows, found = images_within(moved, vectors, (1, 1, 0), 1.3), search(moved)
            assert set(listed(found)) == {*map(tuple, rows[:, :5].astype(int).tolist())}
        assert not found.shifts[:, 2].any()

    def test_two_dimensions(self):
        x = np.random.default_rng(2).random((200, 3)) * (4, 3, 0)
        found = NeighbourList(2.0, (4, 3, 0), True)(x)
        rows = images_within(x, np.diag((4, 3, 1)), (1, 1, 0), 2.0)
        assert set(listed(found)) == {*map(tuple, rows[:, :5].astype(int).tolist())}

    @pytest.mark.parametrize("cutoff", [1.0, 2.0])  # three times in the edge that repeats, or not
    def test_an_edge_of_an_orthogonal_box_bounds_an_open_axis(self, cutoff):
        search = NeighbourList(cutoff, (4, 3, 5), (False, True, False))
        search(np.array([(0.0, -9.0, 0.0), (4.0, 20.0, 5.0)]))
        for far in ((4.1, 0.0, 0.0), (0.0, 0.0, -0.1)):
            with pytest.raises(UserError, match="position 1 is outside the box"):
                search(np.array([(0.0, 0.0, 0.0), far]))

    @pytest.mark.parametrize("box", [(0, 0, 0), np.zeros((3, 3))])
    def test_a_box_of_zeros_is_open_space(self, box):
        x = np.random.default_rng(2).random((50, 3))
        assert len(NeighbourList(0.5, box, True)(x)) == len(NeighbourList(0.5)(x))


def test_an_orthogonal_box_has_shifts():
    x = np.random.default_rng(2).random((300, 3)) * (15, 4, 18) - 7
    for order in ("input", "cells"):
        found = NeighbourList(1.0, (5, 4, 6), (True, False, True), low=(0, -7, 0), order=order)(x)
        ids = np.arange(300) if order == "input" else found.ids
        i, j = ids[found.pairs()].T
        assert np.allclose(x[j] - x[i] + found.shifts @ np.diag((5, 4, 6)), found.vectors())
        assert found.shifts.any() and not found.shifts[:, 1].any()


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_what_was_found_is_copied(way):
    x = np.random.default_rng(2).random((40, 3)) @ TILTED
    search = NeighbourList(2.0, TILTED, True)
    found, again = search(x), way(way(search)(x))
    for of in ("pairs", "vectors", "distances"):
        assert np.array_equal(getattr(found, of)(), getattr(again, of)())
    assert np.array_equal(found.shifts, again.shifts) and len(found) == len(again.check())


def test_an_answer_outlives_later_searches():
    x = np.random.default_rng(2).random((2, 40, 3)) @ TILTED
    search = NeighbourList(2.0, TILTED, True)
    found = search(x[0])
    before = [np.copy(each) for each in (found.pairs(), found.shifts, found.vectors())]
    search(x[1] * 0.5)
    after = found.pairs(), found.shifts, found.vectors()
    assert all(map(np.array_equal, before, after))


def test_an_update_keeps_the_list_until_a_particle_has_moved_or_was_wrapped():
    x = np.random.default_rng(2).random((40, 3)) @ TILTED
    search = NeighbourList(1.5, TILTED, True, skin=0.3)
    for step, searches in ((0.0, 1), (0.1, 1), (0.2, 2), (TILTED[1], 3)):
        x[7] += step if np.ndim(step) else (step, 0, 0)
        found = search.update(x)
        near = images_within(x, TILTED, (1, 1, 1), 1.5)
        assert search.searches == searches
        assert np.allclose(np.sort(near[:, 5]), np.sort(found.distances()[found.distances() < 1.5]))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("box", [TILTED * 0.8, (2, 2, 0)])
def test_few_particles(n, box):
    search = NeighbourList(2.5, box, True)
    found = search(np.full((n, 3), 0.5))
    assert len(found) == sum(search.count(np.full((n, 3), 0.5)))
    assert (len(found) > 0) == (n > 0) and found.shifts.shape == (len(found), 3)


def test_room_follows_the_images():
    """Particles gather where they have many images, where they have none, and in one place."""
    search, rng = NeighbourList(0.5, (4, 1.4, 4), True), np.random.default_rng(2)
    for low, high in ((0, 4), (0, 0.1), (2, 2.1), (0, 0), (1.9, 2)):
        x = rng.uniform(low, high, (400, 3)) * (1, 0.35, 1)
        near = images_within(x, np.diag((4, 1.4, 4)), (1, 1, 1), 0.5)
        assert len(search(x)) == len(near)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("repeats", [True, (True, True, False)])
def test_positions_that_are_not_finite(bad, repeats):
    x = np.random.default_rng(2).random((20, 3))
    x[11, 0] = bad
    search = NeighbourList(1.0, TILTED, repeats)
    with pytest.raises(UserError, match=r"position 11 is not finite|a position is not finite"):
        search(x)
    repeats = np.broadcast_to(repeats, 3)
    assert len(search(x[:5])) == len(images_within(x[:5], TILTED, repeats, 1.0))


@pytest.mark.parametrize(
    ("box", "more", "message"),
    [
        (np.where(np.eye(3), np.nan, 0), {}, "box takes finite vectors"),
        (np.full((3, 3), np.inf), {}, "box takes finite vectors"),
        (np.ones((3, 3)), {}, r"\(determinant 0\): open an axis"),
        ([(1, 2, 3), (2, 4, 6.0), (0, 0, 1)], {"periodic": (True, True, False)}, "determinant 0"),
        ([(1, 0, 0), (1e9, 1, 0), (0, 0, 1)], {}, "tilted by over 1,048,576 times"),
        (TILTED * 1e200, {}, "too long or too short: take another unit"),
        (TILTED, {"cutoff": 1e7}, "at most 2,147,483,647 can be searched: take a shorter"),
        ((1e-5, 0, 0), {"cutoff": 1e3}, "times an edge of the reduced cell"),
        (TILTED, {"capacity": 99}, "capacity is not for a cell that is tilted, or shorter"),
        ((3, 3, 2.9), {"capacity": 99}, "capacity is not for a cell that is tilted, or shorter"),
        (TILTED, {"order": "cells"}, "order='cells' is not for a cell that is tilted"),
        ((5, 5, 0), {"capacity": 9}, "a search with a capacity does not wait to find the box"),
        (TILTED, {"method": "magic"}, "method takes auto"),
        (TILTED[:2], {}, "box takes three positive finite edges"),
        ((5, -5, 5), {}, "box takes three positive finite edges"),
        (np.eye(3) * (1, 1, 1e-30), {}, "lie in a plane|does not hold"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(box, more, message):
    with pytest.raises(UserError, match=message) as raised:
        NeighbourList(**{"cutoff": 1.0, "periodic": True} | more, box=box)(np.zeros((10, 3)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("long", [2.0**8, 2.0**20])
@pytest.mark.parametrize(("high", "by"), [(2.5, CellPlan), (3.6, TiltedPlan | Refined)])
def test_pairs_in_a_cell_of_many_cutoffs_are_exact(dtype, half, long, high, by):
    """Of particles that are about 1 apart, which single precision cannot tell from 1."""
    rng, cell = (
        np.random.default_rng(4),
        np.array([(long, 0, 0), (long / 9, 3.2, 0), (1, 0.7, high)]),
    )
    x, way = rng.random((150, 3)) @ cell, rng.normal(size=(150, 3))
    way *= (1 + 3e-5 * rng.normal(size=(150, 1))) / np.linalg.norm(way, axis=1)[:, None]
    x = np.concatenate((x, x + way)).astype(dtype)
    search = NeighbourList(1.0, cell, True, half=half)
    pairs = listed(found := search(x))
    assert search.bound() == 1e-5 and search.count(x).sum() == len(found)
    assert isinstance(search._plan[1], by)
    must, may = (
        {*map(tuple, images_within(x, cell, (1, 1, 1), 1 + part)[:, :5].astype(int).tolist())}
        for part in (-1e-5, 1e-5)
    )
    if half:
        must, may, pairs = ({*map(one_way, each)} for each in (must, may, pairs))
    assert must <= {*pairs} <= may and len({*pairs}) == len(found)


def test_shifts_of_far_particles_are_exact():
    far = 2**30 - 2
    x = np.array([(0.25, 0.5, 0.5), (4.0 * far + 0.5, 0.5, 0.5), (4.0 * -far + 0.5, 0.5, 0.5)])
    found = NeighbourList(1.0, (4, 4, 4), True)(x)
    shift = dict(zip(map(tuple, found.pairs().tolist()), found.shifts[:, 0].tolist(), strict=True))
    assert shift[0, 1] == -far and shift[1, 2] == 2 * far and shift[2, 1] == -2 * far
    with pytest.raises(UserError, match="over 2\\^29 edges"):  # the limit with images
        NeighbourList(2.0, (4, 4, 4), True)(x)


@pytest.mark.parametrize("seed", [1, 4, 5])
@pytest.mark.parametrize("below", [0.0, 0.25])
def test_a_kept_box_holds_a_particle_at_its_top(seed: int, below: float) -> None:
    """The measured edge of an open axis is no whole number of coordinate steps."""
    positions = np.random.default_rng(seed).random((200, 3)) * (3, 3, 7.3)
    search = NeighbourList(1.2, [(3, 0, 0), (1.2, 2.8, 0), (0, 0, 0)], True)
    search(positions)
    assert search._plan is not None
    box = search._plan[1].box
    positions[5, 2] = box.low[2] + box.size[2] - below * step_of(box)
    assert search(positions).counts.shape == (200,)


def test_an_edge_of_three_cutoffs_but_for_rounding_is_searched() -> None:
    """The two that ask whether a box holds three cutoffs round alike."""
    edges = (4.332759461510284,) * 3
    positions = np.random.default_rng(0).random((50, 3)) * edges
    assert len(NeighbourList(1.4442534981735462, edges, True)(positions)) > 0


@pytest.mark.parametrize(
    ("box", "periodic"),
    [((4, 3, 5), (False, True, False)), ([(5, 0, 0), (1, 5, 0), (0, 0, 0)], True)],
)
def test_a_capacity_is_refused_for_the_cell_itself(box: Any, periodic: Any) -> None:
    with pytest.raises(UserError, match="capacity is not for a cell that is tilted, or shorter"):
        NeighbourList(2.0, box, periodic, capacity=9)


@pytest.mark.parametrize("half", [False, True])
def test_images_get_room_as_particles_move_to_a_corner_and_back(half):
    """Around a corner each has seven images within the cutoff, and in the middle none."""
    cell = np.tril(np.full((3, 3), 0.6)) + np.eye(3) * 2.3
    x = np.random.default_rng(0).random((300, 3)) * 0.9 - 0.45
    search = NeighbourList(1.0, cell, True, half=half)
    found = [search(x + move @ cell) for move in ((0, 0, 0), (0.5,) * 3) * 2]
    counts = [search.count(x + move @ cell) for move in ((0, 0, 0), (0.5,) * 3)]
    pairs = [{*map(frozenset, each.pairs().tolist())} for each in found]
    assert len(pairs[0]) == len(found[1]) // (2 - half) > 9000 and pairs == [pairs[0]] * 4
    assert counts[0].sum() == counts[1].sum() == len(found[0])


@pytest.fixture(params=["CPU", "GPU"])
def kernels_for(request, monkeypatch):
    """Run the kernels of CPUs, or those of GPUs on a CPU."""
    if request.param == "GPU":
        monkeypatch.setattr(simd_query, "suits", lambda device: False)


LONG = TILTED * 2.5


@pytest.mark.usefixtures("kernels_for")
class TestCellsThatHoldTheCutoff:
    """They are searched without images."""

    @pytest.mark.long
    @settings(
        max_examples=40,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )  # fmt: skip
    @given(long_cells())
    def test_every_pair_is_found(self, case):
        check_case(case)

    def test_many_in_one_place_and_its_images(self):
        """More than the words of a row, and the extra ones, mark on a GPU."""
        x = np.full((800, 3), 0.1) + np.arange(2).repeat(400)[:, None] * (LONG[1] - 0.3)
        found = (search := NeighbourList(1.0, LONG, True))(x)
        assert isinstance(search._plan[1], TiltedPlan)
        assert set(found.counts) == {799} and found.distances().max() < 0.6
        rows = found.neighbours.reshape(800, 799)
        assert all(len(set(row)) == 799 and i not in row for i, row in enumerate(rows.tolist()))

    def test_rows_are_sorted_and_kept(self):
        x = np.random.default_rng(2).random((300, 3)) @ LONG
        found = NeighbourList(1.5, LONG, True, sort=True)(x)
        assert listed(found) == sorted(listed(found))
        search = NeighbourList(1.5, LONG, True, skin=0.3)
        for step, searches in ((0.0, 1), (0.05, 1), (0.2, 2), (LONG[1], 3)):
            x[7] += step if np.ndim(step) else (step, 0, 0)
            found = search.update(x)
            near = images_within(x, LONG, (1, 1, 1), 1.5)
            inside = found.distances() < 1.5
            assert search.searches == searches
            assert np.allclose(np.sort(near[:, 5]), np.sort(found.distances()[inside]))


def test_methods_that_do_not_sort_search_a_tilted_cell_with_images():
    x = np.random.default_rng(2).random((300, 3)) @ LONG
    search = NeighbourList(1.5, LONG, True, method="atomic-list")
    assert {*listed(search(x))} == {*listed(NeighbourList(1.5, LONG, True)(x))}
    assert isinstance(search._plan[1], CellPlan)
