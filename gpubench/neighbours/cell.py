"""Cells that repeat along any vectors: reading them, reducing them, and their frame of reference.

A cell is searched in a frame in which the vectors of the reduced cell are the rows of a lower
triangular matrix, and open axes come last; see kernels/periodic_images.cu.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.arguments import shown, without_gradient
from gpubench.base.errors import UserError
from gpubench.core.grid import edges_of
from gpubench.neighbours.box import SearchBox, Triple, box_of, three

FLAT = 2.0**-40  # an edge of the brick below this part of the longest vector counts as 0
MOST_TILT = 2**20  # multiples of a given vector in a reduced one
STEPS = 2**24  # of a box along an axis, which float32 holds
LEAST_STEPS = 8  # of the shortest edge of the brick
SLACK = 2.0**-19  # part of the box; more than the rounding of positions and shifts to steps
MOST_ENTRIES = 2**31 - 1  # particles and images

# The layout of `struct Frame` in kernels/periodic_images.cu.
FRAME_DTYPE = np.dtype(
    [
        *((name, np.float64, 3) for name in ("low", "bound")),
        *((name, np.float64, 9) for name in ("turn", "lattice", "steps", "whole")),
        *((name, np.float64, 3) for name in ("start", "extent")),
        *((name, np.float64) for name in ("step", "per_step")),
    ]
)

Matrix = tuple[Triple, Triple, Triple]


@dataclass(frozen=True)
class Cell:
    """A cell that repeats along those of its vectors that are not 0.

    vectors: rows of the matrix, in the unit of the positions; 0 along open axes. low: the lower
    corner. bound: the edges of open axes that are bounded; negative for all others.
    """

    vectors: Matrix
    low: Triple
    bound: Triple

    @cached_property
    def repeats(self) -> list[int]:
        """The axes that repeat."""
        return [axis for axis in range(3) if any(self.vectors[axis])]

    @cached_property
    def whole(self) -> NDArray[np.int64]:
        """The reduced vectors, as multiples of all three given ones: int64, shape (axes, 3)."""
        whole = np.zeros((len(self.repeats), 3), np.int64)
        if self.repeats:
            whole[:, self.repeats] = _reduced(np.array(self.vectors)[self.repeats])
        return whole

    @cached_property
    def turned(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The axes of the frame, as columns; and the reduced vectors in it, 0 along open axes."""
        vectors, lattice = self.whole @ np.array(self.vectors), np.zeros((3, 3))
        if not self.repeats:
            return np.eye(3), lattice
        turn, upper = np.linalg.qr(vectors.T, mode="complete")
        signs = np.ones(3)
        signs[: len(vectors)] = np.where(np.diagonal(upper) < 0, -1.0, 1.0)
        lattice[: len(vectors)] = (upper * signs[:, None]).T
        return turn * signs, lattice

    @cached_property
    def dual(self) -> NDArray[np.float64]:
        """Columns, whose product with a position is its fraction of each reduced vector."""
        return np.linalg.pinv(self._whole() @ np.array(self.vectors), rcond=FLAT / 2)

    @property
    def matrices(self) -> NDArray[np.float64]:
        """The vectors, `dual`, and the reduced vectors as multiples of the given: (3, 3, 3)."""
        return np.array((self.vectors, self.dual, self._whole()), np.float64)

    def _whole(self) -> NDArray[np.int64]:
        """Return `whole` with rows of zeros along open axes."""
        return np.pad(self.whole, ((0, 3 - len(self.whole)), (0, 0)))

    @property
    def edges(self) -> NDArray[np.float64]:
        """The edges of the brick in which each particle has one image; 0 along open axes."""
        return np.diagonal(self.turned[1])

    def region(self, reach: float) -> SearchBox:
        """Return the box of the particles and their images within `reach` of the brick.

        Open axes have no edges.
        """
        margin = reach + SLACK * max(self.edges + 2 * reach)
        start, size = np.full(3, -margin), self.edges + 2 * margin
        (a, b, c), (x, y, z) = np.where(self.edges, (start, size), 0.0).tolist()
        return SearchBox((a, b, c), (x, y, z), (False, False, False))

    def images(self, particles: int, region: SearchBox) -> int:
        """Return how many images uniform particles have in a box.

        Raises UserError if these, or the steps of a short edge, are too many for the search.
        """
        edges, size = self.edges[self.edges > 0], np.array(region.size)[self.edges > 0]
        expected = particles * (math.prod((size / edges).tolist()) - 1)
        if particles + 1.5 * expected >= MOST_ENTRIES:
            raise UserError(
                f"the cutoff and skin reach {max(size / edges) / 2:.3g} times an edge of the"
                f" reduced cell: {particles:,} particles would have {expected:.3g} images, and at"
                f" most {MOST_ENTRIES:,} can be searched: take a shorter cutoff"
            )
        if min(edges, default=math.inf) < LEAST_STEPS * step_of(region):
            raise UserError(
                f"particles and images extend over {max(region.size):.3g}, more than"
                f" {STEPS // LEAST_STEPS:,} times an edge of the reduced cell, {min(edges):.3g}:"
                " take a shorter cutoff, or remove what is far away"
            )
        images: int = math.ceil(expected)
        return images

    def packed(self, region: SearchBox) -> NDArray[np.void]:
        """Return the frame of a box, as an array with one element of FRAME_DTYPE."""
        packed, (turn, lattice) = np.zeros(1, FRAME_DTYPE), self.turned
        step = region.given_step or step_of(region)
        packed["low"], packed["bound"] = self.low, self.bound
        packed["turn"], packed["whole"] = turn.ravel(), self._whole().ravel()
        packed["lattice"], packed["steps"] = lattice.ravel(), lattice.ravel() / step
        packed["start"], packed["extent"] = region.low, np.floor(np.array(region.size) / step)
        packed["step"], packed["per_step"] = step, 1 / step
        return packed


