"""The box of a neighbour list: what users may give, and the grid of cells over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.core.grid import Grid, edges_of

CELLS_PER_PARTICLE = 4  # at most: cells may be longer than the cutoff, and empty ones cost time
LEAST_CELLS = 4096  # that are allowed whatever the number of particles
MOST_ALONG = 2**20  # that float32 tells apart
ROUNDING = 2.0**-22  # by which a quotient of the box and the cutoff may fail to be whole

# The layout of `struct Box` in kernels/neighbour_geometry.cu.
BOX_DTYPE = np.dtype([("low", np.float64, 3), ("size", np.float64, 3), ("periodic", np.float64, 3)])

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class SearchBox:
    """An orthogonal box. low, size: corner and edges. periodic: along which axes it repeats."""

    low: Triple
    size: Triple
    periodic: tuple[bool, bool, bool]

    def bound(self, cutoff: float) -> float:
        """Return how far from the cutoff a pair may be taken for one on the other side of it.

        Coordinates are rounded to float32 (2^-24 of an edge for each of two particles and for the
        shift to an image), and so are their differences and the sum of the squares.
        """
        return 2.0**-21 * (math.hypot(*self.size) + cutoff)

    def grid(self, particles: int, reach: float) -> Grid:
        """Cut the box into cells at least `reach` long, not many more of them than particles.

        Raises UserError where an axis repeats after less than three of them, with the least box.
        """
        cells = [max(1, math.floor(edge / reach * (1 + ROUNDING))) for edge in self.size]
        for axis, (count, repeats) in enumerate(zip(cells, self.periodic, strict=True)):
            if repeats and count < 3:
                raise UserError(
                    f"the box repeats along {'xyz'[axis]} after {self.size[axis]:g}, which is less"
                    f" than three times the cutoff and skin: at least {3 * reach:g}, or repeat"
                    " the particles"
                )
        cells = [min(count, MOST_ALONG) for count in cells]
        allowed = max(LEAST_CELLS, CELLS_PER_PARTICLE * particles)
        while (count := math.prod(cells)) > allowed:
            # The longest axis first: cells stay as near to cubes as they can.
            longest = cells.index(max(cells))
            fitting = allowed // (count // cells[longest])
            cells[longest] = max(fitting, -(-cells[longest] // 2))
        nx, ny, nz = cells
        return Grid((nx, ny, nz), (0.0, 0.0, 0.0), self.size, self.periodic)

    def packed(self) -> NDArray[np.void]:
        """Return the box as the kernels read it: one element of BOX_DTYPE."""
        packed = np.zeros(1, BOX_DTYPE)
        packed["low"], packed["size"], packed["periodic"] = self.low, self.size, self.periodic
        return packed


def box_of(edges: Any, low: Sequence[float], periodic: bool | Sequence[bool]) -> SearchBox | None:
    """Return the box that a user describes; None in open space.

    edges: three lengths, a 3x3 matrix of which only the diagonal is not 0 but for rounding, or
    None. Raises UserError for everything else.
    """
    repeats = _three("periodic", periodic, bool, "True, False, or three of them")
    if edges is None and not any(repeats):
        return None
    if edges is None:
        raise UserError("a periodic search needs the edges of its box: box=(lx, ly, lz)")
    with suppress(TypeError, ValueError):
        matrix = np.asarray(edges, np.float64)
        if matrix.shape == (3, 3) and (edges := edges_of(matrix)) is None:
            raise UserError("triclinic boxes are not supported: box takes three edges")
    size = _three("box", edges, float, wanted := "three positive finite edges, or None")
    if min(size) <= 0:
        raise UserError(f"box takes {wanted}, not {edges!r}")
    return SearchBox(_three("low", low, float, "three finite coordinates"), size, repeats)


def box_around(low: NDArray[np.float64], high: NDArray[np.float64], reach: float) -> SearchBox:
    """Return an open box with a margin, so that particles may move and leave the box as it is."""
    margin = np.maximum(0.05 * (high - low), 0.5 * reach)
    a, b, c = map(float, low - margin)
    x, y, z = map(float, high - low + 2 * margin)
    return SearchBox((a, b, c), (x, y, z), (False, False, False))


def fits(box: SearchBox, low: NDArray[np.float64], high: NDArray[np.float64], reach: float) -> bool:
    """Say whether particles between two corners lie in an open box that is not far too large."""
    corner, size = np.asarray(box.low), np.asarray(box.size)
    inside = (low >= corner) & (high <= corner + size)
    return bool((inside & (size <= 1.25 * (high - low) + 2 * reach)).all())


def _three(name: str, value: Any, kind: type, wanted: str) -> Any:
    """Return a triple of finite numbers, or of truth values, of which one stands for three."""
    with suppress(TypeError, ValueError):
        given = np.asarray(value)
        has_shape = given.shape == (3,) or (kind is bool and given.shape == ())
        has_kind = (given.dtype == bool) == (kind is bool)
        if has_shape and has_kind and np.isfinite(given.astype(float)).all():
            return tuple(np.broadcast_to(given, 3).astype(kind).tolist())
    raise UserError(f"{name} takes {wanted}, not {value!r}")
