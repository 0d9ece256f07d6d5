"""The oracle of Loop subdivision: an indexed mesh in float64, and invariants of closed meshes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from gpubench.core.arrays import check_array, first_true
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.subdivision.contract import Subdivided
from gpubench.problems.subdivision.inputs import Faces, LoopMesh, children_of, edge_numbers

Floats = NDArray[np.float64]
ROUNDING = 2.0**-24
ROUNDINGS = 16  # bound per level: sums of six terms, two products, and inherited errors
MOST_CLOSED = 2**20  # maximum triangles of meshes whose edges are compared
MOST_NEAR = 2**17  # maximum triangles whose distance to the surface is checked


def weights(valence: NDArray[Any]) -> Floats:
    """Return Loop's beta: a vertex v moves to (1 - n beta) v + beta * (sum of n neighbours)."""
    beta: Floats = (5 / 8 - (3 / 8 + np.cos(2 * np.pi / valence) / 4) ** 2) / valence
    return beta


def _average(points: Floats, faces: Faces, weight: Callable[[NDArray[Any]], Floats]) -> Floats:
    """Return (1 - n w) v + w * (sum of neighbours) per vertex v; w depends on the valence n."""
    n = len(points)
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    neighbours = csr_array((np.ones(len(start)), (start, end)), shape=(n, n))
    valence = np.bincount(start, minlength=n)
    w = weight(valence)[:, None]
    found: Floats = (1 - valence[:, None] * w) * points + w * (neighbours @ points)
    return found


def limit_positions(points: Floats, faces: Faces) -> Floats:
    """Return the points to which vertices converge under subdivision, float64, shape (n, 3)."""
    return _average(points, faces, lambda n: 1 / (n + 3 / (8 * weights(n))))


def loop_level(points: Floats, faces: Faces) -> tuple[Floats, Faces]:
    """Subdivide an indexed mesh once (Loop 1987); children are ordered as in `Subdivision`."""
    edges, of_face = edge_numbers(faces)
    across = np.zeros((len(edges), 3))
    np.add.at(across, of_face.ravel(), points[np.roll(faces, 1, axis=1)].reshape(-1, 3))
    middles = 3 / 8 * points[edges].sum(axis=1) + across / 8
    return (
        np.concatenate((_average(points, faces, weights), middles)),
        children_of(faces, of_face + len(points)),
    )


class SubdivisionOracle(Oracle):
    """Check subdivided meshes against the mesh after `depth` levels in float64.

    A uniform answer is compared corner by corner: points are means with non-negative weights, so
    errors grow by a few roundings of the largest coordinate per level. An adaptive answer must be
    closed, have the input's Euler number, and be near the reference's limit points: within the
    largest distance of an input vertex from its limit, plus the longest reference edge.
    """

    def __init__(self, inputs: LoopMesh, exact: bool = False) -> None:
        points, faces = inputs.vertices.astype(np.float64), inputs.faces
        self.depth = inputs.depth
        self.euler = len(points) - len(faces) // 2  # n faces have 3 n / 2 edges
        self.largest = float(np.abs(points).max())
        moves = np.linalg.norm(limit_positions(points, faces) - points, axis=1)
        for _ in range(inputs.depth):
            points, faces = loop_level(points, faces)
        self.points, self.faces = points, faces
        self.limits = limit_positions(points, faces)
        first, second = points[edge_numbers(faces)[0]].swapaxes(0, 1)
        self.slack = float(moves.max() + np.linalg.norm(first - second, axis=1).max())

    def check(self, algorithm: Any) -> str | None:
        """Check positions (`uniform`) or distances to the surface, and that the mesh is closed."""
        answer, download = self.answer_of(algorithm, Subdivided), algorithm.download
        uniform = algorithm.form == "uniform"
        counts, corners = download(answer.counts), download(answer.corners)
        if problem := check_array("counts", counts, (3,), np.int32):
            return problem
        _, found, lost = counts.tolist()
        if lost:
            return f"{lost} triangles found no room: raise the parameter capacity"
        most = len(self.faces)
        if not (found == most if uniform else 4 <= found <= most):
            return f"{found} triangles, expected {'' if uniform else '4 to '}{most}"
        room = corners.shape[1] if corners.ndim == 3 else 0
        if room < found:
            return f"corners has shape {corners.shape}, expected at least (3, {found}, 4)"
        if problem := check_array("corners", corners, (3, room, 4), np.float32):
            return problem
        triangles = np.ascontiguousarray(corners[:, :found, :3].swapaxes(0, 1))
        if not np.isfinite(triangles).all():
            return "a corner is not finite"
        wrong = self._positions(triangles) if uniform else self._near(triangles)
        if wrong is None and not uniform:
            level = corners[:, :found, 3]
            known = np.isin(level, np.arange(self.depth + 1))
            if (k := first_true(np.asarray(~known.all(axis=0)))) is not None:
                return f"triangle {k} has level {level[:, k].tolist()}, expected 0 to {self.depth}"
        return wrong or (None if found > MOST_CLOSED else closed(triangles, self.euler))

    def _positions(self, triangles: NDArray[np.float32]) -> str | None:
        bound = self.depth * ROUNDINGS * ROUNDING * self.largest
        expected = self.points[self.faces]
        off = np.abs(triangles - expected).max(axis=(1, 2)) > bound
        if (k := first_true(off)) is not None:
            return (
                f"triangle {k} is {triangles[k].tolist()}, expected {expected[k].tolist()} to"
                f" within {bound:.2g}"
            )
        return None

    def _near(self, triangles: NDArray[np.float32]) -> str | None:
        taken = triangles[:: -(-len(triangles) // MOST_NEAR)]
        points = np.unique(taken.reshape(-1, 3), axis=0)
        away, _ = cKDTree(self.limits).query(points)
        if (k := first_true(away > self.slack)) is not None:
            return f"{points[k].tolist()} is {away[k]:.3g} from the surface, over {self.slack:.3g}"
        return None


def closed(triangles: NDArray[np.float32], euler: int) -> str | None:
    """Check that each directed edge has exactly one opposite, with bitwise equal ends.

    triangles: float32, shape (n, 3 corners, 3). euler: expected vertices - edges + triangles.
    """
    bits = np.ascontiguousarray(triangles.reshape(-1, 3)).view(np.dtype((np.void, 12))).ravel()
    names, corner = np.unique(bits, return_inverse=True)
    start = corner.reshape(-1, 3).astype(np.int64)
    end = np.roll(start, -1, axis=1)
    if (k := first_true((start == end).any(axis=1))) is not None:
        return f"triangle {k} has two corners in one place: {triangles[k].tolist()}"
    key = (start << 32 | end).ravel()
    order = np.argsort(key, kind="stable")
    if (k := first_true(np.diff(key[order]) == 0)) is not None:
        triangle = int(order[k]) // 3
        return f"an edge of triangle {triangle} occurs twice: {triangles[triangle].tolist()}"
    opposite = np.sort((end << 32 | start).ravel())
    lone = np.flatnonzero(~np.isin(key, opposite, assume_unique=True))
    if len(lone):
        triangle, edge = divmod(int(lone[0]), 3)
        return (
            f"{len(lone)} edges are open: edge {edge} of triangle {triangle},"
            f" {triangles[triangle].tolist()}"
        )
    if (found := len(names) - len(triangles) // 2) != euler:
        return f"the Euler number is {found}, expected {euler}"
    return None
