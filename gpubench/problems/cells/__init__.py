"""Sorting particles into the cells of a grid."""

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


class CellListProblem(Problem):
    """Sort particles into the cells of a grid."""

    name = "cell-list"
    takes = Particles
    makes_cells = True

    def oracle(self, inputs: ParticleSet, exact: bool = False) -> Oracle:
        """Return the particles of each cell."""
        from gpubench.problems.cells.oracle import CellListOracle

        return CellListOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return particles in every arrangement, in few and in many cells."""
        from gpubench.problems.cells.cases import cell_list_cases

        return cell_list_cases()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.cells.cases import large_cell_lists

        return large_cell_lists()


class CellListUpdateProblem(Problem):
    """Bring a cell list up to date after particles have moved."""

    name = "cell-list-update"
    takes = Particles
    makes_cells = True

    def oracle(self, inputs: ParticleSet, exact: bool = False) -> Oracle:
        """Return the particles of each cell in every state."""
        from gpubench.problems.cells.oracle import CellListUpdateOracle

        return CellListUpdateOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return particles of which none, some and all move."""
        from gpubench.problems.cells.cases import update_cases

        return update_cases()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.cells.cases import large_updates

        return large_updates()


class HashGridProblem(Problem):
    """Sort particles of a world without a box by the hash of their cell."""

    name = "hash-grid"
    takes = Particles
    makes_cells = True

    def oracle(self, inputs: ParticleSet, exact: bool = False) -> Oracle:
        """Return the particles of each bucket."""
        from gpubench.problems.cells.oracle import HashGridOracle

        return HashGridOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return worlds that lie anywhere, as wide as float32 has them."""
        from gpubench.problems.cells.cases import hash_grid_cases

        return hash_grid_cases()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.particles.cases import large_worlds

        return large_worlds()
