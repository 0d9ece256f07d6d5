"""Matrices of 1x3 blocks, given or derived from particles, and vectors to multiply them by.

Particles define the matrix of a density constraint (Macklin and Mueller 2013; Bodin, Lacoursiere
and Servin 2012), in units of the cutoff h and without the constant factor:

    B_ij = d_ij (1 - |d_ij|^2)^2,  d_ij = (x_i - x_j) / h, for each j nearer than h
    D_i = - sum over j of B_ij

which is the gradient of the kernel W = (1 - d^2)^3 of Mueller et al. (2003).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.problems.particles.inputs import ParticleSet
from gpubench.problems.particles.inputs import draw as draw_particles
from gpubench.problems.sparse_product.axes import Matrices


@dataclass(frozen=True)
class BlockRows:
    """A matrix in compressed rows, on the host or on a device.

    start: int64, shape (rows + 1,); row i has the entries start[i] to start[i + 1] - 1.
    columns: int32, shape (entries,), each in [0, rows).
    blocks: float, shape (entries, 3 or 4); a fourth component is undefined. diagonal: float, shape
    (rows, 3 or 4), as the blocks.
    """

    start: Any
    columns: Any
    blocks: Any
    diagonal: Any


@dataclass(frozen=True, eq=False)
class MatrixSet:
    """A matrix, and the vectors by which it and its transpose are multiplied.

    particles: the particles that define the matrix, in an open box; the cutoff is the shortest edge
        of their cells. None if the matrix is given.
    given: the matrix on the host, with blocks float32, (entries, 3); None if particles define it.
    vector: float32, shape (rows, 4), multiplies the matrix; the fourth component is undefined.
    numbers: float32, shape (rows,), multiplies the transpose.
    antisymmetric: whether B_ji = -B_ij for all off-diagonal blocks.
    """

    particles: ParticleSet | None
    given: BlockRows | None
    vector: NDArray[np.float32]
    numbers: NDArray[np.float32]
    antisymmetric: bool
    seed: int | None

    @property
    def rows(self) -> int:
        """Number of block rows."""
        return len(self.vector)

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for this matrix."""
        return {"rows": self.rows, "antisymmetric": self.antisymmetric}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the matrix, or the particles that define it, and both vectors."""
        digest = hashlib.sha256((self.particles.hash if self.particles else "given").encode())
        arrays = vars(self.given).values() if self.given else ()
        for array in (*arrays, self.vector, self.numbers):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def of_particles(particles: ParticleSet, seed: int = 0) -> MatrixSet:
    """Return the matrix of particles, with random vectors, uniform from -1 to 1.

    Raises UserError for a periodic box.
    """
    if any(particles.grid.periodic):
        raise UserError("a matrix is made of particles in an open box: leave every axis open")
    return MatrixSet(particles, None, *_vectors(particles.particles, seed), True, seed)


def of_rows(given: BlockRows, antisymmetric: bool = False, seed: int = 0) -> MatrixSet:
    """Return a given matrix, with random vectors."""
    return MatrixSet(None, given, *_vectors(len(given.diagonal), seed), antisymmetric, seed)


def _vectors(rows: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng((seed, 2))  # a different stream from that of the positions
    vector = np.zeros((rows, 4), np.float32)
    vector[:, :3] = rng.uniform(-1, 1, (rows, 3))
    return vector, rng.uniform(-1, 1, rows).astype(np.float32)


def draw(axes: Matrices, seed: int) -> MatrixSet:
    """Draw the particles of a recipe, and the vectors."""
    return of_particles(draw_particles(axes.among, seed), seed)
