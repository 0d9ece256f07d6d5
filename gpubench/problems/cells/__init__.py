"""Sorting particles into the cells of a grid."""

from gpubench.core.problem import Problem
from gpubench.problems.particles.axes import Particles

STANDS_ON = ("particles",)


class CellListProblem(Problem):
    """Sort particles into the cells of a grid."""

    name = "cell-list"
    takes = Particles
    makes_cells = True
    oracle_name = "CellListOracle"
    suite = "cell_list_cases"
    large_suite = "large_cell_lists"


class CellListUpdateProblem(Problem):
    """Update a cell list after particles have moved."""

    name = "cell-list-update"
    takes = Particles
    makes_cells = True
    oracle_name = "CellListUpdateOracle"
    suite = "update_cases"
    samples_name = "moved_samples"
    large_suite = "large_updates"


class HashGridProblem(Problem):
    """Sort the particles of an unbounded world by the hash of their cell."""

    name = "hash-grid"
    takes = Particles
    makes_cells = True
    oracle_name = "HashGridOracle"
    suite = "hash_grid_cases"
    samples_name = "unbounded_samples"
    large_suite = "large_worlds"
