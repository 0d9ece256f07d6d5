"""Two rigid triangle meshes that may collide: random or given shapes and poses."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.problems.collision.axes import MOST_FACES, Meshes, check_meshes
from gpubench.problems.collision.obb_tree import ObbTree, obb_tree

Floats = NDArray[np.float64]

BUMPS = 0.05  # height of the bumps on a surface of radius 1
TUBE = 0.35  # radius of a torus's tube; the outer radius is 1
APART, INTO = 3.0, 0.01  # distance of centres if `apart`; overlap of extreme points if `touching`
DEEP = {"sphere": 1.5, "torus": 0.5, "height-field": 0.1, "soup": 0.5}  # distance if `deep`
THINNEST = 1e-7  # minimum ratio of twice a triangle's area to its longest edge squared


@dataclass(frozen=True, eq=False)
class MeshPair:
    """Triangles of two meshes, and the pose of the second.

    first, second: float32, shape (n, 3 corners, 3), each mesh in its own coordinates.
    pose: float32, shape (3, 4): rotation and translation from the second mesh's coordinates to the
        first's: pose[:, :3] @ x + pose[:, 3].
    """

    first: NDArray[np.float32]
    second: NDArray[np.float32]
    pose: NDArray[np.float32]
    seed: int | None = None

    @cached_property
    def trees(self) -> tuple[ObbTree, ObbTree]:
        """The trees of both meshes."""
        return obb_tree(self.first), obb_tree(self.second)

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for these meshes."""
        faces = len(self.first), len(self.second)
        return {"faces": faces, "levels": sum(tree.depth for tree in self.trees)}

    @cached_property
    def placed(self) -> Floats:
        """The triangles of the second mesh in the coordinates of the first, float64."""
        return place(self.second, self.pose)

    @cached_property
    def largest(self) -> float:
        """An upper bound of all absolute coordinates, before and after the pose is applied."""
        reach = 3 * np.abs(self.second).max() + np.abs(self.pose[:, 3]).max()
        return float(max(np.abs(self.first).max(), reach))

    @cached_property
    def hash(self) -> str:
        """SHA-256 over both meshes and the pose, first 16 hex digits."""
        digest = hashlib.sha256(f"{len(self.first)}".encode())
        for array in (self.first, self.second, self.pose):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def place(triangles: NDArray[Any], pose: NDArray[Any]) -> Floats:
    """Return the triangles transformed by a pose, float64."""
    exact = np.asarray(pose, np.float64)
    placed: Floats = np.asarray(triangles, np.float64) @ exact[:, :3].T + exact[:, 3]
    return placed


def mesh_pair(
    first: NDArray[Any], second: NDArray[Any], pose: NDArray[Any], seed: int | None = None
) -> MeshPair:
    """Validate two meshes, each of shape (n, 3, 3), and a pose, and return them as a MeshPair.

    Raises UserError for other shapes, no or too many triangles, non-finite values, coordinates over
    1e9, degenerate triangles, and a pose whose matrix is not a rotation.
    """
    meshes = []
    for name, given in (("first", first), ("second", second)):
        triangles = np.ascontiguousarray(given, np.float32)
        if triangles.ndim != 3 or triangles.shape[1:] != (3, 3) or not len(triangles):
            raise UserError(f"the {name} mesh needs triangles, of shape (n, 3 corners, 3)")
        if len(triangles) > MOST_FACES:
            raise UserError(f"the {name} mesh has {len(triangles)} triangles: at most {MOST_FACES}")
        if not np.isfinite(triangles).all() or np.abs(triangles).max() > 1e9:
            raise UserError(f"the {name} mesh has a coordinate that is not finite, or over 1e9")
        edges = np.roll(triangles, -1, axis=1).astype(np.float64) - triangles
        longest = (edges**2).sum(axis=2).max(axis=1)
        normals = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
        if len(bad := np.flatnonzero(~(normals > THINNEST * longest))):
            raise UserError(f"triangle {bad[0]} of the {name} mesh has no area: leave it out")
        meshes.append(triangles)
    placing = np.ascontiguousarray(pose, np.float32)
    if placing.shape != (3, 4) or not np.isfinite(placing).all():
        raise UserError("a pose is a rotation and a translation: finite, of shape (3, 4)")
    turn = placing[:, :3].astype(np.float64)
    if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-5 or np.linalg.det(turn) < 0:
        raise UserError("the first three columns of a pose must be a rotation")
    return MeshPair(meshes[0], meshes[1], placing, seed)


