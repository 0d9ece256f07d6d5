"""Test inputs of forces between particles."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpubench.core.case import Case
from gpubench.core.grid import Grid
from gpubench.problems.particles.cases import PERIODIC, cube, given_positions
from gpubench.problems.particles.cases import blanks as blanks
from gpubench.problems.particles.cases import samples as samples
from gpubench.problems.particles.inputs import make


def force_cases() -> list[Case]:
    """Return few particles, many in reach, and pairs across walls; lists have a suite of their own."""
    slab = Grid((12, 5, 7), (-6.0, 100.0, -0.5), (9.0, 4.0, 3.5), (True, False, True))
    torus = cube(4, PERIODIC)
    across = [[0.25, 2.0, 2.0], [3.75, 2.0, 2.0], [3.25, 0.1, 2.0], [3.25, 3.9, 2.0]]
    return [
        Case("empty", partial(make, 0, cube(4))),
        Case("one particle", partial(make, 1, cube(4))),
        Case("two particles", given_positions(cube(4), [[1.0, 1.5, 1.5], [1.5, 1.5, 1.25]])),
        Case("a pair at the cutoff", given_positions(cube(4), [[1.0, 1.5, 1.5], [2.0, 1.5, 1.5]])),
        Case("pairs across periodic walls", given_positions(torus, across)),
        Case("all at one point", given_positions(torus, np.full((70, 3), 1.25))),
        Case("all in one cell", partial(make, 300, torus, "one-cell")),
        Case("three periodic cells", partial(make, 500, cube(3, PERIODIC))),
        Case("periodic along x and z", partial(make, 1500, slab)),
        Case("clusters", partial(make, 1500, cube(9), "clusters", "morton")),
        Case("16 per cell", partial(make, 3459, cube(6, PERIODIC), "lattice")),
        Case("one per cell", partial(make, 3000, cube(14, PERIODIC))),
    ]
