"""Values between scattered points: an interpolation that knows its own error, and where it ends."""

from __future__ import annotations

from functools import lru_cache

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


class Surface:
    """A linear trend and a radial basis function through every point: phi(r) = -r.

    With this kernel the surface is as a Brownian motion that is known at the points: it takes no
    length of its own from us, and does not swing between points as cubic ones do.

    points: float64, shape (n, axes), all different. values: float64, shape (n,).
    trended: which axes may have a slope; those along which the points do not vary independently
        have none.

    errors: float64, shape (n,), value less what the surface through the other points has there
        (Rippa 1999, Advances in Computational Mathematics 11, equation 15, which holds with a
        trend too: Dubrule 1983, Mathematical Geology 15); NaN where the others give no surface.
    """

    def __init__(self, points: Floats, values: Floats, trended: int) -> None:
        n = len(points)
        self._points = points
        # Many surfaces go through the same points.
        self._columns, inverse = _solution(points.tobytes(), points.shape, trended)
        self._coefficients = inverse[:, :n] @ values
        diagonal = np.diag(inverse)[:n]
        known = np.abs(diagonal) > 1e-12
        self.errors: Floats = np.full(n, np.nan)
        self.errors[known] = self._coefficients[:n][known] / diagonal[known]

    def __call__(self, points: Floats) -> Floats:
        """Return the values at other points, shape (m,)."""
        kernel = -distances(points, self._points)
        rows: Floats = np.hstack([kernel, _trend(points, self._columns)]) @ self._coefficients
        return rows


@lru_cache(maxsize=64)
def _solution(points: bytes, shape: tuple[int, int], trended: int) -> tuple[list[int], Floats]:
    """Return the axes with a slope, and what makes coefficients of values."""
    at = np.frombuffer(points).reshape(shape)
    columns: list[int] = []
    for axis in range(trended):  # those along which the points have slopes of their own
        tried = _trend(at, [*columns, axis])
        if np.linalg.matrix_rank(tried) == tried.shape[1] and len(at) > tried.shape[1]:
            columns.append(axis)
    trend = _trend(at, columns)
    none = np.zeros((trend.shape[1], trend.shape[1]))
    try:
        return columns, np.linalg.inv(np.block([[-distances(at, at), trend], [trend.T, none]]))
    except np.linalg.LinAlgError as error:
        raise ValueError("two points of a surface are one") from error


def _trend(points: Floats, columns: list[int]) -> Floats:
    return np.hstack([np.ones((len(points), 1)), points[:, columns]])


def corners(
    points: Floats, at: Floats, exist: Booleans, preferred: Booleans
) -> tuple[Integers, Floats]:
    """Return those of some points between which others lie, and their weights.

    They are the corners of the Delaunay simplex around each; where the points leave several to
    choose from, as on a grid, of one with as many of the preferred points as possible.

    points: float64, shape (n, axes). at: float64, shape (m, axes). exist: which points there are
    in each case, for each of the others, shape (cases, 1 or m, n). preferred: shape (cases, n).

    Returns indices and weights, both of shape (cases, m, axes + 1); a corner that has no part in a
    point has weight 0, and so have all of a point outside the convex hull.

    Lifted to the square of its distance, the lower hull of the points is their Delaunay
    triangulation: of all weights that make a point, those of its simplex have the least height.
    The simplex method finds them for all at once, from a simplex far above. SciPy's triangulation
    takes half a second to import.
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
    # What the weights of corners are for any point; those of the one asked for stand last.
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
