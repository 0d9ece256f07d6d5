"""The box of a simulation, and positions in it as 32-bit fractions of its edges.

Fixed-point positions are as fine everywhere and always: they wrap without a rounding, and the
difference of two is exact and already that of the nearest images. A float32 in a box of 100 edges
would lose seven bits to its distance from the corner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.threads import over
from gpubench.core.grid import MAX_CELLS, Grid, HashedGrid
from gpubench.physics.arrays import Floats, Words

# The layout of `struct Box` in kernels/common/box.h.
BOX_DTYPE = np.dtype([
    ("length", np.float32, 3), ("units", np.float32, 3), ("cells", np.uint32, 3),
    ("periodic", np.int32, 3), ("walls", np.int32, 3), ("edge", np.float32, 3),
    ("reach", np.float32), ("mask", np.uint32), ("coarse", np.uint32, 3),
    ("coarse_square", np.int32),
])  # fmt: skip
# Steps of coarse places to a reach: with more, roundings take in fewer candidates that are no
# neighbours, and bytes that wrap take in more.
COARSE = 96
LOW_WALL, HIGH_WALL = 1, 2  # of Box.walls, as in kernels/common/box.h


@dataclass(frozen=True)
class Box:
    """A box with one corner at the origin.

    size: edges, in units of length.
    periodic: along which axes it repeats; along the others walls reflect.
    walls: along those others, LOW_WALL, HIGH_WALL, or both. An end without one is the end of the
        world of a simulation: a particle that would cross it is a fault.
    """

    size: tuple[float, float, float]
    periodic: tuple[bool, bool, bool] = (True, True, True)
    walls: tuple[int, int, int] = (LOW_WALL | HIGH_WALL,) * 3

    def __post_init__(self) -> None:
        if not all(math.isfinite(edge) and edge > 0 for edge in self.size):
            raise UserError(f"a box needs positive, finite edges, not {self.size}")

    @property
    def volume(self) -> float:
        """The product of the edges."""
        return math.prod(self.size)

    @property
    def units(self) -> tuple[float, float, float]:
        """Units along each edge: 2^32 where it is periodic, so that sums wrap by themselves.

        2^31 between walls, so that differences keep their sign.
        """
        x, y, z = (2.0**32 if periodic else 2.0**31 for periodic in self.periodic)
        return x, y, z

    def to_units(self, positions: Floats) -> Words:
        """Return positions (particles, 3) as units, uint32; those outside a wall are put inside."""
        units = np.asarray(self.units)
        fraction = np.asarray(positions, np.float64) / self.size
        fraction -= np.where(self.periodic, np.floor(fraction), 0.0)
        scaled = np.floor(fraction * units)
        places: Words = np.clip(scaled, 0, units - 1).astype(np.uint32)
        return places

    def to_positions(self, units: Words) -> Floats:
        """Return units (particles, 3 or more) as positions, float64 (particles, 3)."""
        positions: Floats = units[:, :3] * (np.asarray(self.size) / self.units)
        return positions

    def grid(self, cell_size: float, parts: int = 1, *, hashed: bool = False) -> Grid:
        """Cut the box into as many cells as fit that are at least cell_size long.

        parts: along x, cells are that many times as short, and at least cell_size / parts.
        hashed: whether they are hashed, so that there may be any number of them.
        Raises UserError where a periodic edge has no room for three whole ones.
        """
        for axis, edge, periodic in zip("xyz", self.size, self.periodic, strict=True):
            if periodic and edge < 3 * cell_size:
                raise UserError(
                    f"the box is {edge:g} long along {axis}, where it is periodic: it needs at"
                    f" least three cells of {cell_size:g}, so make it {3 * cell_size:g} or longer"
                )
            if edge / cell_size >= MAX_CELLS:
                raise UserError(f"a box of {self.size} has too many cells of {cell_size:g}")
        sizes = (cell_size / parts, cell_size, cell_size)
        # Three cells fit into a periodic edge, though the quotient may be rounded to less.
        nx, ny, nz = (
            max(3 if periodic else 1, math.floor(edge / size))
            for edge, size, periodic in zip(self.size, sizes, self.periodic, strict=True)
        )
        kind = HashedGrid if hashed else Grid
        return kind((nx, ny, nz), (0.0, 0.0, 0.0), self.size, self.periodic)

    def cell_numbers(self, units: Words, cell_size: float) -> NDArray[np.int64]:
        """Return the cell of each of some units (particles, 3 or more), int64 (particles,).

        Cells are counted along x first, and are at least cell_size long, see `grid`.
        """
        cells = self.grid(cell_size, hashed=True).cells
        numbers = np.zeros(len(units), np.int64)

        def part(begin: int, end: int) -> None:
            for axis in (2, 1, 0):
                along = units[begin:end, axis].astype(np.uint64) * np.uint64(cells[axis])
                numbers[begin:end] *= cells[axis]
                numbers[begin:end] += (along // np.uint64(self.units[axis])).astype(np.int64)

        over(len(units), part)
        return numbers

    def packed(self, grid: Grid, reach: float, buckets: int = 1) -> NDArray[np.void]:
        """Return the box with its cells as the kernels read it: one element of BOX_DTYPE.

        length: of a unit. units: in a length of 1. edge: of a cell. reach: how far a particle may
        move in a step, and a force reaches. buckets: of hashed cells. coarse: steps along an edge,
        see kernels/common/coarse.h. coarse_square: of more steps than any two in reach are apart.
        """
        packed = np.zeros(1, BOX_DTYPE)
        packed["length"] = np.asarray(self.size) / self.units
        packed["units"] = np.asarray(self.units) / self.size
        packed["cells"], packed["periodic"] = grid.cells, self.periodic
        packed["edge"] = np.asarray(self.size) / grid.cells
        packed["walls"] = np.where(self.periodic, 0, self.walls)
        packed["reach"], packed["mask"] = reach, buckets - 1
        steps = self._coarse_steps(reach)
        most = max(step * reach / edge for step, edge in zip(steps, self.size, strict=True))
        packed["coarse"] = steps
        # Less than 1, 2 and 2 steps are lost along the axes, and 1 in the fourth byte.
        packed["coarse_square"] = math.floor((most + 3) ** 2) + 3
        return packed

    def _coarse_steps(self, reach: float) -> list[int]:
        """Return into how many steps each edge is cut: where it repeats, so must bytes of them."""
        wanted = [min(COARSE * edge / reach, 2.0**32 - 256) for edge in self.size]
        return [
            256 * max(1, int(steps / 256)) if periodic else max(1, round(steps))
            for steps, periodic in zip(wanted, self.periodic, strict=True)
        ]
