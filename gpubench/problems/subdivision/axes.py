"""The input axes of meshes to subdivide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from gpubench.base.errors import UserError
from gpubench.core.recipe import Recipe, Words, among, axis, whole

DEEPEST = 6
MAX_TRIANGLES = 2**31 - 1
SURFACES = ("icosphere", "torus", "flipped-sphere")
MAX_FACES = 2**26
MOST_FOCAL = 10**6


@dataclass(frozen=True)
class Surfaces(Recipe):
    """A closed mesh, its number of subdivisions, and a camera; see inputs.make_loop_mesh.

    focal: the camera's focal length in pixels; None for 1000. A longer one enlarges the picture.
    """

    kind, size_axis, named_by = "surfaces", "faces", "surface"
    fixed: ClassVar = {"surface": "torus", "depth": 1}

    surface: str = axis(Words("Surface", "surface", "{}"), among(SURFACES))
    faces: int = axis(
        Words("Triangles", "triangles of the mesh", "{} triangles", "size", is_size=True),
        whole(1, MAX_FACES),
    )
    depth: int = axis(
        Words("Depth", "levels of subdivision", "depth {}", "number", is_size=True),
        whole(1, DEEPEST),
    )
    focal: int | None = axis(
        Words(
            "Focal length",
            "focal length in pixels",
            "focal length {} pixels",
            "number",
            tells_each=True,
        ),
        whole(1, MOST_FOCAL),
        None,
    )

    def __post_init__(self) -> None:
        check_faces(self.surface, self.faces)
        check_depth(self.faces, self.depth)

    @property
    def title(self) -> str:
        """A title with the shape, the size, the depth, and any focal length given."""
        seen = "" if self.focal is None else f", focal length {self.focal:,} pixels"
        return f"{self.surface}, {self.faces:,} triangles, depth {self.depth}{seen}"

    @property
    def host_bytes(self) -> int:
        """The bytes of neighbourhoods, and of the last level's mesh and edges in float64."""
        return int(self.faces * (1 + 4**self.depth) * 400)

    @property
    def device_bytes(self) -> int:
        """The bytes of the last level's corners, and of the level before with neighbourhoods."""
        return int(self.faces * 4**self.depth * (48 + 192 // 4))


def check_depth(faces: int, depth: int) -> None:
    """Raise UserError for a depth outside 1 to 6, or more triangles than can be numbered."""
    if not 1 <= depth <= DEEPEST:
        raise UserError(f"a mesh is subdivided 1 to {DEEPEST} times, not {depth}")
    if faces * 4**depth > MAX_TRIANGLES:
        raise UserError(
            f"{faces} triangles subdivided {depth} times are {faces * 4**depth}: at most"
            f" {MAX_TRIANGLES}"
        )


def check_faces(surface: str, faces: int) -> None:
    """Raise UserError for an unknown surface, or an impossible number of faces."""
    if surface not in SURFACES:
        raise UserError(f"no surface {surface!r}: one of {', '.join(SURFACES)}")
    if surface == "torus":
        n = math.isqrt(max(0, faces) // 4)
        if n < 3 or 4 * n * n != faces or faces > MAX_FACES:
            raise UserError(f"a torus has 4 n^2 faces, n at least 3, such as 4096, not {faces}")
    elif faces not in [20 * 4**level for level in range(11)]:
        raise UserError(f"a sphere has 20 4^level faces, such as 20, 320 or 5120, not {faces}")
