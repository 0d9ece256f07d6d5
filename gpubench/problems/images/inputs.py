"""Systems of particles in periodic cells."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.base.errors import UserError
from gpubench.problems.images.axes import Systems


@dataclass(frozen=True, eq=False)
class SystemSet:
    """Particles in periodic cells, one system after the other.

    positions: float32, shape (particles, 3); anywhere along periodic axes.
    offsets: int64, shape (systems + 1,), the first particle of each system, and the end.
    vectors: float64, shape (systems, 3, 3), values of float32; the rows are the vectors of a cell.
        Those of open axes are perpendicular to the others, and contain the particles.
    periodic: which axes are periodic, in all systems.
    """

    positions: NDArray[np.float32]
    offsets: NDArray[np.int64]
    vectors: NDArray[np.float64]
    periodic: tuple[bool, bool, bool]
    cutoff: float

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for these systems."""
        sizes = {"particles": len(self.positions), "systems": len(self.vectors)}
        return sizes | {"periodic": self.periodic}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over all of it, first 16 hex digits."""
        rest = np.array([*self.periodic, self.cutoff])
        arrays = self.positions, self.offsets, self.vectors, rest
        return hashlib.sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()[:16]


def make_systems(
    sizes: ArrayLike,
    vectors: ArrayLike,
    cutoff: float,
    periodic: tuple[bool, bool, bool] = (True, True, True),
    seed: int = 0,
) -> SystemSet:
    """Draw uniform particles. vectors: shape (3, 3) for all systems, or (systems, 3, 3)."""
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    each = np.asarray(sizes, np.int64)
    cells = np.zeros((len(each), 3, 3))
    cells[:] = np.asarray(vectors, np.float32)
    offsets = np.concatenate(([0], np.cumsum(each)))
    along = np.random.default_rng(seed).random((int(offsets[-1]), 3))
    positions = np.einsum("pa,pac->pc", along, np.repeat(cells, each, axis=0))
    return SystemSet(positions.astype(np.float32), offsets, cells, periodic, cutoff)


def draw(axes: Systems, seed: int) -> SystemSet:
    """Draw the systems of a recipe."""
    sizes, periodic = np.full(axes.systems, axes.particles), (True, True, axes.lattice != "slab")
    return make_systems(sizes, axes.vectors, axes.cutoff, periodic, seed)
