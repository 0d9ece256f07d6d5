"""Collision of two triangle meshes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.collision.axes import Meshes

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.collision.inputs import MeshPair

STANDS_ON = ("particles",)


class MeshCollisionProblem(Problem):
    """Find the pairs of triangles of two meshes that intersect."""

    name = "mesh-collision"
    takes = Meshes

    def oracle(self, inputs: MeshPair, exact: bool = False) -> Oracle:
        """Return the pairs in float64, with a tolerance around contact."""
        from gpubench.problems.collision.oracle import MeshCollisionOracle

        return MeshCollisionOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return meshes in every pose, degenerate ones among them."""
        from gpubench.problems.collision.cases import meshes

        return meshes()
