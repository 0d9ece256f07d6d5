"""Values between scattered points: an interpolation that knows its own error, and where it ends."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]

SAME = 1e-9  # octaves between what counts as one point
NOTHING = 1e-9  # weight of a corner that has no part in a point


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
    columns = _independent(at, trended)
    trend = _trend(at, columns)
    none = np.zeros((trend.shape[1], trend.shape[1]))
    try:
        return columns, np.linalg.inv(np.block([[-distances(at, at), trend], [trend.T, none]]))
    except np.linalg.LinAlgError as error:
        raise ValueError("two points of a surface are one") from error


def _trend(points: Floats, columns: list[int]) -> Floats:
    return np.hstack([np.ones((len(points), 1)), points[:, columns]])


def _independent(points: Floats, trended: int) -> list[int]:
    """Return those of the first axes along which the points have slopes of their own."""
    columns: list[int] = []
    for axis in range(trended):
        tried = _trend(points, [*columns, axis])
        if np.linalg.matrix_rank(tried) == tried.shape[1] and len(points) > tried.shape[1]:
            columns.append(axis)
    return columns


@dataclass(frozen=True)
class Corners:
    """The measured points around each of m others.

    index: shape (m, corners), into the points; weight: likewise, of which a sum makes the point.
    A corner without a part in it has weight 0; all have where the point lies outside.
    """

    index: Integers
    weight: Floats

    @property
    def inside(self) -> Booleans:
        """Which points lie within the convex hull."""
        return np.asarray(self.weight.sum(axis=1) > 0.5)


class Region:
    """The convex hull of some points, cut into simplices by Delaunay.

    points: float64, shape (n, axes). An axis along which they all agree takes only that value;
    where they fill no simplex, nothing but the points themselves is inside.
    """

    def __init__(self, points: Floats) -> None:
        self._points = points
        self._varies = np.ptp(points, axis=0) > SAME
        free = points[:, self._varies]
        corners = _simplices(free)
        inverses = _inverses(free[corners[:, :-1]] - free[corners[:, -1:]])
        solid = np.isfinite(inverses).all(axis=(1, 2))
        self._simplices, self._inverse = corners[solid], inverses[solid]
        self._last = free[corners[solid, -1]]

    def corners(self, points: Floats) -> Corners:
        """Return the simplex around each point, shape (m, axes)."""
        number = self._simplices.shape[1]
        index = np.zeros((len(points), number), np.intp)
        weight = np.zeros((len(points), number))
        constant = ~self._varies
        off = np.abs(points[:, constant] - self._points[0, constant]).max(axis=1, initial=0)
        if len(self._simplices):
            self._place(points[:, self._varies], off <= SAME, index, weight)
        # A measured point is itself, whichever simplices meet there.
        distance = distances(points, self._points)
        nearest = distance.argmin(axis=1)
        exact = distance[np.arange(len(points)), nearest] <= SAME
        index[exact, 0] = nearest[exact]
        weight[exact] = np.eye(1, number)
        weight[weight < NOTHING] = 0
        return Corners(index, weight)

    def _place(self, at: Floats, possible: Booleans, index: Integers, weight: Floats) -> None:
        """Write the best simplex of each point, and its weights, where the point is inside."""
        # Delaunay.find_simplex would do it with LAPACK, whose threads wait for each other on a
        # busy machine: a second for thirty matrices of 2 by 2.
        first = np.einsum("msi,sij->msj", at[:, None] - self._last, self._inverse)
        every = np.concatenate([first, 1 - first.sum(axis=2, keepdims=True)], axis=2)
        within = every.min(axis=2)
        best = within.argmax(axis=1)
        rows = np.arange(len(at))
        inside = possible & (within[rows, best] >= -NOTHING)
        index[inside] = self._simplices[best[inside]]
        weight[inside] = every[rows, best][inside]


def _simplices(points: Floats) -> Integers:
    """Return the corners of simplices between points, shape (simplices, axes + 1)."""
    n, axes = points.shape
    if axes == 1:
        in_order = np.argsort(points[:, 0])
        return np.stack([in_order[:-1], in_order[1:]], axis=1)
    if n > axes > 1:
        from scipy.spatial import Delaunay, QhullError  # slow to import

        with suppress(QhullError):  # they lie on a line, or in a plane
            found: Integers = Delaunay(points).simplices.astype(np.intp)
            return found
    return np.zeros((0, axes + 1), np.intp)


def _cross(a: Floats, b: Floats) -> Floats:
    """Return products of vectors; numpy.cross takes ten times as long for so few."""
    found: Floats = a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]
    return found


def _inverses(edges: Floats) -> Floats:
    """Return the inverses of matrices up to 3 by 3 by Cramer's rule, shape (n, axes, axes).

    A singular one becomes NaN.
    """
    n, axes, _ = edges.shape
    rows = np.tile(np.eye(3), (n, 1, 1))
    rows[:, :axes, :axes] = edges
    a, b, c = rows[:, 0], rows[:, 1], rows[:, 2]
    columns = np.stack([_cross(b, c), _cross(c, a), _cross(a, b)], axis=2)
    volume = np.einsum("ni,ni->n", a, columns[:, :, 0])
    volume[np.abs(volume) < NOTHING] = np.nan
    found: Floats = columns[:, :axes, :axes] / volume[:, None, None]
    return found
