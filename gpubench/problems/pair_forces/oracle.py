"""The oracle of forces between particles: sums in float64 over SciPy's cKDTree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.arrays import Ints, check_array
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.neighbours.pairs import in_box, tolerance_of, tree_of
from gpubench.problems.pair_forces.contract import CUTOFF, LEAST, Forces
from gpubench.problems.particles.inputs import ParticleSet

ROUNDING = 2.0**-24
CHECKED = 2000  # particles; of more, a random sample is checked
PART = 64  # particles whose pairs are held at once

Floats = NDArray[np.float64]
# Of a pair's force: rounding of its factor, mostly of a reciprocal root to the 14th power; and the
# largest power of the distance, which amplifies rounding of the difference.
FACTOR, POWER = 128 * ROUNDING, 14


class PairForcesOracle(Oracle):
    """Check the forces on all particles, or on a sample, and that all are finite.

    A pair within float32's rounding of the cutoff may contribute or not.
    """

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        grid, n = inputs.grid, inputs.particles
        self._cutoff, self._near = (
            grid.reach,
            tolerance_of(inputs.positions, grid, grid.reach, False),
        )
        self._box = np.where(grid.periodic, np.asarray(grid.size), 0.0)
        chosen = np.random.default_rng(n).permutation(n)[:CHECKED]
        self.particles, self.rows = n, np.union1d(chosen, [0, n - 1] if n else []).astype(np.int64)
        self.expected, self.bound = np.zeros((2, len(self.rows), 3))
        if n == 0:
            return
        xyz = in_box(inputs.positions, grid)
        tree = tree_of(xyz, self._box)
        for first in range(0, len(self.rows), PART):
            part = slice(first, first + PART)
            own = xyz[self.rows[part]]
            lists = tree.query_ball_point(own, (self._cutoff + self._near) * (1 + 1e-9))
            row = np.repeat(np.arange(len(lists)), [len(found) for found in lists])
            apart = own[row] - xyz[np.concatenate(lists).astype(np.int64)]
            self.expected[part], self.bound[part] = self._sums(row, apart)

    def _sums(self, row: Ints, apart: Floats) -> tuple[Floats, Floats]:
        """Return force and error bound of each row from the differences of its pairs."""
        steps = np.rint(apart / np.where(self._box, self._box, 1.0)) * (self._box > 0)
        apart = apart - self._box * steps
        r2, sigma2 = (apart**2).sum(axis=1), (self._cutoff / CUTOFF) ** 2
        clipped = np.maximum(r2, sigma2 * LEAST**2)
        s6 = (sigma2 / clipped) ** 3
        size = 24 * s6 * (2 * s6 + 1) / clipped
        factor = 24 * s6 * (2 * s6 - 1) / clipped * (np.sqrt(r2) < self._cutoff)
        error = (np.bincount(row)[row] * ROUNDING + FACTOR) * size
        error += size * (np.abs(np.sqrt(r2) - self._cutoff) <= self._near)  # counted or not
        error = error[:, None] * np.abs(apart)
        # Differences of positions are rounded relative to themselves; those to images, to the box:
        # three times half a unit in its last place along each axis, less than near / 3.
        error += (POWER * self._near / 3 * size * steps.any(axis=1))[:, None]

        def over_rows(values: Floats) -> Floats:
            return np.stack([np.bincount(row, along) for along in values.T], axis=1)

        return over_rows(factor[:, None] * apart), over_rows(error)

    def check(self, algorithm: Any) -> str | None:
        """Check the forces of the last launch."""
        found: NDArray[Any] = algorithm.download(self.answer_of(algorithm, Forces).forces)
        if problem := check_array("forces", found, (self.particles, 4), np.float32):
            return problem
        finite = np.isfinite(found[:, :3]).all(axis=1)
        if not finite.all():
            i = int(np.argmin(finite))
            return f"the force on particle {i} is {found[i, :3].tolist()}, expected finite numbers"
        wrong = np.abs(found[self.rows, :3] - self.expected) > self.bound
        if wrong.any():
            k = int(np.argmax(wrong.any(axis=1)))
            i = int(self.rows[k])
            return (
                f"the force on particle {i} is {found[i, :3].tolist()}, expected"
                f" {self.expected[k].tolist()} to within {self.bound[k].tolist()}"
            )
        return None
