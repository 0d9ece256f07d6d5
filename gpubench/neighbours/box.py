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
from gpubench.core.grid import LARGEST_CELL, SMALLEST_CELL, Grid, edges_of

CELLS_PER_PARTICLE = 4  # at most: cells may be longer than the cutoff, and empty ones cost time
LEAST_CELLS = 4096  # that are allowed whatever the number of particles
MOST_ALONG = 2**20  # that float32 tells apart
ROUNDING = 2.0**-22  # by which a quotient of the box and the cutoff may fail to be whole
LEAST_CUTOFF = 2.0**-62  # whose square float32 tells from 0
MOST_SHOWN = 100  # letters of what a user gave
COARSE = 1e-3  # of the cutoff: a larger bound is not passed over in silence

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

    def why_coarse(self, cutoff: float, skin: float = 0.0) -> str | None:
        """Say in words that rounding decides which pairs are listed, and what helps.

        None where the bound is at most COARSE of the cutoff, or where a skin is longer: then no
        pair nearer than the cutoff is lost.
        """
        bound, (x, y, z) = self.bound(cutoff + skin), self.size
        if bound <= max(COARSE * cutoff, skin):
            return None
        with_skin = (
            f", or with skin={2 * bound:.2g}, which finds all pairs that distances() says are"
            " nearer than the cutoff"
        )
        return (
            f"pairs may be lost, or listed, that are up to {bound:.2g} (NeighbourList.bound) nearer"
            f" or further than the cutoff {cutoff:g}, since the box is {x:g} x {y:g} x {z:g}:"
            f" search smaller parts{with_skin if bound < cutoff else ', without what is far away'}"
        )

    def searched(self, cutoff: float) -> float:
        """Return a cutoff that finds the same pairs, and whose square float32 holds."""
        return min(max(cutoff, LEAST_CUTOFF), 2 * math.hypot(*self.size))

    def grid(self, particles: int, reach: float) -> Grid:
        """Cut the box into cells at least `reach` long, not many more of them than particles.

        Raises UserError where an axis repeats after less than three of them, with the least box,
        and for lengths that float32 does not hold.
        """
        most = float(MOST_ALONG)
        cells = [max(1, math.floor(min(edge / reach * (1 + ROUNDING), most))) for edge in self.size]
        for axis, (count, repeats) in enumerate(zip(cells, self.periodic, strict=True)):
            if repeats and count < 3:
                raise UserError(
                    f"the box repeats along {'xyz'[axis]} after {self.size[axis]:g}, which is less"
                    f" than three times the cutoff and skin: at least {3 * reach:g}, or repeat"
                    " the particles"
                )
        allowed = max(LEAST_CELLS, CELLS_PER_PARTICLE * particles)
        while (count := math.prod(cells)) > allowed:
            # The longest axis first: cells stay as near to cubes as they can.
            longest = cells.index(max(cells))
            fitting = allowed // (count // cells[longest])
            cells[longest] = max(fitting, -(-cells[longest] // 2))
        nx, ny, nz = cells
        edges = [edge / count for edge, count in zip(self.size, cells, strict=True)]
        is_lost = reach < LEAST_CUTOFF and self.bound(reach) < LEAST_CUTOFF
        if is_lost or not SMALLEST_CELL <= min(edges) <= max(edges) <= LARGEST_CELL:
            x, y, z = self.size
            raise UserError(
                f"float32 does not hold a cutoff of {reach:g} in a box of {x:g} x {y:g} x {z:g}:"
                " give positions, box and cutoff in a unit that is nearer to the cutoff"
            )
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
    without_gradient("box", edges)
    with suppress(TypeError, ValueError):
        matrix = np.asarray(edges, np.float64)
        if matrix.shape == (3, 3) and (edges := edges_of(matrix)) is None:
            raise UserError("triclinic boxes are not supported: box takes three edges")
    size = _three("box", edges, float, wanted := "three positive finite edges, or None")
    if min(size) <= 0:
        raise UserError(f"box takes {wanted}, not {shown(edges)}")
    return SearchBox(_three("low", low, float, "three finite coordinates"), size, repeats)


def box_around(low: NDArray[np.float64], high: NDArray[np.float64], reach: float) -> SearchBox:
    """Return an open box with a margin, so that particles may move and leave the box as it is.

    Raises UserError for particles too far apart.
    """
    with np.errstate(over="ignore"):
        margin = np.maximum(0.05 * (high - low), 0.5 * reach)
        a, b, c = map(float, low - margin)
        x, y, z = map(float, high - low + 2 * margin)
    if not np.isfinite((a, b, c, math.hypot(x, y, z))).all():
        raise UserError("the positions are further apart than float64 holds: remove what is far")
    return SearchBox((a, b, c), (x, y, z), (False, False, False))


def fits(box: SearchBox, low: NDArray[np.float64], high: NDArray[np.float64], reach: float) -> bool:
    """Say whether particles between two corners lie in an open box that is not far too large."""
    corner, size = np.asarray(box.low), np.asarray(box.size)
    inside = (low >= corner) & (high <= corner + size)
    return bool((inside & (size <= 1.25 * (high - low) + 2 * reach)).all())


def shown(value: Any) -> str:
    """Return what a user gave, in one line that is not long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def without_gradient(name: str, value: Any) -> None:
    """Raise UserError for a tensor, or a sequence of them, that a gradient would not reach."""
    parts = value if isinstance(value, tuple | list) else (value,)
    if any(getattr(part, "requires_grad", False) for part in parts):
        raise UserError(f"there is no gradient in {name}: give {name} detached, as numbers")


def _three(name: str, value: Any, kind: type, wanted: str) -> Any:
    """Return a triple of finite numbers, or of truth values, of which one stands for three."""
    without_gradient(name, value)
    with suppress(TypeError, ValueError, OverflowError):
        given = np.asarray(value)
        has_shape = given.shape == (3,) or (kind is bool and given.shape == ())
        has_kind = given.dtype.kind in ("b" if kind is bool else "iuf")
        if has_shape and has_kind and np.isfinite(given.astype(float)).all():
            return tuple(np.broadcast_to(given, 3).astype(kind).tolist())
    raise UserError(f"{name} takes {wanted}, not {shown(value)}")
