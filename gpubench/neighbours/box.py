"""The box of a neighbour list: reads the user's description, and divides the box into cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.arguments import shown, without_gradient
from gpubench.base.errors import UserError
from gpubench.core.grid import LARGEST_CELL, SMALLEST_CELL, Grid, edges_of

CELLS_PER_PARTICLE = 4  # maximum, since empty cells cost time; if reached, cells become longer
LEAST_CELLS = 4096  # this many cells are always allowed, even for very few particles
MOST_ALONG = 2**20  # cells along one axis, limited by float32 resolution
ROUNDING = 2.0**-22  # relative tolerance when box / cutoff should be a whole number
LEAST_CUTOFF = 2.0**-62  # the square of a shorter cutoff may be 0 in float32
MOST_EDGES = 2**30 - 1  # from a periodic box to a position; MOST_IMAGES in the kernels
COARSE = 1e-3  # fraction of the cutoff; if the rounding bound exceeds it, the user is warned
EXACT = 1e-5  # the same, beyond which pairs are decided in float64
STEPS = 2**24  # of coordinates along the longest edge, which float32 holds
LEAST_STEPS = 16  # along a cell
SMALLEST_LENGTH, LARGEST_LENGTH = 1e-150, 1e150  # whose squares float64 holds

# The layout of `struct Box` in kernels/common/ways.h.
BOX_DTYPE = np.dtype(
    [
        *((name, np.float64, 3) for name in ("low", "size", "periodic", "steps", "per_size")),
        ("per_step", np.float64),
    ]
)

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class SearchBox:
    """An orthogonal box. low: its lower corner. size: its edges. periodic: along which axes.

    given_step: the step of coordinates; 0 for the least.
    """

    low: Triple
    size: Triple
    periodic: tuple[bool, bool, bool]
    given_step: float = 0.0

    @property
    def is_bounded(self) -> bool:
        """Whether all axes have an edge; those without are measured for each search."""
        return min(self.size) > 0

    def is_long(self, reach: float) -> bool:
        """Whether axes that repeat hold `reach` three times; as `grid` has it, to the last bit."""
        edges = [edge for edge, repeats in zip(self.size, self.periodic, strict=True) if repeats]
        return all(edge / reach * (1 + ROUNDING) >= 3 for edge in edges)

    @property
    def step(self) -> float:
        """The distance between coordinates that are searched."""
        return self.given_step or max(self.size) / STEPS or 1.0

    @property
    def steps(self) -> Triple:
        """The edges in whole steps, as coordinates are searched."""
        x, y, z = (max(LEAST_STEPS, round(edge / self.step)) for edge in self.size)
        return float(x), float(y), float(z)

    def rounding(self, reach: float) -> float:
        """Return how far the distance that a search decides by may be from that of a pair.

        Two coordinates are rounded to steps, and the images to whole ones; squares to float32.
        """
        off = np.abs(np.array(self.steps) - np.divide(self.size, self.step)) * self.periodic
        return self.step * math.hypot(*(1 + off)) + 2.0**-22 * reach

    def bound(self, cutoff: float) -> float:
        """Return the rounding bound: pairs this close to the cutoff may be misclassified.

        Rounding to float32 affects both coordinates and the image shift (2^-24 of an edge each),
        the coordinate differences, and the sum of their squares.
        """
        return 2.0**-21 * (math.hypot(*self.size) + cutoff)

    def why_coarse(self, cutoff: float, skin: float = 0.0) -> str | None:
        """Return a warning, with a remedy, that rounding affects which pairs are listed.

        None if the bound is at most COARSE times the cutoff, or at most the skin, which then keeps
        every pair within the cutoff.
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

    def require_near(self, positions: NDArray[np.float64]) -> None:
        """Raise UserError as a search does for a position too many periods away; on the host."""
        with np.errstate(over="ignore"):
            away = np.abs(positions - self.low)
            is_near = (away < np.inf) & (away <= np.multiply(MOST_EDGES, self.size))
        far = np.flatnonzero((~is_near & self.periodic).any(axis=1))
        raise_unsound(int(far[-1]) + 1 if len(far) else 0, 0)

    def searched(self, cutoff: float) -> float:
        """Clamp the cutoff so that float32 can hold its square; the same pairs are found."""
        return min(max(cutoff, LEAST_CUTOFF), 2 * math.hypot(*self.size))

    def searched_steps(self, reach: float) -> float:
        """Return the same in steps."""
        with np.errstate(over="ignore"):
            steps = float(np.divide(reach, self.step))
        return min(max(steps, LEAST_CUTOFF), 2 * math.hypot(*self.steps))

    def is_sparse(self, particles: int, reach: float) -> bool:
        """Whether there are more cells of `reach` than `grid` makes."""
        allowed = max(LEAST_CELLS, CELLS_PER_PARTICLE * particles)
        return math.prod(max(1.0, edge / reach) for edge in self.size) > allowed

    def grid(self, particles: int, reach: float, *, in_steps: bool = False) -> Grid:
        """Divide the box into cells at least `reach` long, at most CELLS_PER_PARTICLE per particle.

        in_steps: whether coordinates are in steps from the corner; else in the user's unit. Raises
        UserError if a periodic axis has fewer than three cells (the message gives the shortest edge
        allowed), or if float32 cannot represent the lengths.
        """
        most = [steps // LEAST_STEPS if in_steps else MOST_ALONG for steps in self.steps]
        cells = [
            max(1, math.floor(min(edge / reach * (1 + ROUNDING), along)))
            for edge, along in zip(self.size, most, strict=True)
        ]
        for axis, (count, repeats) in enumerate(zip(cells, self.periodic, strict=True)):
            if repeats and count < 3:
                raise UserError(
                    f"the box repeats along {'xyz'[axis]} after {self.size[axis]:g}, which is less"
                    f" than three times the cutoff and skin: at least {3 * reach:g}, or repeat"
                    " the particles"
                )
        allowed = max(LEAST_CELLS, CELLS_PER_PARTICLE * particles)
        while (count := math.prod(cells)) > allowed:
            # Coarsen the axis with the most cells, which keeps cells close to cubic.
            longest = cells.index(max(cells))
            fitting = allowed // (count // cells[longest])
            cells[longest] = max(fitting, -(-cells[longest] // 2))
        nx, ny, nz = cells
        if in_steps:
            return Grid((nx, ny, nz), (0.0, 0.0, 0.0), self.steps, self.periodic)
        edges = [edge / count for edge, count in zip(self.size, cells, strict=True)]
        is_lost = reach < LEAST_CUTOFF and self.bound(reach) < LEAST_CUTOFF
        if is_lost or not SMALLEST_CELL <= min(edges) <= max(edges) <= LARGEST_CELL:
            raise self._not_held(reach, "float32")
        return Grid((nx, ny, nz), (0.0, 0.0, 0.0), self.size, self.periodic)

    def require_squares(self, reach: float) -> None:
        """Raise UserError if float64 does not hold the squares of lengths."""
        if reach < SMALLEST_LENGTH or max(self.size) > LARGEST_LENGTH:
            raise self._not_held(reach, "float64")

    def _not_held(self, reach: float, by: str) -> UserError:
        x, y, z = self.size
        return UserError(
            f"{by} does not hold a cutoff of {reach:g} in a box of {x:g} x {y:g} x {z:g}:"
            " give positions, box and cutoff in a unit that is nearer to the cutoff"
        )

    def packed(self) -> NDArray[np.void]:
        """Return the box as an array with one element of BOX_DTYPE, for the kernels."""
        packed = np.zeros(1, BOX_DTYPE)
        packed["low"], packed["size"], packed["periodic"] = self.low, self.size, self.periodic
        packed["steps"], packed["per_step"] = self.steps, 1 / self.step
        repeats = zip(self.size, self.periodic, strict=True)
        packed["per_size"] = [1 / edge if is_periodic else 0.0 for edge, is_periodic in repeats]
        return packed


def widened(cutoff: float, skin: float, rounding: float) -> float:
    """Return the distance to search, so that float64 can decide which pairs are listed.

    cutoff + skin alone if rounding matters too little.
    """
    return cutoff + skin + (0.0 if rounding <= EXACT * cutoff else 1.01 * rounding)


OPEN = SearchBox((0.0,) * 3, (0.0,) * 3, (False,) * 3)  # all axes are measured


def box_given(cell: Any, box: Any) -> Any:
    """Return the box that a user gives by one of two names; UserError if by both."""
    if cell is not None and box is not None:
        raise UserError("give cell or box, not both")
    return box if cell is None else cell


def box_of(edges: Any, low: Sequence[float], periodic: bool | Sequence[bool]) -> SearchBox | None:
    """Return the box that a user describes; None for open space.

    edges: three lengths, a 3x3 matrix that is diagonal up to rounding, or None. Raises UserError
    for anything else.
    """
    repeats = three("periodic", periodic, bool, "True, False, or three of them")
    if edges is None and not any(repeats):
        return None
    if edges is None:
        raise UserError("a periodic search needs the edges of its box: box=(lx, ly, lz)")
    without_gradient("the box", edges)
    with suppress(TypeError, ValueError, OverflowError):
        matrix = np.asarray(edges, np.float64)
        if matrix.shape == (3, 3) and (edges := edges_of(matrix)) is None:
            raise UserError("triclinic boxes are not supported here: the box takes three edges")
    size = three("the box", edges, float, wanted := "three positive finite edges, or None")
    if min(size) <= 0:
        raise UserError(f"the box takes {wanted}, not {shown(edges)}")
    return SearchBox(three("low", low, float, "three finite coordinates"), size, repeats)


def box_around(low: NDArray[np.float64], high: NDArray[np.float64], reach: float) -> SearchBox:
    """Return a non-periodic box with a margin, so that it still fits after particles move.

    Raises UserError if the particles are too far apart for float64.
    """
    with np.errstate(over="ignore"):
        margin = np.maximum(0.05 * (high - low), 0.5 * reach)
        a, b, c = map(float, low - margin)
        x, y, z = map(float, high - low + 2 * margin)
    if not np.isfinite((a, b, c, math.hypot(x, y, z))).all():
        raise UserError("the positions are further apart than float64 holds: remove what is far")
    return SearchBox((a, b, c), (x, y, z), (False, False, False))


def fits(box: SearchBox, low: NDArray[np.float64], high: NDArray[np.float64], reach: float) -> bool:
    """Whether an open box contains all points from `low` to `high` and is not much too large."""
    corner, size = np.asarray(box.low), np.asarray(box.size)
    inside = (low >= corner) & (high <= corner + size)
    return bool((inside & (size <= 1.25 * (high - low) + 2 * reach)).all())


def measured(
    known: SearchBox,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    reach: float,
    last: SearchBox | None,
) -> SearchBox:
    """Return a box with the known edges, that holds the points from `low` to `high` along others.

    last: the box of the last search, which is returned if it fits. Raises UserError for a position
    that is not finite.
    """
    edges, corner = np.array(known.size), np.array(known.low)
    low, high = np.where(edges, corner, low), np.where(edges, corner + edges, high)
    if not np.isfinite((low, high)).all():
        raise UserError("a position is not finite")
    if last is not None and fits(last, low, high, reach):
        return last
    around = box_around(low, high, reach)
    (a, b, c), (x, y, z) = np.where(edges, (corner, edges), (around.low, around.size)).tolist()
    return SearchBox((a, b, c), (x, y, z), known.periodic)


class Unsound(UserError):
    """A position that cannot be searched. particle: its row. why: the rest of the message."""

    def __init__(self, particle: int, why: str, name: str = "position") -> None:
        super().__init__(f"{name} {particle} {why}")
        self.particle, self.why = particle, why

    def of_queries(self, many: int) -> Unsound:
        """Return the error of a search of this many queries, followed by particles."""
        is_query = self.particle < many
        name, before = ("query", 0) if is_query else ("position", many)
        return Unsound(self.particle - before, self.why, name)


def raise_unsound(not_finite: int, outside: int, most: str = "2^30") -> None:
    """Raise Unsound for the status of a search. most: edges from the box to a position."""
    if not_finite:
        far = f"is over {most} edges of the box away along an axis that repeats"
        raise Unsound(not_finite - 1, f"is not finite, or {far}")
    if outside:
        raise Unsound(outside - 1, "is outside the box along an axis that does not repeat")


def three(name: str, value: Any, kind: type, wanted: str) -> Any:
    """Return three finite numbers, or three booleans; a single boolean applies to all axes."""
    without_gradient(name, value)
    with suppress(TypeError, ValueError, OverflowError):
        given = np.asarray(value)
        has_shape = given.shape == (3,) or (kind is bool and given.shape == ())
        has_kind = given.dtype.kind in ("b" if kind is bool else "iuf")
        if has_shape and has_kind and np.isfinite(given.astype(float)).all():
            return tuple(np.broadcast_to(given, 3).astype(kind).tolist())
    raise UserError(f"{name} takes {wanted}, not {shown(value)}")