Space = SearchBox | Cell | None  # what is searched; None: open space


def step_of(region: SearchBox) -> float:
    """Return the step of coordinates in a box: a power of two."""
    return 2.0 ** math.ceil(math.log2(max(region.size) / (STEPS - 1)))


def rounding_of(region: SearchBox, reach: float) -> float:
    """Return the same as `SearchBox.rounding`, for particles and their images.

    Along an axis, half a step for each of two coordinates, and of the shifts by three vectors.
    """
    return 2.5 * math.sqrt(3) * step_of(region) + 2.0**-22 * reach


def deformed(before: Space, after: Space) -> tuple[NDArray[np.float64], float]:
    """Return the matrix that turns the vectors of a space into those of another.

    And how many times as far at most two points are apart before, of one distance after: infinite
    if the two do not correspond. Directions across all vectors stay as they are.
    """
    (old, axes), (new, others) = map(_repeating, (before, after))
    if type(before) is not type(after) or axes != others:
        return np.eye(3), math.inf
    change: NDArray[np.float64] = np.eye(3) + np.linalg.pinv(old) @ (new - old)
    least = float(np.linalg.svd(change, compute_uv=False).min())
    return change, 1 / least if least > FLAT else math.inf


def _repeating(space: Space) -> tuple[NDArray[np.float64], list[int]]:
    """Return the vectors along which a space repeats, and their axes."""
    if isinstance(space, Cell):
        return np.array(space.vectors)[space.repeats], space.repeats
    axes = [axis for axis in range(3) if space is not None and space.periodic[axis]]
    return np.diag(space.size if space is not None else np.zeros(3))[axes], axes


