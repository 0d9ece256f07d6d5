"""Products of a sparse matrix of 1x3 blocks."""

from typing import ClassVar

from gpubench.core.problem import Problem
from gpubench.problems.sparse_product.axes import Matrices

STANDS_ON = ("particles",)


class SparseProductProblem(Problem):
    """Assemble a matrix of 1x3 blocks, multiply it by a vector, or its transpose."""

    name = "sparse-product"
    takes = Matrices
    varied: ClassVar = {"order": ["cell", "random"]}
    fixed: ClassVar = {"matrix": "density-gradient", "per_cell": 8, "distribution": "uniform"}
    oracle_name = "SparseProductOracle"
    suite = "matrices"
    large_suite = "large_matrices"
