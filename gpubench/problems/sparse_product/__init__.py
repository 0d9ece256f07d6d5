"""Products of a sparse matrix of 1x3 blocks."""

from gpubench.core.problem import Problem
from gpubench.problems.sparse_product.axes import Matrices

STANDS_ON = ("particles",)


class SparseProductProblem(Problem):
    """Assemble a matrix of 1x3 blocks; multiply it, or its transpose, by a vector."""

    name = "sparse-product"
    takes = Matrices
    oracle_name = "SparseProductOracle"
    suite = "matrices"
    large_suite = "large_matrices"
