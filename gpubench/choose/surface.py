"""Values between scattered points: an interpolation that knows its own error, and where it ends."""

from __future__ import annotations

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
        self._simplices: Delaunay | None = None
        self._line: Integers | None = None
        if varies.sum() == 1:
            self._line = np.argsort(points[:, varies][:, 0])
        elif varies.sum() > 1 and len(points) > varies.sum():
            try:
                self._simplices = Delaunay(points[:, varies])
            except QhullError:
                return  # on a line, or in a plane

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
            self._in_simplices(self._simplices, free, possible, index, weight)
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
        self,
        simplices: Delaunay,
        at: Floats,
        possible: NDArray[np.bool_],
        index: Integers,
        weight: Floats,
    ) -> None:
        found = simplices.find_simplex(at)
        inside = possible & (found >= 0)
        chosen = found[inside]
        axes = at.shape[1]
        transform = simplices.transform[chosen]
        first = np.einsum("mij,mj->mi", transform[:, :axes], at[inside] - transform[:, axes])
        all_weights = np.hstack([first, 1 - first.sum(axis=1, keepdims=True)])
        # A flat simplex has no weights of its own; whatever is in it is left out.
        weight[inside] = np.where(np.isnan(all_weights).any(axis=1, keepdims=True), 0, all_weights)
        index[inside] = simplices.simplices[chosen]


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
