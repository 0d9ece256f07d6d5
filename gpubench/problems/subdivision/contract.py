"""Contract of mesh subdivision: the input and the answer of algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.algorithm import Algorithm
from gpubench.problems.subdivision.axes import check_depth

if TYPE_CHECKING:
    from gpubench.devices.base import Device


@dataclass(frozen=True)
class Subdivided:
    """Triangles of a subdivided mesh, without indices.

    corners: float32, shape (3, at least counts[1], 4): the corners A, B, C; in adaptive answers the
        fourth component is the triangle's level, 0 for a triangle of the input.
    counts: int32, shape (3,): counts[1] triangles, and counts[2] more lost beyond the capacity.
    """

    corners: Any
    counts: Any


class Subdivision(Algorithm):
    """An algorithm that subdivides a closed mesh with Loop's rules (Loop 1987).

    The form `uniform` splits every triangle `depth` times. Child j of triangle i among n is
    triangle j n + i of the next level; children of (A, B, C) with the edge points ab, bc, ca are
    (A', ab, ca), (B', bc, ab), (C', ca, bc) and (ab, bc, ca), where A' is A moved by the rules.
    Other forms split a triangle until all its edges are finished, and close gaps in the mesh.
    """

    family: ClassVar[str] = "surface-subdivision"

    def __init__(
        self, device: Device, form: str, parameters: Mapping[str, int], *, faces: int, depth: int
    ) -> None:
        super().__init__(device, form, parameters)
        check_depth(faces, depth)
        self.faces, self.depth = faces, depth
        self.prepare()

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the form as the task, as each criterion for finished edges makes its own mesh."""
        return form, None
