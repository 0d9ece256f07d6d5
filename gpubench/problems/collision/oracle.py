"""The oracle of mesh collision, in float64, with a tolerance around contact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from gpubench.core.arrays import check_array, check_range, first_absent, first_true
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.collision.contract import Collisions
from gpubench.problems.collision.inputs import MeshPair

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Either answer is valid for a pair of triangles that a shift, by these fractions of the pair's size
# and of the largest coordinate, would bring into or out of contact.
BAND, BAND_OF_LARGEST = 1e-6, 1e-12
PARALLEL = 1e-7  # sine of the angle of two edges, below which their cross product is no axis
MOST_BROADCAST = 2**22  # maximum number of pairs of triangles whose boxes are all compared
CHUNK = 2**15  # pairs of triangles processed at once


def separations(first: Floats, second: Floats) -> Floats:
    """Return the distance of each pair of triangles along the axis of largest separation.

    The axes are both normals, and the cross products of each edge with the other triangle's edges
    and with the normal of its own triangle. The distance is negative if the triangles intersect.
    first, second: float64, shape (n, 3 corners, 3).
    """
    origin = first[:, :1]
    points = np.concatenate((first - origin, second - origin), axis=1)
    edges = np.concatenate(
        [np.roll(side, -1, axis=1) - side for side in (points[:, :3], points[:, 3:])], axis=1
    )
    normals = np.cross(edges[:, [0, 3]], edges[:, [1, 4]])
    of_edges = np.cross(edges[:, [0, 0, 0, 1, 1, 1, 2, 2, 2]], edges[:, [3, 4, 5] * 3])
    in_plane = np.cross(edges, normals[:, [0, 0, 0, 1, 1, 1]])
    axes = np.concatenate((normals, of_edges, in_plane), axis=1)
    length = np.linalg.norm(edges, axis=2)
    scale = np.linalg.norm(axes, axis=2)
    sine = scale[:, 2:11] / (length[:, [0, 0, 0, 1, 1, 1, 2, 2, 2]] * length[:, [3, 4, 5] * 3])
    along = np.einsum("nac,npc->nap", axes / np.where(scale > 0, scale, 1)[..., None], points)
    a, b = along[..., :3], along[..., 3:]
    gap = np.maximum(b.min(axis=2) - a.max(axis=2), a.min(axis=2) - b.max(axis=2))
    gap[:, 2:11][sine < PARALLEL] = -np.inf
    apart: Floats = gap.max(axis=1)
    return apart


def _candidates(first: Floats, second: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Yield all pairs of triangles whose axis-aligned boxes overlap."""
    if len(first) * len(second) <= MOST_BROADCAST:
        rows = np.arange(0, len(first), max(1, MOST_BROADCAST // 4 // len(second)))
        for low, high in zip(rows, [*rows[1:], len(first)], strict=True):
            near = np.ones((high - low, len(second)), bool)
            for axis in range(3):
                a, b = first[low:high, :, axis], second[:, :, axis]
                near &= a.min(1)[:, None] <= b.max(1)
                near &= b.min(1) <= a.max(1)[:, None]
            i, j = np.nonzero(near)
            yield i + low, j
        return
    bounds = [
        [(mesh[..., axis].min(1), mesh[..., axis].max(1)) for axis in range(3)]
        for mesh in (first, second)
    ]
    centres = [mesh.mean(axis=1) for mesh in (first, second)]
    radius = sum(
        float(np.linalg.norm(mesh - centre[:, None], axis=2).max())
        for mesh, centre in zip((first, second), centres, strict=True)
    )
    tree = cKDTree(centres[0])
    near, _ = tree.query(centres[1], distance_upper_bound=radius * (1 + 1e-9))
    some = np.flatnonzero(np.isfinite(near))
    for part in np.array_split(some, -(-len(some) // CHUNK) or 1):
        found = tree.query_ball_point(centres[1][part], radius * (1 + 1e-9))
        counts = np.array([len(each) for each in found], np.int64)
        if counts.sum():
            i, j = np.concatenate(found).astype(np.int64), np.repeat(part, counts)
            is_near = np.ones(len(i), bool)
            for (low, high), (other_low, other_high) in zip(*bounds, strict=True):
                is_near &= (low[i] <= other_high[j]) & (other_low[j] <= high[i])
            yield i[is_near], j[is_near]


class MeshCollisionOracle(Oracle):
    """Check that all pairs that clearly intersect are listed, and none that is clearly apart."""

    def __init__(self, inputs: MeshPair, exact: bool = False) -> None:
        first, second = inputs.first.astype(np.float64), inputs.placed
        self.sizes = len(first), len(second)
        must, may = [], []
        for i, j in _candidates(first, second):
            for k in range(0, len(i), CHUNK):
                a, b = i[k : k + CHUNK], j[k : k + CHUNK]
                apart = separations(first[a], second[b])
                reach = np.abs(np.concatenate((first[a], second[b]), 1) - first[a, :1]).max((1, 2))
                band = BAND * reach + BAND_OF_LARGEST * inputs.largest
                key = a * self.sizes[1] + b
                must.append(key[apart < -band])
                may.append(key[np.abs(apart) <= band])
        self.must, self.may = (
            np.sort(np.concatenate([*each, []]).astype(np.int64)) for each in (must, may)
        )

    def check(self, algorithm: Any) -> str | None:
        """Check that required pairs are listed once, and others only if within the tolerance."""
        answer, download = self.answer_of(algorithm, Collisions), algorithm.download
        pairs, counts = download(answer.pairs), download(answer.counts)
        if problem := check_array("counts", counts, (2,), np.int32):
            return problem
        found, lost = counts.tolist()
        if lost:
            return f"{lost} pairs found no room: raise the parameter capacity"
        room = len(pairs) if pairs.ndim == 2 else 0
        if not 0 <= found <= room:
            return f"{found} pairs, but pairs has shape {pairs.shape}"
        if problem := check_array("pairs", pairs, (room, 2), np.int32):
            return problem
        first, second = pairs[:found].astype(np.int64).T
        for name, column, size in (
            ("first", first, self.sizes[0]),
            ("second", second, self.sizes[1]),
        ):
            if problem := check_range(f"the {name} of pair ", column, 0, size):
                return problem
        keys = np.sort(first * self.sizes[1] + second)
        if (k := first_true(keys[1:] == keys[:-1])) is not None:
            return f"pair {self._name(int(keys[k]))} occurs twice"
        if (missing := first_absent(self.must, keys[~np.isin(keys, self.may)])) is not None:
            return f"pair {self._name(missing)} is missing; {len(self.must)} must be there"
        extra = keys[~np.isin(keys, self.must) & ~np.isin(keys, self.may)]
        if len(extra):
            return f"{len(extra)} pairs do not meet, {self._name(int(extra[0]))} for one"
        return None

    def _name(self, key: int) -> str:
        return str(divmod(key, self.sizes[1]))
