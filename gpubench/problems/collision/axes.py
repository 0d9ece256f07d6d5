"""The input axes of pairs of meshes that may collide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpubench.base.errors import UserError
from gpubench.core.recipe import Recipe, Words, among, axis, whole

SHAPES = ("sphere", "torus", "height-field", "soup")
POSES = ("apart", "touching", "deep")
FEWEST_FACES, MOST_FACES = 32, 2**22


@dataclass(frozen=True)
class Meshes(Recipe):
    """Two triangle meshes that may collide; see inputs.make_mesh_pair."""

    kind, size_axis, named_by = "meshes", "faces", "mesh"
    fixed: ClassVar = {"mesh": "sphere", "pose": "deep"}

    mesh: str = axis(Words("Meshes", "meshes", "two of {}"), among(SHAPES))
    faces: int = axis(
        Words("Triangles", "triangles of the mesh", "{} triangles", "size", is_size=True),
        whole(FEWEST_FACES, MOST_FACES),
    )
    pose: str = axis(Words("Pose", "pose", "{}"), among(POSES))

    def __post_init__(self) -> None:
        check_meshes(self.mesh, self.faces, self.pose)

    @property
    def title(self) -> str:
        """A title with the shape, the number of triangles and the pose."""
        return f"two of {self.mesh}, {self.faces:,} triangles each, {self.pose}"

    @property
    def host_bytes(self) -> int:
        """The bytes of triangles and trees, and of temporary arrays for building trees."""
        return self.faces * 1500

    @property
    def device_bytes(self) -> int:
        """The bytes of triangles, and of two boxes per triangle."""
        return self.faces * 2 * (36 + 2 * 56)


def check_meshes(shape: str, faces: int, pose: str) -> None:
    """Raise UserError for a shape, a number of triangles or a pose that does not exist."""
    if shape not in SHAPES:
        raise UserError(f"no shape {shape!r}: one of {', '.join(SHAPES)}")
    if pose not in POSES:
        raise UserError(f"no pose {pose!r}: one of {', '.join(POSES)}")
    if not FEWEST_FACES <= faces <= MOST_FACES or faces & (faces - 1):
        raise UserError(
            f"a mesh has a power of two of triangles, {FEWEST_FACES} to {MOST_FACES}, not {faces}"
        )
