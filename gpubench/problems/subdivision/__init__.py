"""Loop subdivision of closed triangle meshes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.subdivision.axes import Surfaces

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.subdivision.inputs import LoopMesh


class SubdivisionProblem(Problem):
    """Subdivide a closed mesh with Loop's rules."""

    name = "surface-subdivision"
    takes = Surfaces

    def oracle(self, inputs: LoopMesh, exact: bool = False) -> Oracle:
        """Return the mesh that an indexed subdivision in float64 gives."""
        from gpubench.problems.subdivision.oracle import SubdivisionOracle

        return SubdivisionOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return closed meshes of every kind and depth."""
        from gpubench.problems.subdivision.cases import surfaces

        return surfaces()
