"""Values between scattered points: an interpolation that knows its own error, and where it ends."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.spatial import Delaunay, QhullError
from scipy.spatial.distance import cdist

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

SAME = 1e-9  # octaves between what counts as one point
NOTHING = 1e-9  # weight of a corner that has no part in a point


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
        self._points = points
        self._columns = _independent(points, trended)
        trend = self._trend(points)
        n, k = trend.shape
        system = np.zeros((n + k, n + k))
        system[:n, :n] = -cdist(points, points)
        system[:n, n:] = trend
        system[n:, :n] = trend.T
        inverse = _inverse(system)
        self._coefficients = inverse[:, :n] @ values
        diagonal = np.diag(inverse)[:n]
        known = np.abs(diagonal) > 1e-12
        self.errors: Floats = np.full(n, np.nan)
        self.errors[known] = self._coefficients[:n][known] / diagonal[known]

    def __call__(self, points: Floats) -> Floats:
        """Return the values at other points, shape (m,)."""
        kernel = -cdist(points, self._points)
        rows: Floats = np.hstack([kernel, self._trend(points)]) @ self._coefficients
        return rows

    def _trend(self, points: Floats) -> Floats:
        return np.hstack([np.ones((len(points), 1)), points[:, self._columns]])


@dataclass(frozen=True)
class Corners:
    """The measured points around each of m others.

    index: shape (m, corners), into the points; weight: likewise, of which a sum makes the point.
    A corner without a part in it has weight 0; all have where the point lies outside.
    """

    index: Integers
    weight: Floats

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which points lie within the convex hull."""
        return np.asarray(self.weight.sum(axis=1) > 0.5)


class Region:
    """The convex hull of some points, cut into simplices by Delaunay.

    points: float64, shape (n, axes). An axis along which they all agree takes only that value;
    where they fill no simplex, nothing but the points themselves is inside.
    """

    def __init__(self, points: Floats) -> None:
        self._points = points
        varies = np.ptp(points, axis=0) > SAME
        self._varies = varies
        self._simplices: Integers | None = None
        self._line: Integers | None = None
        if varies.sum() == 1:
            self._line = np.argsort(points[:, varies][:, 0])
        elif varies.sum() > 1 and len(points) > varies.sum():
            free = points[:, varies]
            with suppress(QhullError):  # they lie on a line, or in a plane
                corners = Delaunay(free).simplices.astype(np.intp)
                inverses = _inverses(free[corners[:, :-1]] - free[corners[:, -1:]])
                solid = np.isfinite(inverses).all(axis=(1, 2))
                if solid.any():
                    self._simplices, self._inverse = corners[solid], inverses[solid]
                    self._last = free[corners[solid, -1]]

    def corners(self, points: Floats) -> Corners:
        """Return the simplex around each point, shape (m, axes)."""
        number = int(self._varies.sum()) + 1
        index = np.zeros((len(points), number), np.intp)
        weight = np.zeros((len(points), number))
        constant = ~self._varies
        possible = (
            np.abs(points[:, constant] - self._points[0, constant]).max(axis=1, initial=0) <= SAME
        )
        free = points[:, self._varies]
        if self._line is not None:
            self._on_line(free[:, 0], possible, index, weight)
        elif self._simplices is not None:
            self._in_simplices(free, possible, index, weight)
        # A measured point is itself, whichever simplices meet there.
        distance = cdist(points, self._points)
        nearest = distance.argmin(axis=1)
        exact = distance[np.arange(len(points)), nearest] <= SAME
        index[exact, 0] = nearest[exact]
        weight[exact] = 0
        weight[exact, 0] = 1
        weight[weight < NOTHING] = 0
        return Corners(index, weight)

    def _on_line(
        self, at: Floats, possible: NDArray[np.bool_], index: Integers, weight: Floats
    ) -> None:
        assert self._line is not None
        values = self._points[self._line][:, self._varies][:, 0]
        right = np.clip(np.searchsorted(values, at), 1, len(values) - 1)
        low, high = values[right - 1], values[right]
        inside = possible & (at >= low) & (at <= high)
        share = np.where(inside, (at - low) / np.where(high > low, high - low, 1), 0)
        index[:, 0], index[:, 1] = self._line[right - 1], self._line[right]
        weight[:, 0], weight[:, 1] = np.where(inside, 1 - share, 0), share

    def _in_simplices(
        self, at: Floats, possible: NDArray[np.bool_], index: Integers, weight: Floats
    ) -> None:
        # Delaunay.find_simplex would do it with LAPACK, whose threads wait for each other on a
        # busy machine: a second for thirty matrices of 2 by 2.
        assert self._simplices is not None
        last, inverse = self._last, self._inverse
        first = np.einsum("msi,sij->msj", at[:, None] - last, inverse)
        every = np.concatenate([first, 1 - first.sum(axis=2, keepdims=True)], axis=2)
        within = every.min(axis=2)
        best = within.argmax(axis=1)
        rows = np.arange(len(at))
        inside = possible & (within[rows, best] >= -NOTHING)
        index[inside] = self._simplices[best[inside]]
        weight[inside] = every[rows, best][inside]


def _inverses(edges: Floats) -> Floats:
    """Return the inverses of 2 by 2 or 3 by 3 matrices by Cramer's rule, shape (n, axes, axes).

    A singular one becomes NaN.
    """
    n, axes, _ = edges.shape
    rows = np.tile(np.eye(3), (n, 1, 1))
    rows[:, :axes, :axes] = edges
    a, b, c = rows[:, 0], rows[:, 1], rows[:, 2]
    columns = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=2)
    volume = np.einsum("ni,ni->n", a, columns[:, :, 0])
    volume[np.abs(volume) < NOTHING] = np.nan
    found: Floats = columns[:, :axes, :axes] / volume[:, None, None]
    return found


def _independent(points: Floats, trended: int) -> list[int]:
    """Return those of the first axes along which the points have slopes of their own."""
    columns: list[int] = []
    for axis in range(trended):
        tried = np.hstack([np.ones((len(points), 1)), points[:, [*columns, axis]]])
        if np.linalg.matrix_rank(tried) == tried.shape[1] and len(points) > tried.shape[1]:
            columns.append(axis)
    return columns


def _inverse(system: Floats) -> Floats:
    """Return the inverse of a symmetric, indefinite matrix, shape (n, n)."""
    factors, pivots, failed = lapack.dsytrf(system, lower=1)
    if failed:
        raise ValueError("two points of a surface are one")
    inverse, _ = lapack.dsytri(factors, pivots, lower=1)
    lower = np.tril(inverse)
    full: Floats = lower + np.tril(inverse, -1).T
    return full
