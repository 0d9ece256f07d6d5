"""Loop subdivision of closed triangle meshes."""

from gpubench.core.problem import Problem
from gpubench.problems.subdivision.axes import Surfaces


class SubdivisionProblem(Problem):
    """Subdivide a closed mesh with Loop's rules."""

    name = "surface-subdivision"
    takes = Surfaces
    oracle_name = "SubdivisionOracle"
    suite = "surfaces"