def make_mesh_pair(shape: str, faces: int, pose: str, seed: int = 0) -> MeshPair:
    """Draw two meshes of a shape, about as wide as a ball of radius 1; turn and place the second.

    Shapes: `sphere` and `torus`, closed, with smooth bumps; `height-field`, hills over a square;
    `soup`, random triangles in a cube, about as large as the distance between them.
    Poses: `apart`; `touching`, the second's lowest corner 0.01 below the first's highest; `deep`,
    overlapping (spheres by half a radius). Raises UserError for unknown names.
    """
    check_meshes(shape, faces, pose)
    rng = np.random.default_rng(seed)
    first, second = (_shape(shape, faces, rng).astype(np.float32) for _ in range(2))
    placing = np.zeros((3, 4), np.float32)
    placing[:, :3] = _rotation(rng)
    if pose == "touching":
        turned = place(second, placing).reshape(-1, 3)
        top = first.reshape(-1, 3)[first[..., 2].argmax()]
        placing[:, 3] = top - turned[turned[:, 2].argmin()] - (0, 0, INTO)
    else:
        placing[2, 3] = APART if pose == "apart" else DEEP[shape]
    return mesh_pair(first, second, placing, seed)


def _rotation(rng: np.random.Generator) -> Floats:
    """Draw a uniformly random rotation (from a random quaternion)."""
    w, x, y, z = (q := rng.normal(size=4)) / np.linalg.norm(q)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


def _shape(shape: str, faces: int, rng: np.random.Generator) -> Floats:
    """Draw the triangles of a shape, float64, shape (faces, 3, 3)."""
    if shape == "soup":
        centres = rng.uniform(-0.5, 0.5, (faces, 1, 3))
        soup: Floats = centres + rng.normal(scale=faces ** (-1 / 3) / 2, size=(faces, 3, 3))
        return soup
    halvings = faces.bit_length() - 2
    n, m = 2 ** (halvings // 2), 2 ** (halvings - halvings // 2)
    u, v = np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, m + 1), indexing="ij")
    points = {"sphere": _sphere, "torus": _torus, "height-field": _hills}[shape](u, v, rng)
    a, b, c, d = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    halves = (np.stack((a, b, c), axis=2), np.stack((a, c, d), axis=2))
    found: Floats = np.stack(halves, axis=2).reshape(faces, 3, 3)
    return found


def _bumps(points: Floats, rng: np.random.Generator) -> Floats:
    """Return smooth random heights, -BUMPS to BUMPS, at points of shape (..., 3)."""
    waves, phases = rng.normal(scale=3, size=(6, 3)), rng.uniform(0, 2 * math.pi, 6)
    found: Floats = BUMPS * np.sin(points @ waves.T + phases).mean(axis=-1)
    return found


def _sphere(u: Floats, v: Floats, rng: np.random.Generator) -> Floats:
    """Map the unit square to an octahedron, and project that to a sphere with bumps."""
    x, y = 2 * u - 1, 2 * v - 1
    z = 1 - np.abs(x) - np.abs(y)
    folded_x = np.where(z < 0, (1 - np.abs(y)) * np.sign(x), x)
    folded_y = np.where(z < 0, (1 - np.abs(x)) * np.sign(y), y)
    points = np.stack((folded_x, folded_y, z), axis=-1)
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    found: Floats = points * (1 + _bumps(points, rng))[..., None]
    return found


def _torus(u: Floats, v: Floats, rng: np.random.Generator) -> Floats:
    u, v = 2 * math.pi * u, 2 * math.pi * v
    on_ring = np.stack((np.cos(u), np.sin(u), 0 * u), axis=-1)
    out = np.cos(v)[..., None] * on_ring
    out[..., 2] += np.sin(v)
    tube = TUBE * (1 + _bumps(on_ring + out, rng))
    found: Floats = (1 - TUBE) * on_ring + tube[..., None] * out
    return found


def _hills(u: Floats, v: Floats, rng: np.random.Generator) -> Floats:
    points = np.stack((1.4 * u - 0.7, 1.4 * v - 0.7, 0 * u), axis=-1)
    points[..., 2] = 4 * _bumps(points, rng)
    return points


def draw(axes: Meshes, seed: int) -> MeshPair:
    """Draw the meshes of a recipe."""
    return make_mesh_pair(axes.mesh, axes.faces, axes.pose, seed)
