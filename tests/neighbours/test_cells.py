"""Searches in cells of any shape, with any number of images, against all images in float64."""

from __future__ import annotations

import numpy as np
import pytest
from builders.images import images_within
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import NeighbourList

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


@settings(max_examples=60, deadline=None)
@given(cases())
def test_every_image_is_found(case):
    check_case(case)


@pytest.mark.long
@settings(max_examples=2000, deadline=None)
@given(cases())
def test_every_image_is_found_of_many(case):
    check_case(case)
