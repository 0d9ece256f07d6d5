"""Finding the neighbours of particles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.particles.axes import Particles

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.particles.inputs import ParticleSet

STANDS_ON = ("particles",)


class NeighbourSearchProblem(Problem):
    """Find neighbours, from positions on."""

    name = "neighbour-search"
    takes = Particles

    def oracle(self, inputs: ParticleSet, exact: bool = False) -> Oracle:
        """Return the pairs nearer than the cutoff in every state."""
        from gpubench.problems.neighbours.oracle import NeighbourSearchOracle

        return NeighbourSearchOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return particles in every arrangement, at the cutoff, and after moves."""
        from gpubench.problems.neighbours.cases import search_cases

        return search_cases()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.neighbours.cases import large_searches

        return large_searches()


class NeighbourQueryProblem(Problem):
    """Find neighbours in a cell list that is there."""

    name = "neighbour-query"
    takes = Particles
    reads_cells = True

    def oracle(self, inputs: ParticleSet, exact: bool = False) -> Oracle:
        """Return the pairs nearer than the cutoff."""
        from gpubench.problems.neighbours.oracle import NeighbourQueryOracle

        return NeighbourQueryOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return particles in every arrangement, and at the cutoff."""
        from gpubench.problems.neighbours.cases import query_cases

        return query_cases()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.neighbours.cases import large_searches

        return large_searches()


class UnboundedQueryProblem(Problem):
    """Find neighbours in a hash grid that is there."""

    name = "unbounded-query"
    takes = Particles
    reads_cells = True

    def oracle(self, inputs: ParticleSet, exact: bool = False) -> Oracle:
        """Return the pairs nearer than the cutoff, without a box."""
        from gpubench.problems.neighbours.oracle import UnboundedQueryOracle

        return UnboundedQueryOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return worlds that lie anywhere, as wide as float32 has them."""
        from gpubench.problems.neighbours.cases import unbounded_query_cases

        return unbounded_query_cases()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.neighbours.cases import large_unbounded

        return large_unbounded()
