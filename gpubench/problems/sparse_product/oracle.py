"""The oracle of products with matrices of 1x3 blocks: SciPy's CSR, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from gpubench.core.arrays import check_array, check_range, exclusive_sum, first_true
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.particles.inputs import ParticleSet
from gpubench.problems.sparse_product.contract import Assembled, Ids, Product
from gpubench.problems.sparse_product.inputs import BlockRows, MatrixSet

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Download = Callable[[object], NDArray[Any]]

ROUNDING = 2.0**-24
MOST_ROWS, MOST_ENTRIES = 2**15, 2**21  # maximum numbers compared; larger inputs are sampled


class SparseProductOracle(Oracle):
    """Check all rows of small matrices and products, and a sample of rows of large ones.

    A sample consists of the first and last rows, rows of the fullest cells, and random rows; all
    other rows of a product must be finite.

    The error bound of a row follows from its absolute sum: with u = 2^-24, a sum of n terms is off
    by at most n u times the sum of absolute values (Higham 2002, section 3.1), and a block of
    particles by at most 32 u |d| (|s| + 32 u), where s = 1 - |d|^2.

    which: int64, the checked rows. exact: whether blocks were given, and must stay bitwise equal.
    """

    def __init__(self, inputs: MatrixSet, exact: bool = False) -> None:
        self.rows, self.exact = inputs.rows, inputs.given is not None
        self.vector = inputs.vector[:, :3].astype(np.float64)
        self.numbers = inputs.numbers.astype(np.float64)
        self.particles = inputs.particles
        if inputs.given is not None:
            self.which = np.arange(self.rows)
            self.matrix = _in_double(inputs.given)
            self.slack = np.zeros_like(self.matrix.blocks)
            self.diagonal_slack = np.zeros_like(self.matrix.diagonal)
        else:
            assert inputs.particles is not None
            self.which = _sample(inputs.particles)
            self.matrix, self.slack = _of_particles(inputs.particles, self.which)
            absolute = np.abs(self.matrix.blocks) * ROUNDING
            counts = np.diff(self.matrix.start)
            self.diagonal_slack = _row_sums(self.matrix, self.slack)
            self.diagonal_slack += (counts[:, None] + 2) * _row_sums(self.matrix, absolute)

    def check(self, algorithm: Any) -> str | None:
        """Check the answer to the algorithm's task."""
        if algorithm.task == "assemble":
            return self.check_matrix(self.answer_of(algorithm, Assembled), algorithm.download)
        answer = self.answer_of(algorithm, Product)
        return self.check_product(algorithm.task, answer, algorithm.download)

    def check_product(self, task: str, answer: Product, download: Download) -> str | None:
        """Check a product: the matrix, or its transpose, times the vector."""
        is_product = task == "product"
        values = download(answer.values)
        shape = (self.rows,) if is_product else (self.rows, *values.shape[1:])
        if problem := check_array("values", values, shape, np.float32):
            return problem
        if not is_product and shape[1:] not in ((3,), (4,)):
            return f"values has shape {values.shape}, expected ({self.rows}, 3 or 4)"
        found = (values[:, None] if is_product else values[:, :3]).astype(np.float64)
        if not self.exact and (i := _first_row(~np.isfinite(found))) is not None:
            return f"row {i} is {found[i].tolist()}, expected finite numbers"
        with np.errstate(invalid="ignore", over="ignore"):
            expected, bound = self._product() if is_product else self._transposed()
            found = found[self.which]
            # NaN and infinity must occur in the same places as in the reference.
            same = (found == expected) | (np.isnan(found) & np.isnan(expected))
            wrong = ~(same | (np.isfinite(expected) & (np.abs(found - expected) <= bound)))
        if (k := _first_row(wrong)) is not None:
            return (
                f"row {self.which[k]} is {found[k].tolist()}, expected {expected[k].tolist()}"
                f" to within {bound[k].tolist()}"
            )
        return None

    def _product(self) -> tuple[Floats, Floats]:
        """Return the product y of checked rows and its error bound, float64, shape (rows, 1)."""
        matrix, vector = self.matrix, self.vector.ravel()
        own = self.vector[self.which]
        exact = self._csr(matrix.blocks) @ vector + (matrix.diagonal * own).sum(axis=1)
        size = self._csr(np.abs(matrix.blocks)) @ np.abs(vector)
        size += (np.abs(matrix.diagonal) * np.abs(own)).sum(axis=1)
        slack = self._csr(self.slack) @ np.abs(vector)
        slack += (self.diagonal_slack * np.abs(own)).sum(axis=1)
        terms = 3 * (np.diff(matrix.start) + 1) + 4
        return exact[:, None], (terms * ROUNDING * size + slack)[:, None]

    def _transposed(self) -> tuple[Floats, Floats]:
        """Return the transposed product u and its error bound, float64, shape (rows, 3).

        If all rows are checked, the matrix is transposed; for a sample, blocks are negated, since
        matrices of particles are antisymmetric.
        """
        matrix, numbers = self.matrix, self.numbers
        own = numbers[self.which][:, None]
        if len(self.which) == self.rows:

            def turned(blocks: Floats, values: Floats) -> Floats:
                product: Floats = self._csr(blocks).T @ values
                return product.reshape(-1, 3)
        else:

            def turned(blocks: Floats, values: Floats) -> Floats:
                return _row_sums(matrix, -blocks * values[matrix.columns][:, None])

        exact = turned(matrix.blocks, numbers) + matrix.diagonal * own
        size = np.abs(turned(np.abs(matrix.blocks), np.abs(numbers)))
        size += np.abs(matrix.diagonal * own)
        slack = np.abs(turned(self.slack, np.abs(numbers))) + self.diagonal_slack * np.abs(own)
        terms = np.diff(matrix.start)[:, None] + 5
        return exact, terms * ROUNDING * size + slack

    def _csr(self, blocks: Floats) -> csr_array:
        """Return the blocks as a scalar CSR matrix."""
        columns = 3 * self.matrix.columns[:, None] + np.arange(3)
        shape = (len(self.which), 3 * self.rows)
        return csr_array((blocks.ravel(), columns.ravel(), 3 * self.matrix.start), shape=shape)

    def check_matrix(self, answer: Assembled, download: Download) -> str | None:
        """Compare an assembled matrix with the reference; a row's blocks may be in any order."""
        lengths, columns = download(answer.lengths), download(answer.columns)
        problem = (
            check_array("lengths", lengths, (self.rows,), np.int32)
            or check_range("lengths", lengths, 0, len(columns) + 1)
            or check_array("columns", columns, columns.shape[:1], np.int32)
        )
        if problem:
            return problem
        if lengths.sum(dtype=np.int64) > len(columns):
            return f"{lengths.sum(dtype=np.int64)} blocks in {len(columns)} places"
        start = exclusive_sum(lengths[self.which])
        i = np.repeat(self.which, lengths[self.which])
        k = np.arange(len(i)) - np.repeat(start[:-1], lengths[self.which])
        at = answer.place(i, k, download(answer.start))
        if (bad := first_true((at < 0) | (at >= len(columns)))) is not None:
            return f"block {k[bad]} of row {i[bad]} is at place {at[bad]} of {len(columns)}"
        stored = (download(array) for array in (answer.blocks, answer.diagonal))
        blocks, diagonal = (a.T if answer.planes else a[:, :3] for a in stored)
        found = BlockRows(start, columns[at], blocks[at], diagonal[self.which])
        if problem := check_range("columns", found.columns, 0, self.rows):
            return problem
        return self._compare(found)

    def _compare(self, found: BlockRows) -> str | None:
        """Compare rows: bit for bit if blocks are given, else within the error bound."""
        if self.exact:
            return _first_difference(self.matrix, found)
        near = np.abs(found.diagonal - self.matrix.diagonal) <= self.diagonal_slack
        if (k := _first_row(~near)) is not None:
            return (
                f"the diagonal of row {self.which[k]} is {found.diagonal[k].tolist()}, expected"
                f" {self.matrix.diagonal[k].tolist()}"
            )
        # Pairs within rounding of the cutoff may be missing: their blocks are nearly zero.
        floor = (32 * ROUNDING) ** 2
        keys = [
            np.repeat(np.arange(len(self.which)), np.diff(m.start)) * self.rows + m.columns
            for m in (self.matrix, found)
        ]
        every, place = np.unique(np.concatenate(keys), return_inverse=True)
        expected, values, slack = np.zeros((3, len(every), 3))
        times = np.bincount(place[len(keys[0]) :], minlength=len(every))
        if (k := first_true(times > 1)) is not None:
            row, column = divmod(int(every[k]), self.rows)
            return f"row {self.which[row]} has column {column} {times[k]} times"
        expected[place[: len(keys[0])]] = self.matrix.blocks
        slack[place[: len(keys[0])]] = self.slack
        values[place[len(keys[0]) :]] = found.blocks
        if (k := _first_row(~(np.abs(values - expected) <= slack + floor))) is not None:
            row, column = divmod(int(every[k]), self.rows)
            return (
                f"block ({self.which[row]}, {column}) is {values[k].tolist()}, expected"
                f" {expected[k].tolist()}"
            )
        return None


