"""Products of a sparse matrix of 1x3 blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.sparse_product.axes import Matrices

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.sparse_product.inputs import MatrixSet

STANDS_ON = ("particles",)


class SparseProductProblem(Problem):
    """Assemble a matrix of 1x3 blocks, multiply it by a vector, or its transpose."""

    name = "sparse-product"
    takes = Matrices

    def oracle(self, inputs: MatrixSet, exact: bool = False) -> Oracle:
        """Return products in float64 with the bound of their rounding."""
        from gpubench.problems.sparse_product.oracle import SparseProductOracle

        return SparseProductOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return matrices of particles, and given ones of every shape."""
        from gpubench.problems.sparse_product.cases import matrices

        return matrices()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.sparse_product.cases import large_matrices

        return large_matrices()
