"""Test inputs of forces between particles."""

from __future__ import annotations

from functools import partial

from gpubench.core.case import Case
from gpubench.problems.neighbours.cases import query_cases
from gpubench.problems.particles.cases import PERIODIC, cube
from gpubench.problems.particles.cases import blanks as blanks
from gpubench.problems.particles.cases import samples as samples
from gpubench.problems.particles.inputs import make


def force_cases() -> list[Case]:
    """Return the test cases of queries, and particles with 67 neighbours each."""
    return [*query_cases(), Case("16 per cell", partial(make, 3459, cube(6, PERIODIC), "lattice"))]
