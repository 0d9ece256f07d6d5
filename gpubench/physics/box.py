"""The box of a simulation, and positions in it as 32-bit fractions of its edges.

Fixed-point positions have the same resolution everywhere: they wrap without rounding, and their
differences are exact minimum images. In a box of length 100, a float32 position far from the
corner would lose seven bits.
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
# Coarse steps per reach. With more, wrap-around of the bytes admits more false candidates; with
# fewer, rounding does.
COARSE = 96
LOW_WALL, HIGH_WALL = 1, 2  # bits of Box.walls, as in kernels/common/box.h


@dataclass(frozen=True)
class Box:
    """A box with one corner at the origin.

    size: edges, in units of length.
    periodic: the axes along which it repeats; along the others walls reflect.
    walls: along the other axes, LOW_WALL, HIGH_WALL, or both. A particle that would cross an end
        without a wall leaves the simulated world, which is a fault.
    """

    size: tuple[float, float, float]
    periodic: tuple[bool, bool, bool] = (True, True, True)
    walls: tuple[int, int, int] = (LOW_WALL | HIGH_WALL,) * 3

    def __post_init__(self) -> None:
        if not all(math.isfinite(edge) and edge > 0 for edge in self.size):
            raise UserError(f"a box needs positive, finite edges, not {self.size}")

    @property
    def volume(self) -> float:
        """The volume."""
        return math.prod(self.size)

    @property
    def units(self) -> tuple[float, float, float]:
        """Fixed-point units per edge: 2^32 along periodic axes, so that sums wrap by themselves.

        Along other axes 2^31, so that differences keep their sign.
        """
        x, y, z = (2.0**32 if periodic else 2.0**31 for periodic in self.periodic)
        return x, y, z

    def to_units(self, positions: Floats) -> Words:
        """Return positions (particles, 3) as units, uint32, clamped to the walls."""
        units = np.asarray(self.units)
        places: Words = np.empty(np.shape(positions), np.uint32)

        def part(begin: int, end: int) -> None:
            fraction = np.asarray(positions[begin:end], np.float64) / self.size
            fraction -= np.where(self.periodic, np.floor(fraction), 0.0)
            places[begin:end] = np.clip(np.floor(fraction * units), 0, units - 1)

        over(len(places), part)
        return places

    def to_positions(self, units: Words) -> Floats:
        """Return units (particles, 3 or more) as positions, float64 (particles, 3)."""
        positions: Floats = units[:, :3] * (np.asarray(self.size) / self.units)
        return positions

    def grid(self, cell_size: float, parts: int = 1, *, hashed: bool = False) -> Grid:
        """Divide the box into as many cells of at least cell_size as fit.

        parts: cells are this many times shorter along x: at least cell_size / parts long.
        hashed: whether cells are hashed, which allows any number of them.
        Raises UserError where fewer than three full cells fit along a periodic edge.
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
        # Three cells fit along a periodic edge, even if the quotient is rounded down.
        nx, ny, nz = (
            max(3 if periodic else 1, math.floor(edge / size))
            for edge, size, periodic in zip(self.size, sizes, self.periodic, strict=True)
        )
        kind = HashedGrid if hashed else Grid
        return kind((nx, ny, nz), (0.0, 0.0, 0.0), self.size, self.periodic)

    def cell_numbers(self, units: Words, cell_size: float) -> NDArray[np.int64]:
        """Return the cell of each row of units (particles, 3 or more), int64 (particles,).

        Cells are numbered along x first, and are at least cell_size long, see `grid`.
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

        length: length of a unit. units: its inverse. edge: cell edge. reach: the range of forces,
        also the maximum motion in a step. mask: `buckets` - 1, for hashed cells. coarse: steps per
        box edge (kernels/common/coarse.h). coarse_square: upper bound of `reach` squared, in steps.
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
        # Rounding loses less than 1, 2 and 2 steps along the axes, and 1 in the fourth byte.
        packed["coarse_square"] = math.floor((most + 3) ** 2) + 3
        return packed

    def _coarse_steps(self, reach: float) -> list[int]:
        """Return the number of coarse steps per edge: a multiple of 256 on periodic axes."""
        wanted = [min(COARSE * edge / reach, 2.0**32 - 256) for edge in self.size]
        return [
            256 * max(1, int(steps / 256)) if periodic else max(1, round(steps))
            for steps, periodic in zip(wanted, self.periodic, strict=True)
        ]
