"""Closed meshes for Loop subdivision: random shapes, and each triangle's neighbourhood."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.problems.subdivision.axes import Surfaces, check_faces

Faces = NDArray[np.int64]

JITTER = 0.05  # maximum relative change of the distance from the centre, or of the tube's radius
TUBE = 0.4  # radius of a torus's tube; the radius of its ring is 1
FOCAL_PIXELS, EYE = 1000, 3.0
# By valence of A: the indices of AB, AAB, AAC, AC in the ring x0 = B, x1, ..., C around A.
SLOTS = np.array([[0] * 4] * 3 + [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 2, 3], [1, 2, 3, 4]])


def default_view(focal: int = FOCAL_PIXELS) -> NDArray[np.float32]:
    """Return a camera three units from the origin that looks along y; see LoopMesh.view."""
    view = np.zeros((3, 4), np.float32)
    view[0, 0] = view[1, 2] = focal
    view[2] = 0, 1, 0, EYE
    return view


@dataclass(frozen=True, eq=False)
class LoopMesh:
    """A closed, oriented mesh whose vertices have valence 3 to 6.

    vertices: float32, shape (n, 3). faces: int64, shape (faces, 3), counter-clockwise.
    depth: number of subdivisions, 1 to 6.
    view: float32, (3, 4), a camera matrix; its product with (x, y, z, 1) is (s d, t d, d), where s
        and t are screen coordinates in pixels, and d is the distance in front of the camera.
    """

    vertices: NDArray[np.float32]
    faces: Faces
    depth: int
    seed: int | None = None
    view: NDArray[np.float32] = field(default_factory=default_view)

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for this mesh."""
        return {"faces": len(self.faces), "depth": self.depth}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over mesh, depth and camera, first 16 hex digits."""
        digest = hashlib.sha256(str(self.depth).encode())
        for array in (self.vertices, self.faces, self.view):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    @cached_property
    def triangles(self) -> NDArray[np.float32]:
        """Each triangle with its neighbourhood, float32, shape (12, faces, 4); w is 0.

        A, B, C, AB, AAB, AAC, AC, ACC, BCC, BC, BBC, ABB, see kernels/loop_subdivision.cu.
        """
        faces = self.faces
        key, third = directed_edges(faces)
        valence = np.bincount(faces.ravel())
        slots = []
        for corner, first in ((0, 1), (2, 0), (1, 2)):
            about, ring = faces[:, corner], [faces[:, first]]
            for _ in range(4):
                ring.append(third[np.searchsorted(key, ring[-1] << 32 | about)])
            slots.append(np.take_along_axis(np.stack(ring, 1), SLOTS[valence[about]], 1))
        a, c, b = slots
        planes = np.concatenate((faces, a, c[:, 1:], b[:, 1:3]), axis=1).T
        found = np.zeros((*planes.shape, 4), np.float32)
        found[..., :3] = self.vertices[planes] + np.float32(0)  # turns -0.0 into 0.0
        return found


def directed_edges(faces: Faces) -> tuple[Faces, Faces]:
    """Return all directed edges u << 32 | v, sorted, and the third vertex of each one's face."""
    key = np.concatenate([faces[:, i] << 32 | faces[:, (i + 1) % 3] for i in range(3)])
    third = np.concatenate([faces[:, (i + 2) % 3] for i in range(3)])
    order = np.argsort(key)
    return key[order], third[order]


