"""Neighbours of other points, and pairs selected by radii or species, against the oracle."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from builders.images import images_within
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import NeighbourList
from gpubench.base.errors import UserError

EDGES = np.array((5.0, 4.0, 7.0))
TILTED = np.array([(3.0, 0.0, 0.0), (1.2, 2.8, 0.0), (-0.9, 0.7, 2.5)])
CELLS = {
    "open": (None, np.eye(3), (0, 0, 0), 1.0),
    "box": (EDGES, np.diag(EDGES), (1, 1, 1), 1.0),
    "slab": (EDGES * (1, 1, 0), np.diag(EDGES), (1, 1, 0), 1.0),
    "tilted": (TILTED, TILTED, (1, 1, 1), 0.7),
    "images": (TILTED, TILTED, (1, 1, 1), 3.0),
}


def images(x, *more):
    return images_within(x, *more) if len(x) else np.zeros((0, 6))


def listed(found):
    return [*map(tuple, np.column_stack((found.pairs(), found.shifts)).tolist())]


def search_in(kind, cutoff=None, **more):
    box, cell, periodic, own = CELLS[kind]
    axes = False if box is None else [*map(bool, periodic)]
    search = NeighbourList(own if cutoff is None else cutoff, box, axes, **more)
    return search, cell, periodic, own


def drawn(rng, n, kind, dtype):
    _, cell, periodic, _ = CELLS[kind]
    x = rng.uniform(-0.5, 1.5, (n, 3)) if any(periodic) else 3 * rng.random((n, 3))
    return (np.where(periodic, x, x.clip(0, 1 if any(periodic) else 3)) @ cell).astype(dtype)


def check_geometry(found, rows, x, cell):
    i, j = found.pairs().T
    way = x[j].astype(float) - rows[i] + found.shifts @ cell
    assert np.allclose(found.vectors(), way, atol=1e-5)
    assert np.allclose(found.distances(), np.linalg.norm(way, axis=1), atol=1e-5)
    assert np.array_equal(j, found.neighbours) and (np.diff(found.offsets) == found.counts).all()
    is_neighbour = np.arange(found.matrix()[0].shape[1]) < found.counts[:, None]
    assert np.array_equal(found.matrix()[0][is_neighbour], j)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([*CELLS]), st.sampled_from([0, 1, 20]),
    st.sampled_from([0, 1, 30]), st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_neighbours_of_other_points(seed, kind, m, n, dtype):
    """Also of points where a particle is, which is then a neighbour at distance 0."""
    rng = np.random.default_rng(seed)
    search, cell, periodic, cutoff = search_in(kind, sort=True)
    x, q = drawn(rng, n, kind, dtype), drawn(rng, m, kind, dtype)
    q[: m // 4] = x[: len(q[: m // 4])] if n >= m // 4 else q[: m // 4]
    found = search(x, queries=q)
    assert found.counts.shape == (m,) and found.offsets.shape == (m + 1,)
    assert np.array_equal(search.count(x, queries=q), found.counts)
    pairs, bound = listed(found), search.bound()
    assert pairs == sorted(set(pairs))
    near = []
    for difference in (-bound, bound):
        both = images(np.concatenate((q, x)), cell, periodic, cutoff + difference)
        rows = both[(both[:, 0] < m) & (both[:, 1] >= m), :5].astype(int) - (0, m, 0, 0, 0)
        near.append({*map(tuple, rows.tolist())})
    assert near[0] <= {*pairs} <= near[1]
    check_geometry(found, q, x, np.where(np.array(periodic)[:, None], cell, 0))
    other = copy.deepcopy(copy.deepcopy(found))
    assert np.array_equal(other.neighbours, found.neighbours) and listed(other) == pairs
    assert np.array_equal(other.vectors(), found.vectors())


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([*CELLS]), st.sampled_from(["sum", "max", "table"]),
    st.sampled_from([0, 1, 40]), st.sampled_from([0.0, 0.1]), st.booleans(),
)  # fmt: skip
def test_pairs_within_radii_or_a_table(seed, kind, by, n, skin, half):
    rng = np.random.default_rng(seed)
    _, cell, periodic, cutoff = search_in(kind)
    x = drawn(rng, n, kind, "float64")
    if by == "table":
        table = rng.uniform(0, cutoff, (3, 3)) * (rng.random((3, 3)) < 0.8)
        table = np.maximum(table, table.T)
        table[2, 2] = cutoff
        species = rng.integers(0, 3, n)
        limit, asked = table[species][:, species], {"species": species}
        search = search_in(kind, table, skin=skin, half=half)[0]
    else:
        radii = rng.uniform(0, cutoff / (2 if by == "sum" else 1), n) * (rng.random(n) < 0.8)
        limit = {"sum": np.add, "max": np.maximum}[by].outer(radii, radii)
        search, asked = search_in(kind, skin=skin, half=half)[0], {"radii": radii, "combine": by}
    found = search(x, **asked)
    pairs, bound = listed(found), search.bound()
    assert np.array_equal(search.count(x, **asked), found.counts)
    assert len({*pairs}) == len(pairs)
    if half:
        pairs += [(j, i, -a, -b, -c) for i, j, a, b, c in pairs]
    near = []
    for difference in (-bound, bound):
        rows = images(x, cell, periodic, cutoff + skin + difference)
        i, j = rows[:, :2].astype(int).T
        rows = rows[(limit[i, j] > 0) & (rows[:, 5] < limit[i, j] + skin + difference)]
        near.append({*map(tuple, rows[:, :5].astype(int).tolist())})
    assert near[0] <= {*pairs} <= near[1]
    check_geometry(found, x, x, np.where(np.array(periodic)[:, None], cell, 0))


def test_selected_rows_are_sorted():
    x, species = np.random.default_rng(1).random((200, 3)) * EDGES, np.arange(200) % 2
    search = NeighbourList([[1.0, 0.5], [0.5, 0.8]], EDGES, True, sort=True)
    pairs = listed(search(x, species=species))
    assert len(pairs) > 99 and pairs == sorted(pairs)
    assert search.cutoff == 1.0


@pytest.mark.parametrize(("bad", "name"), [(2, "query 2"), (7, "position 3")])
def test_points_that_cannot_be_searched_are_named(bad, name):
    points = np.random.default_rng(1).random((9, 3))
    points[bad, 1] = np.nan
    for box in (EDGES, TILTED):
        with pytest.raises(UserError, match=f"^{name} is not finite"):
            NeighbourList(0.5, box, True)(points[4:], queries=points[:4])


X = np.zeros((5, 3))
TABLE = np.ones((2, 2))


@pytest.mark.parametrize(
    ("made", "asked", "message"),
    [
        ({}, {"queries": [[0, 0, 0]]}, "queries take the kind of array, and the device, of"),
        ({}, {"queries": np.zeros((2, 3), "f4")}, "queries take the type and columns of the posi"),
        ({}, {"queries": np.zeros((2, 4))}, "queries take the type and columns of the positions"),
        ({}, {"queries": np.zeros(3)}, "queries take the type and columns of the positions"),
        ({"half": True}, {"queries": X}, "half=True is not for queries"),
        ({"order": "cells"}, {"queries": X}, "order='cells' is not for queries"),
        ({"capacity": 9}, {"queries": X}, "capacity is not for queries"),
        ({}, {"queries": X, "out": 5}, "out is not for queries"),
        ({}, {"queries": X, "radii": np.ones(5)}, "queries and radii do not go together"),
        ({"cutoff": TABLE}, {"queries": X, "species": [0] * 5}, "queries and species do not go"),
        ({"cutoff": TABLE}, {"radii": np.ones(5)}, "a table of cutoffs needs species="),
        ({"cutoff": TABLE}, {}, "a table of cutoffs needs species="),
        ({"cutoff": TABLE}, {"species": [0, 1, 2, 0, 0]}, "species take whole numbers from 0 to 1"),
        ({"cutoff": TABLE}, {"species": [0, 1, -1, 0, 0]}, "species take whole numbers from 0 to"),
        ({"cutoff": TABLE}, {"species": [0.0] * 5}, "species take a whole number for each of 5"),
        ({"cutoff": TABLE}, {"species": [0] * 4}, "species take a whole number for each of 5"),
        ({"cutoff": TABLE, "capacity": 9}, {"species": [0] * 5}, "capacity is not for species"),
        ({}, {"species": [0] * 5}, "species need a table"),
        ({}, {"radii": [0.5] * 4}, "radii take a number for each of 5 particles"),
        ({}, {"radii": "wide"}, "radii take a number for each of 5 particles"),
        ({}, {"radii": [0.5, np.nan, 0, 0, 0]}, "radii take finite numbers of at least 0"),
        ({}, {"radii": [0.5, -1, 0, 0, 0]}, "radii take finite numbers of at least 0"),
        ({}, {"radii": [0.6] * 5}, r"the largest radii reach 1\.2: they need a cutoff of that"),
        ({}, {"radii": [0.5] * 5, "combine": "mean"}, "combine takes sum or max"),
        ({}, {"combine": "max"}, "combine is for radii"),
        ({"capacity": 9}, {"combine": "max"}, "combine is for radii"),
        ({}, {"queries": X, "combine": "max"}, "combine is for radii"),
        ({"order": "cells"}, {"radii": [0.5] * 5}, "order='cells' is not for radii"),
        ({"cutoff": [[1, 2], [3, 1]]}, {}, "a table of cutoffs is symmetric, of numbers of at"),
        ({"cutoff": [[1, 2]]}, {}, "a table of cutoffs is symmetric"),
        ({"cutoff": [[np.nan]]}, {}, "a table of cutoffs is symmetric"),
        ({"cutoff": [[0]]}, {}, "a table of cutoffs is symmetric"),
        ({"cutoff": [1, 2]}, {}, "cutoff takes a number above 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(made, asked, message):
    with pytest.raises(UserError, match=message) as raised:
        NeighbourList(**{"cutoff": 1.0, "box": EDGES} | made)(X, **asked)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("x", [np.zeros(()), np.zeros(3), np.zeros((3, 2)), [[0.0] * 3]])
def test_positions_are_told_first(x):
    for asked in ({"queries": X}, {"radii": np.ones(5)}):
        with pytest.raises(UserError, match=r"^positions take"):
            NeighbourList(2.0)(x, **asked)


def test_no_update_by_species():
    with pytest.raises(UserError, match="update is not for a table of cutoffs"):
        NeighbourList(TABLE, EDGES, skin=0.1).update(X)
