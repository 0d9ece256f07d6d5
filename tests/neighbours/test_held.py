"""What users hold: it says so where it cannot be changed, and can be copied and sent elsewhere."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import numpy as np
import pytest

from gpubench import NeighbourList
from gpubench.base.errors import UserError

EDGES = (5.0, 4.0, 7.0)
POSITIONS = np.random.default_rng(0).random((200, 3)) * EDGES
COPIES = [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]


@pytest.mark.parametrize("name", ["cutoff", "skin", "reach", "box", "capacity", "other"])
def test_nothing_of_a_list_looks_as_if_it_could_be_set(name):
    search = NeighbourList(1.0, EDGES, True)
    before = len(search(POSITIONS))
    with pytest.raises(UserError, match=f"{name} of a NeighbourList cannot be set: make another"):
        setattr(search, name, 0.5)
    with pytest.raises(UserError, match=f"{name} of a NeighbourList cannot be deleted: make"):
        delattr(search, name)
    assert (search.cutoff, len(search(POSITIONS))) == (1.0, before)


@pytest.mark.parametrize("name", ["counts", "neighbours", "positions", "rows", "other"])
def test_nothing_of_what_was_found_does(name):
    found = NeighbourList(1.0, EDGES)(POSITIONS)
    with pytest.raises(UserError, match=f"{name} of a Found cannot be set"):
        setattr(found, name, POSITIONS)
    with pytest.raises(UserError, match=f"{name} of a Found cannot be deleted"):
        delattr(found, name)


def test_no_attribute_leads_to_something_that_can_be_set():
    plain = (str, int, float, np.ndarray, type(None))
    search = NeighbourList(1.0, EDGES)
    for held in (search, search(POSITIONS)):
        for name in dir(held):
            value = getattr(held, name)
            assert name.startswith("_") or callable(value) or isinstance(value, plain), name


@pytest.mark.parametrize("copied", COPIES)
def test_a_list_is_copied_after_a_search(copied):
    search = NeighbourList(1.0, EDGES, True, skin=0.3, half=True)
    expected = search.update(POSITIONS).counts
    other = copied(search)
    assert np.array_equal(other.update(POSITIONS).counts, expected)
    assert (other.cutoff, other.skin, other.chosen) == (1.0, 0.3, search.chosen)
    assert (other.searches, search.searches) == (2, 1)


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("more", [{}, {"order": "cells"}, {"capacity": 9000}])
def test_what_was_found_is_copied(copied, more):
    found = NeighbourList(1.0, EDGES, True, **more)(POSITIONS)
    other = copied(copied(found))
    for name in ("counts", "offsets", "neighbours", "ids"):
        assert np.array_equal(getattr(other, name), getattr(found, name))
    for name in ("pairs", "vectors", "distances"):
        assert np.array_equal(getattr(other, name)(), getattr(found, name)())
    assert len(other.check()) == len(found)


def test_what_went_wrong_is_not_lost_in_a_copy():
    found = NeighbourList(1.0, EDGES, capacity=3)(POSITIONS)
    with pytest.raises(UserError, match="found no room in a capacity of 3"):
        copy.deepcopy(found)


def test_another_process_takes_a_list_that_has_searched():
    search = NeighbourList(1.0, EDGES, True)
    found = search(POSITIONS)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        counts = pool.apply(search.count, (POSITIONS,))
        distances = pool.apply(found.distances)
    assert np.array_equal(counts, found.counts)
    assert np.array_equal(distances, found.distances())
