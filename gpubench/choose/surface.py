"""Values between scattered points: an interpolation that knows its own error, and where it ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]

SAME = 1e-9  # octaves between what counts as one point
NOTHING = 1e-7  # weight of a corner that has no part in a point
# Heights of corners that are none: beyond the hull, not to be preferred, and in the order of the
# points where several simplices fit. Those of points are squares of octaves.
BEYOND, WORSE, LATER = 1e7, 1e-3, 1e-4
PIVOTS = 200  # far more than are needed


def distances(points: Floats, others: Floats) -> Floats:
    """Return the distance of each point from each other, shape (points, others)."""
    found: Floats = np.sqrt(((points[:, None] - others[None]) ** 2).sum(axis=2))
    return found


def basis(points: Floats, others: Floats, trended: int) -> Floats:
    """Return the basis functions at points: phi(r) = -r about each of others, then a linear trend.

    With this kernel a surface needs no length scale and does not overshoot as cubic ones do.

    trended: how many of the first axes may have a slope. Shape (points, others + 1 + trended).
    """
    ones = np.ones((len(points), 1))
    return np.hstack([-distances(points, others), ones, points[:, :trended]])


def solution(points: Floats, trended: int) -> Floats:
    """Return the matrix that turns values at points into coefficients of `basis`.

    Axes along which the points do not vary independently get no slope. Where c are coefficients by
    this matrix A, c[i] / A[i, i] is the error at point i of the surface through the others (Rippa
    1999, Advances in Computational Mathematics 11, equation 15; with a trend: Dubrule 1983,
    Mathematical Geology 15).

    points: float64, shape (n, axes), all different. Shape (n + 1 + trended, n).
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
    """Return the corners of the Delaunay simplex around each of other points, and their weights.

    Of several simplices, as on a grid, it is one with as many preferred points as possible.

    points: float64, shape (n, axes). at: the others, float64, shape (m, axes). exist: which points
    exist, in each case for each of the others, shape (cases, 1 or m, n). preferred: (cases, n).

    Returns indices and weights, both of shape (cases, m, axes + 1). Corners that are not needed,
    and all of a point outside the convex hull, have weight 0.

    Lifted to the square of its distance, the lower hull of the points is their Delaunay
    triangulation: of all weights that make a point, those of its simplex have the least height.
    The simplex method finds them for all at once. SciPy's takes half a second to import.
    """
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
    # Inverse bases; the last column has the weights of the point itself.
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
    index = np.where(weight > 0, basis, 0)
    return index.reshape(cases, m, -1), weight.reshape(cases, m, -1)
