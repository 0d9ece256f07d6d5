"""A box that changes from call to call, and lists that are kept while it does."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from builders.images import images_within
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import NeighbourList
from gpubench.base.errors import UserError

EDGES = np.array((5.0, 4.0, 7.0))
TILTED = np.array([(5.0, 0.0, 0.0), (1.2, 4.8, 0.0), (-0.9, 0.7, 5.5)])
SHORT = TILTED / 2  # than the cutoff, with images of the particles themselves


def listed(found):
    return {*map(tuple, np.column_stack((found.pairs(), found.shifts)).tolist())}


def near(x, cell, periodic, cutoff):
    return {*map(tuple, images_within(x, cell, periodic, cutoff)[:, :5].astype(int).tolist())}


@pytest.mark.parametrize("cell", [np.diag(EDGES), TILTED])
def test_a_call_has_a_box_of_its_own(cell):
    x = np.random.default_rng(1).random((100, 3)) @ cell
    search = NeighbourList(1.0, cell, True, low=(0.5, 0, 0))
    for scale in (1.0, 1.1, 1.0):
        own = NeighbourList(1.0, cell * scale, True, low=(0.5, 0, 0))
        found = search(x * scale, box=cell * scale)
        assert listed(found) == listed(own(x * scale))
        assert np.array_equal(found.vectors(), own(x * scale).vectors())
        assert np.array_equal(search.count(x * scale, box=cell * scale), found.counts)
        assert search.bound() == own.bound()
    plain = NeighbourList(1.0, cell, True, low=(0.5, 0, 0))
    assert listed(search(x)) == listed(plain(x)) and search.searches == 7


@pytest.mark.parametrize("cell", [EDGES, np.diag(EDGES), TILTED])
def test_a_cell_is_another_name_of_the_box(cell):
    x = np.random.default_rng(1).random((100, 3)) * EDGES
    plain, other = NeighbourList(1.0, cell, True), NeighbourList(1.0, cell=cell, periodic=True)
    assert listed(other(x)) == listed(plain(x)) and plain(x).shifts.any()
    wider = listed(plain(x, box=1.1 * cell))
    assert listed(plain(x, cell=1.1 * cell)) == wider != listed(plain(x))
    assert np.array_equal(plain.count(x, cell=1.1 * cell), plain.count(x, box=1.1 * cell))
    assert (plain.count(x, cell=1.1 * cell) != plain.count(x)).any()
    own = {"cell": 1.1 * cell, "radii": np.full(100, 0.4)}  # which are counted by a list
    assert np.array_equal(plain.count(x, **own), plain(x, **own).counts)
    assert (plain.count(x, **own) != plain.count(x, radii=own["radii"])).any()


def test_a_list_is_kept_while_the_cell_of_each_call_changes():
    s = np.random.default_rng(2).random((50, 3))
    search = NeighbourList(1.0, cell=TILTED, periodic=True, skin=0.2)
    for scale, searches in ((1.0, 1), (0.98, 1), (1.02, 1), (0.8, 2)):
        cell = TILTED * scale
        found = search.update(s @ cell, cell=cell)
        i, j = found.pairs().T
        assert np.allclose(found.vectors(), (s[j] - s[i] + found.shifts) @ cell)
        assert near(s @ cell, cell, (1, 1, 1), 1.0) <= listed(found)
        assert search.searches == searches


def test_both_names_of_a_box_are_refused():
    x, both = np.zeros((5, 3)), {"cell": EDGES, "box": EDGES}
    search, is_open = NeighbourList(1.0, EDGES, True, skin=0.1), NeighbourList(1.0)
    for ask in (search, search.count, search.update, partial(search, batch=(0, 5))):
        with pytest.raises(UserError, match=r"^give cell or box, not both$"):
            ask(x, **both)
    for ask in (partial(NeighbourList, 1.0), is_open.bound):
        with pytest.raises(UserError, match=r"^give cell or box, not both$"):
            ask(**both)
    assert is_open.bound(cell=EDGES) == is_open.bound(EDGES)


def test_a_box_in_place_of_open_space():
    x = np.random.default_rng(1).random((100, 3)) * EDGES
    search = NeighbourList(1.0)
    assert listed(search(x, box=EDGES)) == listed(NeighbourList(1.0, EDGES)(x)) == listed(search(x))


def test_measured_axes_are_those_of_the_box_of_the_call():
    """A slab, another, the whole, one with images, and again."""
    x = np.random.default_rng(1).random((100, 3)) * EDGES
    search = NeighbourList(1.0, EDGES * (1, 1, 0), True)
    for factor in 2 * [(1, 1, 0), (1.2, 1, 0), (1, 1, 1), (0.5, 1, 0), (0, 0, 0)]:
        edges = EDGES * factor
        found = search(x, box=np.diag(edges))
        assert listed(found) == near(x, np.diag(edges), edges > 0, 1.0)


def changed(cell, rng, size):
    return cell @ (np.eye(3) + rng.uniform(-size, size, (3, 3)))


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["orthogonal", "slab", "tilted", "short", "open tilted"]),
    st.sampled_from([0.002, 0.02, 0.08]),
)
def test_a_kept_list_has_every_pair_of_a_changed_box(seed, kind, size):
    """Particles move with the box, and by themselves; the oracle knows neither."""
    rng = np.random.default_rng(seed)
    cell = {"tilted": TILTED, "open tilted": TILTED, "short": SHORT}.get(kind, np.diag(EDGES))
    periodic = np.array({"slab": (1, 1, 0), "open tilted": (1, 0, 1)}.get(kind, (1, 1, 1)), bool)
    given_cell = np.where(periodic[:, None], cell, 0.0)
    low = np.array((0.3, -2.0, 1.0))
    search = NeighbourList(1.0, given_cell, periodic, low=low, skin=0.2)
    s = rng.uniform(-0.2, 1.2, (60, 3)) * np.where(periodic, 1.0, 0.8)
    for step in range(6):
        if step:
            new = changed(cell, rng, size)
            cell = np.diag(np.diagonal(new)) if kind in ("orthogonal", "slab") else new
            s = s + rng.uniform(-1, 1, s.shape) * 0.1 * size
        x, box = low + s @ cell, np.where(periodic[:, None], cell, 0.0)
        found = search.update(x, box=box)
        i, j = found.pairs().T
        way = x[j] - x[i] + found.shifts @ box
        assert np.allclose(found.vectors(), way, atol=1e-10)
        assert np.allclose(found.distances(), np.linalg.norm(way, axis=1), atol=1e-10)
        assert near(x, cell, periodic, 1.0) <= listed(found)
    assert search.searches <= 6


@pytest.mark.parametrize("cell", [np.diag(EDGES) * 2, TILTED, SHORT])
def test_a_list_outlives_a_small_change_and_no_large_one(cell):
    s = np.random.default_rng(2).random((50, 3))
    search = NeighbourList(1.0, cell, True, skin=0.2)
    searches = []
    # By a tenth of the skin, to the end of it (1.2 / 1.2), beyond, and back within.
    for scale in (1.0, 0.98, 1.02, 0.84, 0.83, 0.9):
        found = search.update(s @ cell * scale, box=cell * scale)
        searches.append(search.searches)
        assert near(s @ cell * scale, cell * scale, (1, 1, 1), 1.0) <= listed(found)
    assert searches == [1, 1, 1, 1, 2, 2]


def test_the_particles_of_a_box_that_shrinks_alone_have_moved():
    s = np.random.default_rng(2).random((50, 3))
    search = NeighbourList(1.0, TILTED, True, skin=0.2)
    search.update(s @ TILTED)
    assert len(search.update(s @ TILTED, box=TILTED * 0.98)) and search.searches == 2


def test_vectors_of_a_kept_list_are_of_its_box_and_outlive_the_next():
    s = np.random.default_rng(2).random((50, 3))
    search = NeighbourList(1.0, TILTED, True, skin=0.2)
    first = search.update(s @ TILTED)
    second = search.update(s @ (TILTED * 1.01), box=TILTED * 1.01)
    expected = first.vectors() * 1.01
    search.update(s @ (TILTED * 0.99), box=TILTED * 0.99)
    assert np.allclose(second.vectors(), expected) and search.searches == 1
    assert np.allclose(first.vectors() * 1.01, expected)


def test_wrapped_particles_of_a_changed_box_do_not_count_as_moved():
    s = np.random.default_rng(2).random((50, 3))
    search = NeighbourList(1.0, EDGES, True, skin=0.2)
    search.update(s * EDGES)
    search.update((s - 3) * EDGES * 1.01, box=EDGES * 1.01)
    assert search.searches == 1


def test_more_periodic_axes_are_another_search():
    x = np.random.default_rng(2).random((50, 3)) * EDGES
    search = NeighbourList(1.0, EDGES * (1, 1, 0), True, skin=0.2)
    search.update(x)
    found = search.update(x, box=EDGES)
    assert search.searches == 2 and near(x, np.diag(EDGES), (1, 1, 1), 1.0) <= listed(found)


@pytest.mark.parametrize(
    ("more", "box", "message"),
    [
        ({}, (1, 2), "box takes three positive finite edges"),
        ({}, np.full((3, 3), np.nan), "box takes finite vectors"),
        ({}, np.ones((3, 3)), "determinant 0"),
        ({"capacity": 99}, TILTED, "capacity is not for a cell that is tilted"),
        ({"order": "cells"}, TILTED, "order='cells' is not for a cell that is tilted"),
        ({"capacity": 99}, (5, 5, 0), "a search with a capacity does not wait to find the box"),
    ],
)
def test_boxes_that_make_no_sense_are_refused_in_one_line(more, box, message):
    search, x = NeighbourList(1.0, EDGES, True, skin=0.1, **more), np.zeros((5, 3))
    for ask in (search, search.count, search.update):
        with pytest.raises(UserError, match=message) as raised:
            ask(x, box=box)
        assert "\n" not in str(raised.value)
    search(x)


def test_rounding_of_a_large_box_is_warned_of():
    search = NeighbourList(0.1, EDGES, True, capacity=99)
    with pytest.warns(UserWarning, match="pairs may be lost"):
        search(np.zeros((5, 3)), box=EDGES * 1e4)
