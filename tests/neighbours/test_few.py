"""Searches of few particles, whose launches are fused on a GPU: here on a CPU, and as launched."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from cuda_bindings import Bindings, Tensor

from gpubench import NeighbourList
from gpubench.algorithms.cell_search import CellSearch
from gpubench.base.errors import UserError
from gpubench.neighbours import plan
from gpubench.primitives import simd_query
from gpubench.primitives.shared_sort import SharedSort

EDGES = (6.0, 5.0, 7.0)
OPEN_Z = (True, True, False)


@pytest.fixture
def fused(monkeypatch):
    """Fuse launches on a CPU too; returns the class that queues them."""
    monkeypatch.setattr(CellSearch, "preferred_form", lambda *_: "reorder")
    monkeypatch.setattr(SharedSort, "pays", lambda *_: True)
    monkeypatch.setattr(SharedSort, "block", 128)  # as wide as a CPU needs
    monkeypatch.setattr(simd_query, "suits", lambda device: False)
    queued = []
    for name in ("sort", "sum"):
        own = getattr(plan.Few, name)
        noting = functools.partialmethod(
            lambda few, own, name, *given: queued.append(name) or own(few, *given), own, name
        )
        monkeypatch.setattr(plan.Few, name, noting)
    return queued


def pairs_within(x, cutoff, periodic):
    way = x[None] - x[:, None]
    way -= np.where(periodic, np.rint(way / EDGES) * EDGES, 0)
    near = (way**2).sum(2) < cutoff**2
    np.fill_diagonal(near, False)
    return near


@pytest.mark.parametrize(
    ("n", "more"),
    [
        (700, {}),
        (700, {"capacity": 20_000}),
        (700, {"order": "cells"}),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in ((700, {"half": True}), (1, {}), (0, {}))
        ),
    ],
)
def test_a_list_is_right_with_positions_of_any_image(fused, n, more):
    rng = np.random.default_rng(n)
    x = rng.random((n, 3)) * EDGES
    away = x + rng.integers(-3, 4, (n, 3)) * np.multiply(EDGES, OPEN_Z)
    search = NeighbourList(1.2, EDGES, OPEN_Z, method="counting-sort", **more)
    found = search(away)
    assert fused == ["sort", "sum"]
    assert np.array_equal(found.offsets, np.cumsum([0, *found.counts]))
    ids = found.ids if "order" in more else np.arange(n)
    near = np.zeros((n, n), bool)
    rows = np.repeat(np.arange(n), found.counts)
    near[ids[rows], ids[found.neighbours[: found.offsets[-1]]]] = True
    assert near.sum() == found.offsets[-1]
    expected = pairs_within(x, 1.2, OPEN_Z)
    assert np.array_equal(near | near.T if "half" in more else near, expected)
    assert "half" not in more or not (near & near.T).any()
    assert np.array_equal(search.count(away), found.counts[np.argsort(ids)])


@pytest.mark.parametrize("capacity", [None, 9000])
def test_what_cannot_be_searched_is_refused_and_the_next_search_is_right(fused, capacity):
    x = (np.random.default_rng(3).random((300, 3)) * EDGES).astype(np.float32)
    search = NeighbourList(1.0, EDGES, OPEN_Z, capacity=capacity, method="counting-sort")
    for value, why in ((np.nan, "is not finite"), (np.inf, "is not finite"), (7.5, "is outside")):
        wrong = x.copy()
        wrong[17, 2] = value
        with pytest.raises(UserError, match=f"position 17 {why}"):
            search(wrong).check()
    found = search(x)
    found.check()
    assert len(found) == pairs_within(x.astype(np.float64), 1.0, OPEN_Z).sum() > 0


def test_the_most_pairs_of_searches_are_noted(fused):
    """With a capacity, the check after several searches has the largest."""
    dense = np.random.default_rng(1).random((200, 3))
    search = NeighbourList(1.2, EDGES, True, capacity=100, method="counting-sort")
    found = search(dense)
    search(dense * 4, out=found)
    with pytest.raises(UserError, match=f"{pairs_within(dense, 1.2, True).sum():,} neighbours"):
        found.check()


@pytest.mark.parametrize("particles", [2000, 9000])
def test_up_to_8192_particles_take_four_launches(monkeypatch, particles):
    bindings = Bindings().install(monkeypatch)
    positions = Tensor(np.random.default_rng(1).random((particles, 3)) * 12)
    search = NeighbourList(1.0, (12.0,) * 3, True, method="counting-sort", capacity=9000)
    search(positions)
    bindings.launched.clear()
    search(positions)
    names = [name for name, *_ in bindings.launched]
    if particles == 2000:
        assert names == ["sort_placed", "count", "sum_rows", "fill"]
    else:
        sort = ["histogram_with_rank", "scan_lookback", "scatter_by_rank"]
        assert names == ["place", *sort, "count", "scan_lookback", "note_pairs", "fill"]
