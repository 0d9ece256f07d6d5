"""What a call takes, in spaces that are long, sparse, or many, against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from builders.images import images_within
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import NeighbourList
from gpubench.base.errors import UserError
from gpubench.neighbours.refined import Refined

EXACT = 1e-5  # part of the cutoff within which a pair may be listed or not
TILTED = np.array([(3.0, 0.0, 0.0), (1.2, 2.8, 0.0), (-0.9, 0.7, 2.5)])
SEEDS = st.integers(0, 2**32 - 1)


def listed(found, less=0):
    return {*map(tuple, np.column_stack((found.pairs() - less, found.shifts)).tolist())}


def near(x, cell, periodic, cutoff):
    """Return the pairs that must be listed, and those that may."""
    return [
        {*map(tuple, images_within(x, cell, periodic, cutoff * part)[:, :5].astype(int).tolist())}
        for part in (1 - EXACT, 1 + EXACT)
    ]


def beside(rng, x, cutoff):
    """Return a point for each of these, about a cutoff away."""
    way = rng.normal(size=x.shape)
    length = cutoff * (1 + 3 * EXACT * rng.normal(size=(len(x), 1)))
    return x + way * length / np.linalg.norm(way, axis=1)[:, None]


def islands(rng, n, far, is_open):
    """Return particles in three places that are far apart along open axes."""
    at = np.array([(-1,), (0,), (1,)]) * far * rng.uniform(0.5, 1.0, (3, 3)) * is_open
    return np.repeat(at, n, axis=0) + rng.random((3 * n, 3)) * 3


def check_geometry(found, rows, x, cell):
    i, j = found.pairs().T
    way = x[j] - rows[i] + found.shifts @ cell
    # Of coordinates that float64 rounds, and of boxes.
    close = {"rtol": 0, "atol": 1e-15 * (abs(x).max() + abs(cell).max()) + 1e-14}
    assert np.allclose(found.vectors(), way, **close)
    assert np.allclose(found.distances(), np.linalg.norm(way, axis=1), **close)


@settings(max_examples=12)
@given(SEEDS, st.sampled_from(["long", "slab", "tilted", "three", "open"]), st.booleans())
def test_other_points_in_a_long_box_of_the_call(seed, kind, sort):
    """One list, with a box for each call: float64 decides, or images are searched."""
    rng = np.random.default_rng(seed)
    search = NeighbourList(1.0, (5.0, 5.0, 5.0), True, sort=sort)
    for far in 2.0 ** rng.integers((2, 12), (6, 19)):
        cell = np.diag((max(far, 4.0), 5.0, 6.0))
        periodic = np.array((1, 1, kind != "slab"), bool) & (kind != "open")
        if kind == "tilted":
            cell[2, 0] = far / 3
        if kind == "three":
            cell[1, 1] = 3.0
        given_as = np.where(periodic[:, None], cell, 0.0)
        x = rng.uniform(-0.5, 1.5, (40, 3)) * np.where(periodic, 1.0, 0.8) @ cell
        q = beside(rng, x[:30], 1.0)
        found = search(x, queries=q, box=given_as)
        assert (search.count(x, queries=q, box=given_as) == found.counts).all()
        both = near(np.concatenate((q, x)), cell, periodic, 1.0)
        must, may = (
            {(i, j - 30, *shift) for i, j, *shift in pairs if i < 30 <= j} for pairs in both
        )
        assert must <= listed(found) <= may
        check_geometry(found, q, x, given_as)


@settings(max_examples=12)
@given(SEEDS, st.sampled_from([1e3, 1e9]), st.sampled_from(["queries", "sum", "max", "table"]))
def test_what_is_packed_is_selected(seed, far, by):
    """Along open axes, in a box of each call; vectors are of the positions that were given."""
    rng = np.random.default_rng(seed)
    periodic = rng.random(3) < 0.3
    cell = np.diag(rng.uniform(3.5, 5.0, 3))
    x = islands(rng, 40, far, ~periodic)
    cutoff, species = 1.0, rng.integers(0, 3, len(x))
    table = np.array([[1.0, 0.7, 0.0], [0.7, 0.4, 0.9], [0.0, 0.9, 1.0]])
    radii = rng.uniform(0, cutoff / (2 if by == "sum" else 1), len(x))
    q = beside(rng, x[::2], cutoff)
    asked, limit = {
        "queries": ({"queries": q}, np.ones((len(x), len(x)))),
        "sum": ({"radii": radii}, np.add.outer(radii, radii)),
        "max": ({"radii": radii, "combine": "max"}, np.maximum.outer(radii, radii)),
        "table": ({"species": species}, table[species][:, species]),
    }[by]
    box = np.where(periodic[:, None], cell, 0.0)
    search = NeighbourList(table if by == "table" else cutoff, (9.0, 9.0, 9.0), True)
    found = search(x, box=box, **asked)
    assert all(periodic) or search._plan[1].packing
    rows = q if by == "queries" else x
    all_of = np.concatenate((q, x)) if by == "queries" else x
    first = len(all_of) - len(x)
    must, may = (
        {
            (i, j - first, *shift)
            for (i, j, *shift), d in zip(each[:, :5].astype(int).tolist(), each[:, 5], strict=True)
            if (by == "queries" and i < first <= j)
            or (by != "queries" and d < limit[i, j] + cutoff * part)
        }
        for part in (-EXACT, EXACT)
        for each in [images_within(all_of, cell, periodic, cutoff * (1 + part))]
    )
    assert must <= listed(found) <= may
    check_geometry(found, rows, x, box)


def test_a_list_is_packed_for_the_box_of_each_call():
    """One packing serves the same positions in the same box alone."""
    rng = np.random.default_rng(1)
    x = islands(rng, 60, 1e6, (0, 1, 1))
    search = NeighbourList(1.0, (4.0, 0.0, 0.0), True)
    packings = []
    for edge in (4.0, 4.0, 3.5, 0.0, 2.0, 4.0):
        box = np.diag((edge, 0.0, 0.0))
        must, may = near(x, np.diag((edge or 1.0, 1.0, 1.0)), np.array((edge > 0, 0, 0)), 1.0)
        assert must <= listed(search(x, box=box)) <= may
        packings.append(search._plan[1].packing)
    assert packings[0] is packings[1] is not None
    assert len({*map(id, packings[1:4])}) == 3 and packings[3] and packings[4] is None


@settings(max_examples=12)
@given(SEEDS, st.sampled_from([0.3, 1.0, 2.5]), st.booleans())
def test_rows_of_a_sorted_batch_ascend(seed, cutoff, is_open):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 1, 5, 25], 4)
    periodic, cells = np.array((1, not is_open, 1), bool), rng.uniform(0.8, 1.2, (4, 1, 1)) * TILTED
    x = np.concatenate([rng.uniform(-1, 2, (n, 3)) @ c for n, c in zip(sizes, cells, strict=True)])
    offsets = np.cumsum([0, *sizes])
    search = NeighbourList(cutoff, periodic=periodic, sort=True)
    found = search(x, batch=offsets, box=cells)
    pairs = [*map(tuple, np.column_stack((found.pairs(), found.shifts)).tolist())]
    assert pairs == sorted(pairs) and len({*pairs}) == len(pairs)
    assert (search.count(x, batch=offsets, box=cells) == found.counts).all()
    for first, last, cell in zip(offsets[:-1], offsets[1:], cells, strict=True):
        if first < last:
            own = {(i - first, j - first, *s) for i, j, *s in pairs if first <= i < last}
            must, may = near(x[first:last], cell, periodic, cutoff)
            assert must <= own <= may
    assert np.array_equal(found.matrix()[1], found.counts)


@pytest.mark.parametrize("kind", ["long", "three", "slab", "packed"])
@pytest.mark.parametrize("size", [1e-4, 0.02])
@settings(max_examples=4)
@given(SEEDS)
def test_a_kept_list_in_a_long_box(kind, size, seed):
    """Also with images, which a box of three cutoffs by many needs, and with what is packed."""
    rng = np.random.default_rng(seed)
    edges = np.array((2.0 ** rng.integers(14, 18), 3.602 if kind == "three" else 5.0, 6.0))
    periodic = np.array({"slab": (1, 1, 0), "packed": (0, 1, 1)}.get(kind, (1, 1, 1)), bool)
    search = NeighbourList(1.0, edges * periodic, True, skin=0.2)
    at = rng.random((45, 3))
    if kind == "packed":
        at = islands(rng, 15, 1e6, np.array((1, 0, 0))) / edges
    way = beside(rng, at * 0, 1.25) / edges
    for step in range(5):
        edges = edges * (1 + rng.uniform(-size, size, 3) * (periodic & (edges < 100)))
        # Pairs are beyond the skin at first, and later within the cutoff, or all but at rest.
        moved = way * 2 * size * step
        s = np.concatenate((at + moved, at + way - moved))
        box, x = edges * periodic, s * edges
        found = search.update(x, box=box)
        check_geometry(found, x, x, np.diag(box))
        assert near(x, np.diag(edges), periodic, 1.0)[0] <= listed(found)
    plan = search._plan[1]
    assert size > 0.01 or search.searches == 1
    assert size > 0.01 or plan.packing or kind != "packed"
    assert size > 0.01 or plan.cell or kind != "three"


def test_float64_decides_in_a_long_box_of_a_call():
    """Of the same list, whose own box is short."""
    rng = np.random.default_rng(3)
    search = NeighbourList(1.0, (5.0, 5.0, 5.0), True, skin=1e-4)
    for edge in (5.0, 2.0**18, 5.0):
        edges = np.array((edge, 5.0, 5.0))
        x = rng.random((99, 3)) * edges
        x = np.concatenate((x, beside(rng, x, 1.0)))
        found = search.update(x, box=edges)
        assert isinstance(search._plan[1], Refined) is (edge > 5)
        assert near(x, np.diag(edges), np.ones(3, bool), 1.0)[0] <= listed(found)
    assert search.searches == 3 and search.bound() <= EXACT


@pytest.mark.parametrize("more", [{"queries": np.zeros((1, 3))}, {"radii": np.zeros(8)}])
def test_selections_are_not_for_a_batch(more):
    search, x = NeighbourList(1.0), np.zeros((8, 3))
    for call in (search, search.count):
        with pytest.raises(UserError, match=r"batch is not for (queries|radii): leave one out"):
            call(x, batch=(0, 8), **more)
    table = NeighbourList(np.ones((1, 1)))
    with pytest.raises(UserError, match="batch is not for species: leave one out"):
        table(x, batch=(0, 8), species=np.zeros(8, int))
    with pytest.raises(UserError, match="a table of cutoffs needs species="):
        table.count(x, batch=(0, 8))
