"""Interpolation between scattered points, with leave-one-out errors and the convex hull."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]

SAME = 1e-9  # octaves within which points coincide
NOTHING = 1e-7  # smaller weights of corners count as 0
# See `corners`: the height of artificial corners outside the hull; heights added to points that are
# not preferred; and heights added by index, to choose between several simplices.
BEYOND, WORSE, LATER = 1e7, 1e-3, 1e-4
PIVOTS = 200  # limit of the iterations of `corners`, far above what they need


def distances(points: Floats, others: Floats) -> Floats:
    """Return the distance of each of `points` from each of `others`, shape (points, others)."""
    found: Floats = np.sqrt(((points[:, None] - others[None]) ** 2).sum(axis=2))
    return found


def basis(points: Floats, others: Floats, trended: int) -> Floats:
    """Return basis functions at points: phi(r) = -r around each of `others`, and a linear trend.

    phi needs no length scale and, unlike cubic kernels, does not overshoot.

    trended: number of leading axes with a slope. Returns shape (points, others + 1 + trended).
    """
    return np.hstack([-distances(points, others), np.ones((len(points), 1)), points[:, :trended]])


def solution(points: Floats, trended: int) -> Floats:
    """Return the matrix that maps values at points to coefficients of `basis`.

    Axes along which the points do not vary independently get no slope. For coefficients c computed
    with this matrix A, c[i] / A[i, i] is the error at point i of the surface through the others
    (Rippa 1999, Advances in Computational Mathematics 11, equation 15; with a trend: Dubrule 1983,
    Mathematical Geology 15).

    points: float64, shape (n, axes), all different. Returns shape (n + 1 + trended, n).
    """
    n, whole = len(points), basis(points, points, trended)
    used = [*range(n + 1)]
    for axis in range(n + 1, n + 1 + trended):
        tried = whole[:, [*used[n:], axis]]
        if np.linalg.matrix_rank(tried) == tried.shape[1] < n:
            used.append(axis)
    square = np.zeros((len(used), len(used)))
    square[:n] = whole[:, used]
    square[n:, :n] = whole[:, used[n:]].T
    found = np.zeros((whole.shape[1], n))
    found[used] = np.linalg.inv(square)[:, :n]
    return found


def corners(
    points: Floats, at: Floats, exist: Booleans, preferred: Booleans
) -> tuple[Integers, Floats]:
    """Return the corners of the Delaunay simplex around each query point, and their weights.

    If several simplices fit, as on a grid, the one with the most preferred corners is used.

    points: float64, shape (n, axes). at: query points, float64, shape (m, axes). exist: masks of
    the points to use for each query, (cases, 1 or m, n). preferred: masks of points, (cases, n).

    Returns indices and weights, both of shape (cases, m, axes + 1). Weights are 0 for unused
    corners, and for query points outside the convex hull.

    The height of a point is its squared distance from the query. The corners of the simplex are the
    points of which the query is the convex combination of least height; the simplex method finds
    them for all queries at once. (SciPy's implementation takes half a second to import.)
    """
    varies = (points != points[:1]).any(axis=0)
    beyond = (np.abs(at - points[:1]) > NOTHING)[:, ~varies].any(axis=1)  # of what never varies
    points, at = points[:, varies], at[:, varies]
    cases, (m, axes), n = len(exist), at.shape, len(points)
    far = np.vstack([np.eye(axes), np.full(axes, -1.0)])
    away = np.concatenate([points[None] - at[:, None], np.tile(far, (m, 1, 1))], axis=1)
    columns = np.concatenate([away, np.ones((*away.shape[:2], 1))], axis=2)
    columns = np.tile(columns, (cases, 1, 1))
    height = (away[:, :n] ** 2).sum(axis=2) + LATER * (np.arange(n) * 0.618 % 1)
    height = np.where(exist, height + np.where(preferred, 0, WORSE)[:, None], np.inf)
    height = np.pad(height.reshape(-1, n), ((0, 0), (0, axes + 1)), constant_values=BEYOND)
    rows = np.arange(len(height))
    basis = np.tile(np.arange(n, n + axes + 1), (len(rows), 1))
    # Inverses of the simplex bases; the last column has the weights of the query point.
    made = np.tile(np.linalg.inv(columns[0, n:].T), (len(rows), 1, 1))
    todo = rows
    for _ in range(PIVOTS):
        own = height[todo]
        plane = np.einsum("rc,rcj->rj", np.take_along_axis(own, basis[todo], 1), made[todo])
        above = own - np.einsum("rnj,rj->rn", columns[todo], plane)
        enters = above.argmin(axis=1)
        is_below = above.min(axis=1) < -1e-12 * np.abs(plane).max(axis=1) - 1e-7
        todo, enters = todo[is_below], enters[is_below]
        if not len(todo):
            break
        share = np.einsum("rij,rj->ri", made[todo], columns[todo, enters])
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts = np.where(share > SAME, made[todo, :, -1] / share, np.inf)
        leaves = lasts.argmin(axis=1)
        each = np.arange(len(todo))
        row = made[todo, leaves] / share[each, leaves, None]
        share[each, leaves] = 0
        made[todo] -= share[:, :, None] * row[:, None]
        made[todo, leaves] = row
        basis[todo, leaves] = enters
    weight = np.where(made[:, :, -1] > NOTHING, made[:, :, -1], 0.0)
    weight[((basis >= n) & (weight > 0)).any(axis=1)] = 0
    weight[np.tile(beyond, cases)] = 0
    index = np.where(weight > 0, basis, 0)
    return index.reshape(cases, m, -1), weight.reshape(cases, m, -1)
