"""Contract of mesh collision: the input and the answer of algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.algorithm import Algorithm

if TYPE_CHECKING:
    from gpubench.devices.base import Device


@dataclass(frozen=True)
class Collisions:
    """The pairs of triangles that intersect, in any order.

    pairs: int32, shape (at least counts[0], 2): a triangle of the first and one of the second mesh.
    counts: int32, shape (2,): the number of pairs, and of candidates lost beyond the capacity.
    """

    pairs: Any
    counts: Any


class MeshCollision(Algorithm):
    """An algorithm that finds the intersecting pairs of triangles of two rigid meshes.

    faces: the number of triangles of each mesh. levels: the sum of both trees' ObbTree.depth.
    """

    family: ClassVar[str] = "mesh-collision"

    def __init__(
        self,
        device: Device,
        form: str,
        parameters: Mapping[str, int],
        *,
        faces: tuple[int, int],
        levels: int,
    ) -> None:
        super().__init__(device, form, parameters)
        self.faces, self.levels = faces, levels
        self.prepare()

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task, `collide`; a subclass may give forms that build trees another task."""
        return "collide", None