def twins(faces: Faces) -> Faces:
    """Return the half-edges opposite ab, bc, ca of each face; edge e of face f is 4 f + e."""
    start, end = faces, np.roll(faces, -1, axis=1)
    key = (start << 32 | end).ravel()
    order = np.argsort(key)
    half = order[np.searchsorted(key[order], (end << 32 | start).ravel())]
    return (half // 3 * 4 + half % 3).reshape(-1, 3)


def loop_mesh(
    vertices: NDArray[Any], faces: NDArray[Any], depth: int, seed: int | None = None
) -> LoopMesh:
    """Validate a mesh: vertices (n, 3), real numbers; faces (m, 3), vertex indices.

    Raises UserError for other shapes, non-finite values, boundaries, edges of more than two
    triangles, valences outside 3 to 6, edges of zero length, and double edges.
    """
    points, corners = np.asarray(vertices, np.float32), np.asarray(faces, np.int64)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise UserError("vertices of a mesh are finite numbers of shape (vertices, 3)")
    if corners.ndim != 2 or corners.shape[1] != 3 or not len(corners):
        raise UserError("faces of a mesh are vertex numbers of shape (triangles, 3)")
    if corners.min() < 0 or corners.max() >= len(points):
        raise UserError(f"a face names a vertex outside 0 to {len(points) - 1}")
    key, _ = directed_edges(corners)
    start, end = key >> 32, key & 0xFFFFFFFF
    if (points[start] == points[end]).all(axis=1).any():
        raise UserError("an edge of the mesh has no length: merge its ends")
    if (key[1:] == key[:-1]).any():
        edge = int(np.argmax(key[1:] == key[:-1]))
        raise UserError(
            f"edge {start[edge]}-{end[edge]} belongs to more than two triangles, or two that are"
            " oriented differently: subdivision needs a manifold, oriented mesh"
        )
    if not np.array_equal(np.sort(end << 32 | start), key):
        lone = np.setdiff1d(key, end << 32 | start)[0]
        raise UserError(
            f"edge {lone >> 32}-{lone & 0xFFFFFFFF} is a boundary: subdivision needs a closed mesh"
        )
    valence = np.bincount(start, minlength=len(points))
    if len(bad := np.flatnonzero((valence < 3) | (valence > 6))):
        raise UserError(
            f"vertex {bad[0]} has valence {valence[bad[0]]}: the representation of a triangle"
            " holds neighbourhoods of valence 3 to 6"
        )
    _check_fans(corners, valence)
    return LoopMesh(points, corners, depth, seed)


def _check_fans(faces: Faces, valence: NDArray[np.int64]) -> None:
    """Raise UserError if the triangles of a vertex form more than one fan."""
    key, third = directed_edges(faces)
    about, first = key & 0xFFFFFFFF, key >> 32
    ring, steps = first, np.zeros(len(key), np.int64)
    for step in range(1, 7):
        ring = third[np.searchsorted(key, ring << 32 | about)]
        steps[(ring == first) & (steps == 0)] = step
    if len(bad := np.flatnonzero(steps != valence[about])):
        raise UserError(f"two sheets of the mesh meet at vertex {about[bad[0]]}: separate them")


def make_loop_mesh(surface: str, faces: int, depth: int, seed: int = 0) -> LoopMesh:
    """Draw a mesh around the origin, with points displaced by up to 5 %.

    Surfaces: `icosphere`, an icosahedron split `level` times, 20 * 4^level faces; `flipped-sphere`,
    the same after random edge flips that keep valences 3 to 6; `torus`, a grid of n by 2n quads,
    each cut in two, 4 n^2 faces. Raises UserError for other numbers of faces.
    """
    check_faces(surface, faces)
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng(seed)
    if surface == "torus":
        n = math.isqrt(faces // 4)
        i, j = np.divmod(np.arange(2 * n * n), n)
        u, v = 2 * math.pi * i / (2 * n), 2 * math.pi * j / n
        tube = TUBE * rng.uniform(1 - JITTER, 1 + JITTER, len(i))
        wide = 1 + tube * np.cos(v)
        points = np.stack((wide * np.cos(u), wide * np.sin(u), tube * np.sin(v)), axis=1)
        a, b = i * n + j, (i + 1) % (2 * n) * n + j
        c, d = (i + 1) % (2 * n) * n + (j + 1) % n, i * n + (j + 1) % n
        corners = np.concatenate((np.stack((a, b, c), 1), np.stack((a, c, d), 1)))
        return loop_mesh(points, corners, depth, seed)
    points, corners = _icosahedron()
    if surface == "flipped-sphere":
        corners = _flipped(points, corners, rng)
    while len(corners) < faces:
        points, corners = split_faces(points, corners)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    points = points * rng.uniform(1 - JITTER, 1 + JITTER, (len(points), 1))
    return loop_mesh(points, corners, depth, seed)


def edge_numbers(faces: Faces) -> tuple[Faces, Faces]:
    """Return both ends of each edge, shape (edges, 2), and the edges ab, bc, ca of each face."""
    ends = np.sort(np.stack((faces, np.roll(faces, -1, axis=1)), axis=2).reshape(-1, 2), axis=1)
    edges, inverse = np.unique(ends[:, 0] << 32 | ends[:, 1], return_inverse=True)
    return np.stack((edges >> 32, edges & 0xFFFFFFFF), 1), inverse.reshape(-1, 3)


def split_faces(points: NDArray[Any], faces: Faces) -> tuple[NDArray[Any], Faces]:
    """Split each face into four at the midpoints of its edges; children as in `Subdivision`."""
    edges, of_face = edge_numbers(faces)
    points = np.concatenate((points, points[edges].mean(axis=1)))
    return points, children_of(faces, of_face + points.shape[0] - len(edges))


def children_of(faces: Faces, middles: Faces) -> Faces:
    """Return the children of faces, given the vertices at the middles of ab, bc, ca."""
    a, b, c = faces.T
    ab, bc, ca = middles.T
    found = ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))
    return np.concatenate([np.stack(child, axis=1) for child in found])


