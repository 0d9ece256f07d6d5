"""Loop subdivision of closed triangle meshes."""

from typing import ClassVar

from gpubench.core.problem import Problem
from gpubench.problems.subdivision.axes import Surfaces


class SubdivisionProblem(Problem):
    """Subdivide a closed mesh with Loop's rules."""

    name = "surface-subdivision"
    takes = Surfaces
    fixed: ClassVar = {"surface": "torus", "depth": 1}
    oracle_name = "SubdivisionOracle"
    suite = "surfaces"
