"""Kinds of input that are triangle meshes; see specs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpubench.core.recipe import Inputs, Recipe, Words, axis
from gpubench.core.subdivision import DEEPEST, check_depth
from gpubench.inputs.loop_meshes import MAX_FACES, SURFACES, check_faces, make_loop_mesh
from gpubench.inputs.meshes import (
    FEWEST_FACES,
    MOST_FACES,
    POSES,
    SHAPES,
    check_meshes,
    make_mesh_pair,
)


@dataclass(frozen=True)
class Surfaces(Recipe):
    """A closed mesh and how often it is subdivided; see inputs.loop_meshes."""

    kind: ClassVar[str] = "surfaces"
    size_axis: ClassVar[str] = "faces"
    named_by: ClassVar[str] = "surface"

    surface: str = axis(
        words=Words("Surface", "surface", "{}"),
        enum=list(SURFACES),
    )
    faces: int = axis(
        words=Words("Triangles", "triangles of the mesh", "{} triangles", "size", is_size=True),
        type="integer",
        minimum=1,
        maximum=MAX_FACES,
    )
    depth: int = axis(
        words=Words("Depth", "levels of subdivision", "depth {}", "number", is_size=True),
        type="integer",
        minimum=1,
        maximum=DEEPEST,
    )

    def __post_init__(self) -> None:
        check_faces(self.surface, self.faces)
        check_depth(self.faces, self.depth)

    def make(self, seed: int) -> Inputs:
        """Draw the mesh."""
        return make_loop_mesh(self.surface, self.faces, self.depth, seed)

    @property
    def title(self) -> str:
        """Shape, size and depth."""
        return f"{self.surface}, {self.faces:,} triangles, depth {self.depth}"

    @property
    def host_bytes(self) -> int:
        """The neighbourhoods, and the mesh of the last level in float64 with its edges."""
        return int(self.faces * (1 + 4**self.depth) * 400)

    @property
    def device_bytes(self) -> int:
        """Corners of the last level, and the level before with its neighbourhoods."""
        return int(self.faces * 4**self.depth * (48 + 192 // 4))


@dataclass(frozen=True)
class Meshes(Recipe):
    """Two triangle meshes that may collide; see inputs.meshes."""

    kind: ClassVar[str] = "meshes"
    size_axis: ClassVar[str] = "faces"
    named_by: ClassVar[str] = "mesh"

    mesh: str = axis(
        words=Words("Meshes", "meshes", "two of {}"),
        enum=list(SHAPES),
    )
    faces: int = axis(
        words=Words("Triangles", "triangles of the mesh", "{} triangles", "size", is_size=True),
        type="integer",
        minimum=FEWEST_FACES,
        maximum=MOST_FACES,
    )
    pose: str = axis(
        words=Words("Pose", "pose", "{}"),
        enum=list(POSES),
    )

    def __post_init__(self) -> None:
        check_meshes(self.mesh, self.faces, self.pose)

    def make(self, seed: int) -> Inputs:
        """Draw the meshes."""
        return make_mesh_pair(self.mesh, self.faces, self.pose, seed)

    @property
    def title(self) -> str:
        """Shape, size and pose."""
        return f"two of {self.mesh}, {self.faces:,} triangles each, {self.pose}"

    @property
    def host_bytes(self) -> int:
        """Triangles and trees, and their moments and projections while a tree is built."""
        return self.faces * 1500

    @property
    def device_bytes(self) -> int:
        """Triangles, and two boxes each."""
        return self.faces * 2 * (36 + 2 * 56)