def _icosahedron() -> tuple[NDArray[Any], Faces]:
    points = np.zeros((12, 3))
    angle = 2 * math.pi * np.arange(5) / 5
    height, radius = 1 / math.sqrt(5), 2 / math.sqrt(5)
    points[0, 2], points[11, 2] = 1, -1
    for first, turn, z in ((1, 0.0, height), (6, math.pi / 5, -height)):
        points[first : first + 5] = np.stack(
            (radius * np.cos(angle + turn), radius * np.sin(angle + turn), np.full(5, z)), axis=1
        )
    k = np.arange(5)
    top, top_next, low, low_next = 1 + k, 1 + (k + 1) % 5, 6 + k, 6 + (k + 1) % 5
    quads = (
        (0 * k, top, top_next),
        (top, low, top_next),
        (low, low_next, top_next),
        (0 * k + 11, low_next, low),
    )
    return points, np.concatenate([np.stack(quad, axis=1) for quad in quads]).astype(np.int64)


def _flipped(points: NDArray[Any], faces: Faces, rng: np.random.Generator) -> Faces:
    """Flip random edges, unless a valence would leave 3 to 6 or the new edge span the mesh."""
    third = {(int(f[i]), int(f[i - 2])): int(f[i - 1]) for f in faces for i in range(3)}
    for _ in range(4 * len(faces)):
        edges = sorted(third)
        a, b = edges[rng.integers(len(edges))]
        c, d = third[a, b], third[b, a]
        valence = np.bincount([edge[0] for edge in edges])
        is_kept = min(valence[[a, b]]) < 4 or max(valence[[c, d]]) > 5 or (c, d) in third
        if is_kept or points[c] @ points[d] < -0.9:
            continue
        del third[a, b], third[b, a]
        for x, y, z in ((c, d, b), (d, c, a)):  # triangles (c, d, b) and (d, c, a)
            third.update({(x, y): z, (y, z): x, (z, x): y})
    found = {min(((a, b, c), (b, c, a), (c, a, b))) for (a, b), c in third.items()}
    return np.array(sorted(found), np.int64)


def draw(axes: Surfaces, seed: int) -> LoopMesh:
    """Draw the mesh of a recipe."""
    mesh = make_loop_mesh(axes.surface, axes.faces, axes.depth, seed)
    return replace(mesh, view=default_view(axes.focal or FOCAL_PIXELS))
