"""Cell grids: shape, periodicity, and the cell of a position; also unbounded and hashed grids.

Cells are numbered x fastest, then y, then z (rozen2008, section 2.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported, UserError
from gpubench.base.threads import over
from gpubench.core.recipe import MAX_PARTICLES

MAX_CELLS = 2**31 - 2
EPSILON = float(np.finfo(np.float32).eps)
# These limits keep squared lengths and 1 / edge well within float32's range.
SMALLEST_CELL, LARGEST_CELL = 1e-15, 1e15

# The layout of `struct Grid` in kernels/common/grid.h: 4-byte members only, so that CUDA,
# OpenCL and NumPy agree on it.
GRID_DTYPE = np.dtype(
    [
        ("low", np.float32, 3),
        ("size", np.float32, 3),
        ("inverse_cell", np.float32, 3),
        ("cells", np.int32, 3),
        ("periodic", np.int32, 3),
    ]
)

# The layout of `struct UnboundedGrid` in kernels/common/hash.h.
UNBOUNDED_DTYPE = np.dtype(
    [("cell", np.float32, 3), ("inverse_cell", np.float32, 3), ("mask", np.uint32)]
)
CELL_REACH = 2**22  # cells from the origin to the last cell, in each direction
HASH_PRIMES = (73856093, 19349663, 83492791)  # silva2012, section 5
MAX_BUCKETS = 2**30


@dataclass(frozen=True)
class Grid:
    """A box divided into equal cells.

    cells: number of cells along x, y, z.
    low, size: corner and edge lengths of the box, in the unit of the positions.
    periodic: whether the box repeats along each axis.
    cutoff: the neighbour cutoff, if shorter than the cells; None to use the shortest cell edge.
        See `reach`.
    shortest: the shortest radius, if particles have radii of their own, up to `reach`.
    """

    cells: tuple[int, int, int]
    low: tuple[float, float, float]
    size: tuple[float, float, float]
    periodic: tuple[bool, bool, bool] = (False, False, False)
    cutoff: float | None = None
    shortest: float | None = None
    most: ClassVar[int] = MAX_CELLS

    def __post_init__(self) -> None:
        if any(n < 1 for n in self.cells):
            raise UserError(f"a grid needs at least one cell along each axis, not {self.cells}")
        if not all(math.isfinite(v) for v in (*self.low, *self.size)) or min(self.size) <= 0:
            raise UserError(
                f"a box needs finite corners and positive edges, not {self.low} and {self.size}"
            )
        if self.count > self.most:
            raise UserError(f"{self.count} cells are too many, at most {self.most}: enlarge them")
        for low, edge, cell in zip(self.low, self.size, self.cell_size, strict=True):
            least = max(4 * EPSILON * max(abs(low), abs(low + edge)), SMALLEST_CELL)
            if not least <= cell <= LARGEST_CELL:
                raise UserError(
                    f"float32 positions cannot resolve cells of {cell:g} in a box from {low:g} to"
                    f" {low + edge:g}: make cells {least:g} to {LARGEST_CELL:g} long"
                )

    @classmethod
    def in_box(
        cls,
        low: tuple[float, float, float],
        size: tuple[float, float, float],
        cell_size: float,
        periodic: tuple[bool, bool, bool] = (False, False, False),
    ) -> Grid:
        """Divide a box into as many cells as possible that are at least `cell_size` long."""
        if not (math.isfinite(cell_size) and cell_size > 0):
            raise UserError(f"the cell size must be positive and finite, not {cell_size}")
        if not all(0 < edge / cell_size < MAX_CELLS for edge in size):
            raise UserError(
                f"a box of {size} cannot be cut into cells of {cell_size}: at most {MAX_CELLS}"
                " cells, and every edge positive"
            )
        # With the tolerance, an edge of 10 * 0.1 gets ten cells despite rounding.
        nx, ny, nz = (max(1, math.floor(edge / cell_size * (1 + 1e-6))) for edge in size)
        return cls((nx, ny, nz), low, size, periodic)

    @classmethod
    def with_count(
        cls, count: int, periodic: tuple[bool, bool, bool] = (False, False, False)
    ) -> Grid:
        """Make a grid of exactly `count` unit cells, as close to a cube as possible."""
        if count < 1:
            raise UserError(f"a grid needs at least one cell, not {count}")
        if count > MAX_CELLS:
            raise UserError(f"{count} cells are too many, at most {MAX_CELLS}: enlarge them")
        cells = _balanced_factors(count)
        low = (0.0, 0.0, 0.0)
        size = (float(cells[0]), float(cells[1]), float(cells[2]))
        return cls(cells, low, size, periodic)

    def centred(self) -> Grid:
        """Return the same grid with the centre of its box at the origin."""
        lx, ly, lz = self.size
        return replace(self, low=(-lx / 2, -ly / 2, -lz / 2))

    @property
    def count(self) -> int:
        """Number of cells."""
        nx, ny, nz = self.cells
        return nx * ny * nz

    @property
    def cell_size(self) -> tuple[float, float, float]:
        """Edge lengths of one cell."""
        (lx, ly, lz), (nx, ny, nz) = self.size, self.cells
        return lx / nx, ly / ny, lz / nz

    @property
    def reach(self) -> float:
        """The neighbour cutoff, in the unit of the positions."""
        return min(self.cell_size) if self.cutoff is None else self.cutoff

    def packed(self) -> NDArray[np.void]:
        """Return the grid as an array with one element of GRID_DTYPE, for the kernels."""
        packed = np.zeros(1, GRID_DTYPE)
        packed["low"], packed["size"] = self.low, self.size
        packed["inverse_cell"] = np.float32(1) / np.asarray(self.cell_size, np.float32)
        packed["cells"], packed["periodic"] = self.cells, self.periodic
        return packed

    def coordinates(self, positions: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the integer cell coordinates of positions, int32, shape (particles, 3).

        Same float32 arithmetic as the kernels (kernels/common/grid.h): subtract, multiply, floor,
        clamp. The caller must wrap positions into the box, so that the clamp affects only positions
        at the upper wall or rounded up to it.
        """
        packed = self.packed()[0]
        inside = np.empty((len(positions), 3), np.int32)

        def part(begin: int, end: int) -> None:
            scaled = (positions[begin:end, :3] - packed["low"]) * packed["inverse_cell"]
            whole = np.floor(scaled).astype(np.int32)
            np.clip(whole, 0, packed["cells"] - 1, out=inside[begin:end])

        over(len(positions), part)
        return inside

    def cell_ids(self, positions: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the cell of each position, int32, shape (particles,)."""
        x, y, z = self.coordinates(positions).T
        nx, ny, _ = self.cells
        ids: NDArray[np.int32] = (z * np.int32(ny) + y) * np.int32(nx) + x
        return ids


class HashedGrid(Grid):
    """A grid whose cells are hashed, so their number is practically unlimited; may be periodic."""

    most = 2**96


@dataclass(frozen=True)
class UnboundedGrid:
    """Equal cells without a box: every position has a cell (silva2012, section 5).

    cell_size: edge lengths of a cell, in the unit of the positions.
    """

    cell_size: tuple[float, float, float]

    @classmethod
    def of(cls, grid: Grid) -> UnboundedGrid:
        """Keep the cell size of a grid and drop its box; raise NotSupported if it is periodic."""
        if any(grid.periodic) and not isinstance(grid, HashedGrid):
            raise NotSupported("a hash grid has no box that could repeat: leave every axis open")
        return cls(grid.cell_size)

    def packed(self, buckets: int = 1) -> NDArray[np.void]:
        """Return the cells as an array with one element of UNBOUNDED_DTYPE, for the kernels."""
        packed = np.zeros(1, UNBOUNDED_DTYPE)
        packed["cell"] = self.cell_size
        packed["inverse_cell"] = np.float32(1) / packed["cell"]
        packed["mask"] = buckets - 1
        return packed

    def coordinates(self, positions: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the integer cell coordinates of finite positions, int32, shape (particles, 3).

        floor(position / cell size), without rounding error for float32 positions. Positions beyond
        CELL_REACH cells from the origin are clamped to the outermost cell.
        """
        edges = self.packed()["cell"][0].astype(np.float64)
        xyz = positions[:, :3].astype(np.float64)
        # The quotient may round up to an integer; integer multiples of the edge are exact.
        cells = np.clip(np.floor(xyz / edges), -CELL_REACH, CELL_REACH)
        cells -= cells * edges > xyz
        cells += (cells + 1) * edges <= xyz
        limited: NDArray[np.int32] = np.clip(cells, -CELL_REACH, CELL_REACH).astype(np.int32)
        return limited


def edges_of(box: NDArray[np.float64]) -> tuple[float, float, float] | None:
    """Return the edges of a box along x, y and z; None if it is triclinic or rotated.

    box: shape (3, 3), box vectors as rows or columns. Off-diagonal elements below float32's
    precision, relative to the longest edge, count as 0.
    """
    x, y, z = np.diagonal(box).tolist()
    off = np.abs(box - np.diag([x, y, z])).max()
    return (x, y, z) if off <= EPSILON / 2 * np.abs([x, y, z]).max() else None


def hash_buckets(coordinates: NDArray[np.int32], buckets: int) -> NDArray[np.int32]:
    """Return the bucket of each cell, int32, shape (cells,) (silva2012, Algorithm 1).

    coordinates: int32, shape (cells, 3). For a hash that depends on the bounds of the particles,
    subtract the lowest coordinate along each axis first.
    """
    products = coordinates.astype(np.uint32) * np.array(HASH_PRIMES, np.uint32)
    hashes: NDArray[np.uint32] = np.bitwise_xor.reduce(products, axis=1)
    found: NDArray[np.int32] = (hashes % np.uint32(buckets)).astype(np.int32)
    return found


def _balanced_factors(count: int) -> tuple[int, int, int]:
    """Return three factors of count, largest first, with the smallest sum."""

    def split(number: int) -> tuple[int, int]:
        low = next(d for d in range(math.isqrt(number), 0, -1) if number % d == 0)
        return low, number // low

    best = (count, 1, 1)
    for first in range(1, round(count ** (1 / 3)) + 2):
        if count % first == 0:
            low, high = split(count // first)
            best = min(best, (high, low, first), key=lambda f: (sum(f), f))
    a, b, c = sorted(best, reverse=True)
    return a, b, c


def grid_for(
    particles: int, per_cell: float, periodic: tuple[bool, bool, bool] = (False, False, False)
) -> Grid:
    """Make a grid with exactly `per_cell` particles per cell on average.

    Raises UserError if that needs a fractional number of cells or a box far from a cube.
    """
    if not 0 <= particles <= MAX_PARTICLES:
        raise UserError(f"the number of particles must be 0 to {MAX_PARTICLES}, not {particles}")
    if not 0 < per_cell <= MAX_PARTICLES:
        raise UserError(
            f"the number of particles per cell must be above 0 and at most {MAX_PARTICLES},"
            f" not {per_cell}"
        )
    count = particles / per_cell
    if count > MAX_CELLS:
        raise UserError(
            f"{particles} particles at {per_cell} per cell need {count:g} cells:"
            f" at most {MAX_CELLS}, so put more particles in a cell"
        )
    if count != int(count) or count < 1:
        step = max(1, Fraction(per_cell).limit_denominator(1000).numerator)
        raise UserError(
            f"{particles} particles at {per_cell} per cell need {count:g} cells, which is not a"
            f" whole number: try {max(step, round(particles / step) * step)} particles"
        )
    grid = Grid.with_count(int(count), periodic)
    if max(grid.cells) > 8 * max(2, min(grid.cells)) and count > 64:
        raise UserError(
            f"{int(count)} cells only fit a box of {grid.cells}, too long for a fair test: choose"
            " a number of particles whose number of cells has small factors, such as a power of two"
        )
    return grid
