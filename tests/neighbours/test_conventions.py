"""Forms of a list that other packages have: a matrix, sorted rows."""

from __future__ import annotations

import numpy as np
import pytest
from builders.images import images_within
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import NeighbourList
from gpubench.base.errors import UserError

EDGES = (5.0, 4.0, 7.0)
TILTED = np.array([(3.0, 0.0, 0.0), (1.2, 2.8, 0.0), (-0.9, 0.7, 2.5)])


def drawn(n, seed=0, edges=EDGES):
    return np.random.default_rng(seed).random((n, 3)) * edges


class TestMatrix:
    @pytest.mark.parametrize("more", [{}, {"half": True}, {"order": "cells"}, {"capacity": 9000}])
    def test_rows_are_those_of_the_list(self, more):
        found = NeighbourList(1.0, EDGES, True, **more)(drawn(300))
        longest = int(found.counts.max())
        for width, fill in ((None, -1), (longest, 300), (longest + 5, -7)):
            matrix, counts = found.matrix(width, fill=fill)
            assert matrix.dtype == np.int32 and np.array_equal(counts, found.counts)
            assert matrix.shape == (300, width or longest)
            is_neighbour = np.arange(matrix.shape[1]) < counts[:, None]
            assert np.array_equal(matrix[is_neighbour], found.neighbours[: found.offsets[-1]])
            assert (matrix[~is_neighbour] == fill).all()

    def test_of_images(self):
        found = NeighbourList(3.0, TILTED, True)(drawn(20))
        matrix, counts = found.matrix()
        assert np.array_equal(matrix[np.arange(counts.max()) < counts[:, None]], found.neighbours)

    @pytest.mark.parametrize("n", [0, 1])
    def test_of_few_particles(self, n):
        found = NeighbourList(1.0, EDGES)(drawn(n))
        assert found.matrix()[0].shape == (n, 0)
        assert found.matrix(2)[0].tolist() == [[-1, -1]] * n

    def test_what_makes_no_sense_is_refused_in_one_line(self):
        found = NeighbourList(1.0, EDGES, True)(drawn(300))
        most = int(found.counts.max())
        message = f"a row has {most} neighbours: matrix needs width={most}$"
        with pytest.raises(UserError, match=message):
            found.matrix(most - 1)
        for wrong in (-1, 2.5, "9", True, 2**31):
            with pytest.raises(UserError, match=r"width takes a whole number from 0 to 2147483647"):
                found.matrix(wrong)
        with pytest.raises(UserError, match="fill takes a whole number from -2147483648 to"):
            found.matrix(fill=2**31)
        short = NeighbourList(1.0, EDGES, True, capacity=len(found) - 1)(drawn(300))
        with pytest.raises(UserError, match=f"{len(found):,} neighbours found no room in a capa"):
            short.matrix()


def listed(found):
    return [*map(tuple, np.column_stack((found.pairs(), found.shifts)).tolist())]


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.9, 1.0, 1.2, 3.0]))
def test_sorted_rows_ascend_by_neighbour_then_shift(seed, cutoff):
    """In boxes and cells, with one and with hundreds of images."""
    rng = np.random.default_rng(seed)
    cell, n = (np.diag(EDGES), 150) if cutoff == 1.0 else (TILTED, 12)
    x = rng.uniform(-1, 2, (n, 3)) @ cell
    search = NeighbourList(cutoff, cell, True, sort=True)
    pairs = listed(search(x))
    assert pairs == sorted(listed(NeighbourList(cutoff, cell, True)(x)))
    bound = search.bound()
    near = [images_within(x, cell, (1, 1, 1), cutoff + d)[:, :5] for d in (-bound, bound)]
    must, may = ({*map(tuple, each.astype(int).tolist())} for each in near)
    assert must <= {*pairs} <= may
    assert np.array_equal(search.count(x), search(x).counts)


def test_long_rows_are_sorted():
    found = NeighbourList(1.5, EDGES, method="counting-sort", sort=True)(np.full((999, 3), 0.5))
    expected = np.arange(998) + (np.arange(998) >= np.arange(999)[:, None])
    assert np.array_equal(found.matrix()[0], expected)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"half": True}, "sort is not for half=True"),
        ({"order": "cells"}, "sort is not for order='cells'"),
        ({"capacity": 9}, "sort is not for a capacity"),
        ({"sort": 1}, "sort takes True or False, not 1"),
    ],
)
def test_sort_is_refused_where_rows_differ(more, message):
    with pytest.raises(UserError, match=message):
        NeighbourList(1.0, EDGES, **{"sort": True} | more)
