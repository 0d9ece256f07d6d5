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
    """Systems whose particles are stored one system after the other.

    positions: float32, shape (particles, 3); anywhere along periodic axes.
    offsets: int64, shape (systems + 1,), the first particle of each system, and the end.
    vectors: float64, shape (systems, 3, 3), of float32's values; the rows are the vectors of a
        cell. Those of open axes are perpendicular to the others, and long enough for the particles.
    periodic: which axes are periodic, in all systems.
    """

    positions: NDArray[np.float32]
    offsets: NDArray[np.int64]
    vectors: NDArray[np.float64]
    periodic: tuple[bool, bool, bool]
    cutoff: float
    seed: int | None = None

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for these systems."""
        return {"particles": len(self.positions), "systems": len(self.vectors)}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over all of it, first 16 hex digits."""
        plain = np.array([*self.periodic, self.cutoff])
        digest = hashlib.sha256(plain.tobytes())
        for array in (self.positions, self.offsets, self.vectors):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def make_systems(
    sizes: ArrayLike,
    vectors: ArrayLike,
    cutoff: float,
    periodic: tuple[bool, bool, bool] = (True, True, True),
    seed: int = 0,
) -> SystemSet:
    """Draw uniform particles in cells.

    sizes: the number of particles of each system. vectors: shape (3, 3) for all systems, or
    (systems, 3, 3). Raises UserError for a bad seed.
    """
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    each = np.asarray(sizes, np.int64)
    cells = np.broadcast_to(np.asarray(vectors, np.float32), (len(each), 3, 3)).astype(np.float64)
    offsets = np.concatenate(([0], np.cumsum(each)))
    along = np.random.default_rng(seed).random((int(offsets[-1]), 3))
    positions = np.einsum("pa,pac->pc", along, np.repeat(cells, each, axis=0))
    return SystemSet(positions.astype(np.float32), offsets, cells, periodic, cutoff, seed)


def draw(axes: Systems, seed: int) -> SystemSet:
    """Draw the systems of a recipe."""
    sizes = np.full(axes.systems, axes.particles)
    return make_systems(sizes, axes.vectors, axes.cutoff, axes.periodic, seed)
