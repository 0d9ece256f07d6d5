"""Test inputs of products with matrices of 1x3 blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.core.algorithm import Algorithm
from gpubench.core.arrays import exclusive_sum
from gpubench.core.case import Case
from gpubench.core.grid import Grid
from gpubench.core.problem import Sample
from gpubench.problems.particles.axes import ORDERS
from gpubench.problems.particles.inputs import from_positions, make
from gpubench.problems.sparse_product.inputs import BlockRows, MatrixSet, of_particles, of_rows


def matrices() -> list[Case]:
    """Return cases of given matrices with various row lengths, and of matrices of particles."""
    return [*_lengths(), *_columns(), *_antisymmetric(), *_not_finite(), *_particles()]


def matrix_of_lengths(
    lengths: ArrayLike, seed: int = 0, column: Callable[[int], NDArray[np.int64]] | None = None
) -> MatrixSet:
    """Draw a matrix whose rows have these lengths.

    column: returns the columns of a given number of blocks; by default random, with repeats.
    """
    rng = np.random.default_rng(seed)
    counts = np.asarray(lengths, np.int64)
    start = exclusive_sum(counts)
    entries, rows = int(start[-1]), len(counts)
    columns = column(entries) if column else rng.integers(0, max(1, rows), entries)
    given = BlockRows(
        start,
        np.asarray(columns, np.int32),
        rng.uniform(-1, 1, (entries, 3)).astype(np.float32),
        rng.uniform(-1, 1, (rows, 3)).astype(np.float32),
    )
    made = of_rows(given, seed=seed)
    made.vector[:, 3] = np.nan  # must not be read
    return made


def antisymmetric_matrix(rows: int, pairs: int, seed: int = 0) -> MatrixSet:
    """Draw a matrix with B_ji = -B_ij; a pair may occur several times."""
    rng = np.random.default_rng(seed)
    i = rng.integers(0, rows, pairs)
    j = (i + rng.integers(1, max(2, rows), pairs)) % rows
    blocks = rng.uniform(-1, 1, (pairs, 3)).astype(np.float32)
    row, column = np.concatenate((i, j)), np.concatenate((j, i))
    order = np.argsort(row, kind="stable")
    both = np.concatenate((blocks, -blocks))[order]
    start = exclusive_sum(np.bincount(row, minlength=rows))
    diagonal = rng.uniform(-1, 1, (rows, 3)).astype(np.float32)
    given = BlockRows(start, column[order].astype(np.int32), both, diagonal)
    return of_rows(given, antisymmetric=True, seed=seed)


def _lengths() -> list[Case]:
    n = 300
    rng = np.random.default_rng(3)
    place = np.arange(n)
    patterns = {
        "no rows": np.zeros(0),
        "one row, empty": np.zeros(1),
        "one row, its own column": np.ones(1),
        "empty rows": np.zeros(n),
        "one block a row": np.ones(n),
        "the first row full": n * (place == 0),
        "the last row full": n * (place == n - 1),
        "a full row among empty ones": n * (place == 77),
        "a full row among short ones": np.where(place == 150, n, 2),
        "one longest row": np.where(place == 31, 41, 40),
        "every other row empty": 5 * (place % 2),
        "rows of 0 to 299": place,
        "rows of 299 to 0": place[::-1],
        "a row in 32 is long": np.where(place % 32 == 31, 60, 1),
        "more blocks in a row than rows": np.where(place == 5, 3 * n, 0),
        "rows of any length": rng.integers(0, 40, n),
        "few long rows": (rng.pareto(1, n) * 3).astype(np.int64).clip(0, 200),
    }
    sizes = (31, 32, 33, 255, 256, 257, 511, 513)
    return [
        *(Case(name, partial(matrix_of_lengths, lengths)) for name, lengths in patterns.items()),
        *(Case(f"rows of {k}", partial(matrix_of_lengths, np.full(40, k))) for k in range(2, 10)),
        *(
            Case(f"{rows} rows", partial(matrix_of_lengths, rng.integers(0, 9, rows), rows))
            for rows in sizes
        ),
    ]


def _columns() -> list[Case]:
    lengths = np.full(280, 6)
    columns: dict[str, Callable[[int], NDArray[np.int64]]] = {
        "the first column alone": lambda n: np.zeros(n, np.int64),
        "the last column alone": lambda n: np.full(n, 279),
        "columns at both ends": lambda n: 279 * (np.arange(n) % 2),
        "a column six times in a row": lambda n: np.arange(n) // 6,
        "falling columns": lambda n: 279 - np.arange(n) % 280,
        "columns far away": lambda n: (np.arange(n) // 6 + 140) % 280,
    }
    return [
        Case(name, partial(matrix_of_lengths, lengths, 1, column))
        for name, column in columns.items()
    ]


def _antisymmetric() -> list[Case]:
    return [
        Case(f"antisymmetric, {n} rows, {pairs} pairs", partial(antisymmetric_matrix, n, pairs, n))
        for n, pairs in ((2, 1), (2, 5), (33, 100), (257, 3000), (700, 900))
    ]


def _not_finite() -> list[Case]:
    """Return cases with NaN and infinity, which must reach only the rows that use them."""
    values = {"NaN": np.nan, "infinity": np.inf, "-infinity": -np.inf, "-0": -0.0}
    return [
        Case(f"{name} in {where}", partial(_spoiled, value, where))
        for name, value in values.items()
        for where in ("the vectors", "a block", "the diagonal")
    ]


def _spoiled(value: float, where: str) -> MatrixSet:
    made = antisymmetric_matrix(290, 700, 4)
    assert made.given is not None
    blocks, diagonal = made.given.blocks.copy(), made.given.diagonal.copy()
    if where == "the vectors":
        made.vector[[3, 288], [0, 2]] = value
        made.numbers[[3, 288]] = value
        return made
    if where == "the diagonal":
        diagonal[[0, 289], [1, 2]] = value
    else:
        blocks[[0, -1], [0, 2]] = value
    # If only one block of a pair is NaN or infinity, the matrix is no longer antisymmetric.
    given = replace(made.given, blocks=blocks, diagonal=diagonal)
    return replace(made, given=given, antisymmetric=where == "the diagonal")


def _particles() -> list[Case]:
    def box(edge: int) -> Grid:
        return Grid((edge,) * 3, (0.0,) * 3, (float(edge),) * 3)

    def drawn(
        particles: int, grid: Grid, where: str = "uniform", order: str = "random", seed: int = 0
    ) -> Callable[[], MatrixSet]:
        return lambda: of_particles(make(particles, grid, where, order, seed), seed)

    def at(*points: tuple[float, float, float]) -> Callable[[], MatrixSet]:
        return lambda: of_particles(from_positions(np.asarray(points), box(4)))

    flat = Grid((1, 37, 2), (-1.0, 0.0, 0.0), (2.0, 40.0, 1.0))
    return [
        Case("no particles", drawn(0, box(2))),
        Case("one particle", drawn(1, box(2))),
        Case("two particles, far apart", at((0.5, 0.5, 0.5), (3.5, 3.5, 3.5))),
        Case("two particles, near", at((1.5, 1.5, 1.5), (2.25, 1.5, 1.5))),
        Case("two particles, at the cutoff", at((1.0, 1.5, 1.5), (2.0, 1.5, 1.5))),
        Case("all in one cell", drawn(300, box(3), "one-cell")),
        Case("two at each place", drawn(400, box(4), "coincident")),
        Case("clusters", drawn(1500, box(9), "clusters", "cell")),
        Case("free surface", drawn(1500, box(8), "free-surface", "cell")),
        Case("long cells, few of them", drawn(700, flat, "uniform", "cell")),
        Case("more than the stretches hold", drawn(3000, box(3), "uniform", "cell")),
        *(Case(f"{order} order", drawn(2000, box(8), "uniform", order)) for order in ORDERS),
        *(Case(f"random, seed {s}", drawn(777, box(5), "lattice", seed=s)) for s in range(3)),
    ]


def large_matrices() -> list[Case]:
    """Return a case with more than 2^24 rows."""
    cells = Grid.with_count(2**24)
    return [Case("2^24 + 1 rows", lambda: of_particles(make(2**24 + 1, cells)))]


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield matrices built from particles, and others given directly, with rows of many lengths."""
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    for size in (0, 1, 150):
        yield of_particles(make(size, box, order="cell")), {}
    yield of_particles(make(30, box, "one-cell")), {}
    yield antisymmetric_matrix(3, 9), {}
    yield antisymmetric_matrix(40, 60), {}
    if not form.startswith("transpose"):
        yield matrix_of_lengths([0, 40, 0, 3, *range(30)]), {}


def blanks(size: int) -> Iterator[MatrixSet]:
    """Yield matrices of few particles, since compiled kernels do not depend on the number."""
    for cells in ((3, 4, 5), (64, 64, 64)):
        grid = Grid(cells, (0.0,) * 3, (float(cells[0]), float(cells[1]), float(cells[2])))
        yield of_particles(make(1000, grid, "one-cell"))