def _in_double(given: BlockRows) -> BlockRows:
    columns, start = given.columns.astype(np.int64), given.start.astype(np.int64)
    blocks, diagonal = (np.asarray(a, np.float64)[:, :3] for a in (given.blocks, given.diagonal))
    return BlockRows(start, columns, blocks, diagonal)


def _sample(particles: ParticleSet) -> Ids:
    """Return the rows to compare, sorted: all, or the sample described in `SparseProductOracle`."""
    rows = particles.particles
    picked = np.arange(rows)
    if rows > MOST_ROWS:
        rng = np.random.default_rng(rows)
        counts = np.bincount(particles.cell_of, minlength=particles.grid.count)
        some = np.arange(MOST_ROWS // 8)
        fullest = np.argsort(-counts[particles.cell_of], kind="stable")[some]
        anywhere = rng.integers(0, rows, MOST_ROWS // 2)
        picked = np.unique(np.concatenate([some, rows - 1 - some, fullest, anywhere]))
    if not rows:
        return picked
    cutoff = min(particles.grid.cell_size)
    tree = cKDTree(particles.positions[:, :3])
    near = tree.query_ball_point(particles.positions[picked, :3], cutoff, return_length=True)
    # Take every k-th row, and the last, to limit the number of entries compared.
    step = 1 + int(np.sum(near)) // MOST_ENTRIES
    return np.unique(np.concatenate([picked[::step], picked[-1:]]))


def _of_particles(particles: ParticleSet, which: Ids) -> tuple[BlockRows, Floats]:
    """Return some rows of the matrix defined in inputs.py, and the error bound of each block."""
    xyz = particles.positions[:, :3].astype(np.float64)
    cutoff = min(particles.grid.cell_size)
    near = cKDTree(xyz).query_ball_point(xyz[which], cutoff) if len(which) else []
    start = exclusive_sum(np.array([len(row) for row in near], np.int64))
    columns = np.fromiter((j for row in near for j in row), np.int64, int(start[-1]))
    row = np.repeat(np.arange(len(which)), np.diff(start))
    other = columns != which[row]
    columns, row = columns[other], row[other]
    d = (xyz[which][row] - xyz[columns]) / cutoff
    s = 1 - (d**2).sum(axis=1, keepdims=True)
    slack = 32 * ROUNDING * np.abs(d) * (np.abs(s) + 32 * ROUNDING)
    counts = np.bincount(row, minlength=len(which))
    rows = BlockRows(exclusive_sum(counts), columns, d * s**2, np.empty(0))
    diagonal = -_row_sums(rows, rows.blocks)
    return BlockRows(rows.start, columns, rows.blocks, diagonal), slack


def _row_sums(matrix: BlockRows, blocks: Floats) -> Floats:
    """Return the sums of blocks in each row, float64, shape (rows, 3)."""
    ones = np.ones(len(blocks)), np.arange(len(blocks)), matrix.start
    sums: Floats = csr_array(ones, shape=(len(matrix.start) - 1, len(blocks))) @ blocks
    return sums


def _first_row(wrong: Bools) -> int | None:
    """Return the first row with a true element, for an array of shape (rows, components)."""
    return first_true(np.asarray(wrong.any(axis=1)))


def _first_difference(expected: BlockRows, found: BlockRows) -> str | None:
    """Compare rows bit for bit; a row's blocks may be in any order."""
    if (i := first_true(np.diff(found.start) != np.diff(expected.start))) is not None:
        lengths = (int(np.diff(m.start)[i]) for m in (found, expected))
        return "row {} has {} blocks, expected {}".format(i, *lengths)
    given, answered = _sorted_rows(expected), _sorted_rows(found)
    if (k := _first_row(given != answered)) is not None:
        return f"row {int(given[k, 0])} holds other blocks than were given, or in other columns"
    own, answered_own = (np.ascontiguousarray(m.diagonal, np.float32) for m in (expected, found))
    if (i := _first_row(own.view(np.uint32) != answered_own.view(np.uint32))) is not None:
        return f"the diagonal of row {i} is {found.diagonal[i].tolist()}"
    return None


def _sorted_rows(matrix: BlockRows) -> NDArray[np.int64]:
    """Return row, column and bits of each block, sorted by all of them."""
    row = np.repeat(np.arange(len(matrix.start) - 1), np.diff(matrix.start))
    bits = np.ascontiguousarray(matrix.blocks, np.float32).view(np.uint32)
    lines = np.column_stack((row, matrix.columns, bits)).astype(np.int64)
    return lines[np.lexsort(lines.T[::-1])]
