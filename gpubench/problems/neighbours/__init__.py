"""The problems of finding the neighbours of particles."""

from gpubench.core.problem import Problem
from gpubench.problems.particles.axes import Particles

STANDS_ON = ("particles",)


class NeighbourSearchProblem(Problem):
    """Find neighbours, starting from positions."""

    name = "neighbour-search"
    takes = Particles
    oracle_name = "NeighbourSearchOracle"
    suite = "search_cases"
    large_suite = "large_searches"
    samples_name = "search_samples"


class NeighbourQueryProblem(Problem):
    """Find neighbours in a given cell list."""

    name = "neighbour-query"
    takes = Particles
    reads_cells = True
    oracle_name = "NeighbourQueryOracle"
    suite = "query_cases"


class UnboundedQueryProblem(Problem):
    """Find neighbours in a given hash grid."""

    name = "unbounded-query"
    takes = Particles
    reads_cells = True
    oracle_name = "UnboundedQueryOracle"
    suite = "unbounded_query_cases"
    samples_name = "unbounded_samples"
