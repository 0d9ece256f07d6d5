"""Cutting a box into slabs, and moving rows when the cuts move."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.base.errors import UserError
from gpubench.distributed.slabs import cut, is_unbalanced, moves

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=9).map(np.array)
LONG = st.lists(st.integers(0, 10**6), min_size=8, max_size=300).map(np.array)


def largest(counts, bounds):
    return int(np.add.reduceat(counts, bounds[:-1]).max())


def all_cuts(planes, ranks):
    for inner in combinations(range(1, planes), ranks - 1):
        yield np.array([0, *inner, planes])


@given(COUNTS, st.data())
def test_no_cut_has_a_smaller_largest_slab(counts, data):
    ranks = data.draw(st.integers(1, len(counts)))
    bounds = cut(counts, ranks)
    assert bounds[0] == 0 and bounds[-1] == len(counts) and len(bounds) == ranks + 1
    assert (np.diff(bounds) > 0).all()
    best = min(largest(counts, other) for other in all_cuts(len(counts), ranks))
    assert largest(counts, bounds) == best


@given(LONG, st.integers(1, 8))
def test_a_slab_exceeds_an_equal_share_by_less_than_a_plane(counts, ranks):
    bounds = cut(counts, ranks)
    assert (np.diff(bounds) > 0).all()
    assert largest(counts, bounds) <= -(-counts.sum() // ranks) + counts.max()
    assert (cut(counts.copy(), ranks) == bounds).all()


def test_shares_are_equal_where_planes_allow():
    assert cut(np.full(12, 7), 4).tolist() == [0, 3, 6, 9, 12]
    # The first plane sets the limit, which would let the second slab take all the others.
    assert cut(np.array([9, 3, 3, 3]), 3).tolist() == [0, 1, 2, 4]


def test_sums_pass_int32():
    counts = np.full(8, 2**30, np.int32)
    assert cut(counts, 4).tolist() == [0, 2, 4, 6, 8]


def test_an_empty_box_is_cut_too():
    assert (np.diff(cut(np.zeros(5, np.int32), 5)) == 1).all()


def test_too_few_planes_are_refused():
    with pytest.raises(UserError, match=r"^4 ranks need at least 4 planes .* has 3: "):
        cut(np.ones(3), 4)
    with pytest.raises(UserError, match=r"^2 ranks need at least 4 planes .* has 3: "):
        cut(np.ones(3), 2, least=2)


@pytest.mark.parametrize("counts", [[9, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 9], [1, 1, 1, 1, 1, 1]])
def test_slabs_have_the_least_number_of_planes(counts):
    assert cut(np.array(counts), 3, least=2).tolist() == [0, 2, 4, 6]


def test_balance_is_judged_by_what_a_cut_can_reach():
    counts = np.array([10, 10, 10, 10, 100])
    assert not is_unbalanced(counts, np.array([0, 4, 5]), 0.0)  # no cut is better
    counts = np.array([10, 10, 10, 10])
    assert is_unbalanced(counts, np.array([0, 3, 4]), 0.4)
    assert not is_unbalanced(counts, np.array([0, 3, 4]), 0.5)


@given(COUNTS, st.data())
def test_moves_bring_every_row_to_its_new_place(counts, data):
    ranks = data.draw(st.integers(1, len(counts)))
    inner = st.sets(st.integers(1, len(counts) - 1), min_size=ranks - 1, max_size=ranks - 1)
    if ranks == 1:
        inner = st.just(set())
    old, new = (np.array([0, *sorted(data.draw(inner)), len(counts)]) for _ in "on")
    start = np.concatenate([[0], np.cumsum(counts)])
    rows = np.arange(start[-1])
    before = [rows[start[a] : start[b]] for a, b in pairwise(old)]
    want = [rows[start[a] : start[b]] for a, b in pairwise(new)]
    have = [np.full(len(part), -1) for part in want]
    for move in moves(old, new, counts):
        assert move.rows == counts[move.low : move.high].sum() > 0
        target = have[move.receiver][move.to : move.to + move.rows]
        assert (target == -1).all()
        target[:] = before[move.sender][move.first : move.first + move.rows]
    for got, wanted in zip(have, want, strict=True):
        assert (got == wanted).all()
