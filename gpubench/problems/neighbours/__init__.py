"""Finding the neighbours of particles."""

from gpubench.core.problem import Problem
from gpubench.problems.particles.axes import Particles

STANDS_ON = ("particles",)


class NeighbourSearchProblem(Problem):
    """Find neighbours, from positions on."""

    name = "neighbour-search"
    takes = Particles
    oracle_name = "NeighbourSearchOracle"
    suite = "search_cases"
    large_suite = "large_searches"
    samples_name = "search_samples"


class NeighbourQueryProblem(Problem):
    """Find neighbours in a cell list that is there."""

    name = "neighbour-query"
    takes = Particles
    reads_cells = True
    oracle_name = "NeighbourQueryOracle"
    suite = "query_cases"


class UnboundedQueryProblem(Problem):
    """Find neighbours in a hash grid that is there."""

    name = "unbounded-query"
    takes = Particles
    reads_cells = True
    oracle_name = "UnboundedQueryOracle"
    suite = "unbounded_query_cases"
    samples_name = "unbounded_samples"