def space_of(box: Any, low: Any, periodic: Any, reach: float) -> Space:
    """Return what a user describes: an orthogonal box, another cell, or None for open space.

    box: three edges, or a 3x3 matrix whose rows are vectors; those that are 0 are open. A box is
    returned if its periodic axes hold `reach` three times; axes without bounds have the size 0.
    Raises UserError for anything else.
    """
    without_gradient("the box", box)
    matrix: NDArray[Any] = np.zeros(0)  # `box_of` refuses, in its words, what is no matrix
    with suppress(TypeError, ValueError):
        if (given := np.asarray(box)).dtype.kind in "iuf":
            matrix = given.astype(np.float64)
    if not (matrix.shape == (3, 3) or (matrix.shape == (3,) and (matrix >= 0).all())):
        return box_of(box, low, periodic)
    if not np.isfinite(matrix).all():
        raise UserError(f"the box takes finite vectors, not {shown(box)}")
    edges = edges_of(matrix) if matrix.ndim == 2 else tuple(matrix.tolist())
    is_orthogonal = False
    if edges is not None and min(edges) >= 0:
        is_orthogonal, matrix = True, np.diag(np.array(edges))
    repeats = three("periodic", periodic, bool, "True, False, or three of them")
    repeats = matrix.any(axis=1) & repeats
    bound = np.where(repeats | (not is_orthogonal), 0.0, np.diagonal(matrix))
    if not repeats.any() and not bound.any():
        return None
    corner: Triple = three("low", low, float, "three finite coordinates")
    if is_orthogonal:
        x, y, z = np.diagonal(matrix).tolist()
        own = SearchBox(corner, (x, y, z), tuple(repeats.tolist()))
        return own if own.is_long(reach) else images_of(own)
    return _cell(np.where(repeats[:, None], matrix, 0.0), corner, np.where(bound > 0, bound, -1.0))


def images_of(box: SearchBox) -> Cell:
    """Return a box as a cell, which is searched with images."""
    repeats, edges = np.array(box.periodic), np.array(box.size)
    bound = np.where(~repeats & (edges > 0), edges, -1.0)
    return _cell(np.diag(np.where(repeats, edges, 0.0)), box.low, bound)


def _cell(matrix: NDArray[np.float64], low: Triple, bound: NDArray[np.float64]) -> Cell:
    """Return the cell with these vectors, shape (3, 3), of which those that are 0 are open.

    Raises UserError if the others are dependent, or too much tilted for float64.
    """
    (a, b, c), (x, y, z) = map(tuple, matrix.tolist()), bound.tolist()
    cell = Cell((a, b, c), low, (x, y, z))
    lengths = np.abs(matrix).max(axis=1)[cell.repeats]
    if not 1e-100 <= min(lengths) <= max(lengths) <= 1e100:
        raise UserError("the vectors of the cell are too long or too short: take another unit")
    if min(cell.edges[: len(lengths)]) <= FLAT * max(lengths):
        raise dependent("the cell")
    if (abs(cell.whole) > MOST_TILT).any():
        raise UserError(
            f"the cell is tilted by over {MOST_TILT:,} times a vector: give reduced vectors"
        )
    return cell


def dependent(cell: str) -> UserError:
    """Return the error of a cell whose vectors are dependent."""
    return UserError(
        f"the vectors of {cell} along its periodic axes lie in a plane or on a line (determinant"
        " 0): open an axis with periodic, or correct the vectors"
    )


def _reduced(vectors: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return multiples of one to three vectors that span the same lattice and are short.

    Greedy reduction (Nguyen and Stehle 2009): from the longest vector, the nearest point of the
    lattice of the others is subtracted, until it stays the longest.
    """
    whole, scaled = np.eye(len(vectors), dtype=np.int64), vectors / np.abs(vectors).max()
    while True:
        lengths = np.linalg.norm(whole @ scaled, axis=1)
        whole = whole[np.argsort(lengths, kind="stable")]
        if min(lengths) <= FLAT or np.abs(whole).max() > 4 * MOST_TILT:
            return whole  # which `_cell` refuses
        for k in range(1, len(whole)):
            shorter, own = (whole[:k] @ scaled), whole[k] @ scaled
            near = np.rint(np.linalg.lstsq(shorter.T, own, rcond=None)[0])
            around = near + np.array(list(itertools.product((-1, 0, 1), repeat=k)))
            left = np.linalg.norm(own - around @ shorter, axis=1)
            if left.min() < (1 - 1e-9) * np.linalg.norm(own):
                whole[k] -= around[left.argmin()].astype(np.int64) @ whole[:k]
                break
        else:
            return whole
