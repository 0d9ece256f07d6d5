"""Lists of neighbours with their images, in cells of any shape."""

from gpubench.core.problem import Problem
from gpubench.problems.images.axes import Systems

STANDS_ON = ("particles",)


class ImageSearchProblem(Problem):
    """List all neighbours and their images, in one periodic system or in many."""

    name = "image-search"
    takes = Systems
    oracle_name = "ImageSearchOracle"
    suite = "systems"
