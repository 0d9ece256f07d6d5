"""The oracle of forces between particles: sums in float64 over SciPy's cKDTree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.arrays import check_array, first_true
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.neighbours.pairs import in_box, tolerance_of, tree_of
from gpubench.problems.pair_forces.contract import CUTOFF, LEAST, Forces
from gpubench.problems.particles.inputs import ParticleSet

ROUNDING = 2.0**-24
CHECKED = 2000  # particles; of more, a random sample is checked
# Of a pair's force: rounding of its factor, mostly of a reciprocal root to the 14th power; and the
# largest power of the distance, which amplifies rounding of the difference.
FACTOR, POWER = 128 * ROUNDING, 14


class PairForcesOracle(Oracle):
    """Check the forces on all particles, or on a sample, and that all are finite.

    A pair within float32's rounding of the cutoff may contribute or not.
    """

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        grid, n = inputs.grid, inputs.particles
        cutoff = grid.reach
        sigma2 = (cutoff / CUTOFF) ** 2
        near = tolerance_of(inputs.positions, grid, cutoff, exact=False)
        chosen = np.random.default_rng(n).permutation(n)[:CHECKED]
        self.particles, self.rows = n, np.union1d(chosen, [0, n - 1] if n else []).astype(np.int64)
        self.expected = np.zeros((len(self.rows), 3))
        self.bound = np.zeros((len(self.rows), 3))
        if n == 0:
            return
        xyz, size = in_box(inputs.positions, grid), np.asarray(grid.size)
        box = np.where(grid.periodic, size, 0.0)
        lists = tree_of(xyz, box).query_ball_point(xyz[self.rows], (cutoff + near) * (1 + 1e-9))
        for k, (i, found) in enumerate(zip(self.rows, lists, strict=True)):
            apart = xyz[i] - xyz[np.asarray(found, np.int64)]
            steps = np.rint(apart / np.where(box, box, 1.0)) * (box > 0)
            apart -= box * steps
            r2 = (apart**2).sum(axis=1)
            clipped = np.maximum(r2, sigma2 * LEAST**2)
            s6 = (sigma2 / clipped) ** 3
            factor = 24 * s6 * (2 * s6 - 1) / clipped * (np.sqrt(r2) < cutoff)
            size_of = 24 * s6 * (2 * s6 + 1) / clipped
            terms = len(found) * ROUNDING + FACTOR
            borderline = np.abs(np.sqrt(r2) - cutoff) <= near
            self.expected[k] = factor @ apart
            self.bound[k] = size_of @ np.abs(apart) * terms
            # Differences of positions are rounded relative to themselves; those to images, to the
            # box: three times half a unit in its last place along each axis, less than near / 3.
            self.bound[k] += POWER * near / 3 * size_of[steps.any(axis=1)].sum()
            self.bound[k] += (size_of * borderline) @ np.abs(apart)

    def check(self, algorithm: Any) -> str | None:
        """Check the forces of the last launch."""
        found: NDArray[Any] = algorithm.download(self.answer_of(algorithm, Forces).forces)
        if problem := check_array("forces", found, (self.particles, 4), np.float32):
            return problem
        if (i := first_true(np.isfinite(found[:, :3]).sum(axis=1) < 3)) is not None:
            return f"the force on particle {i} is {found[i, :3].tolist()}, expected finite numbers"
        wrong = np.abs(found[self.rows, :3] - self.expected) > self.bound
        if (k := first_true(wrong.any(axis=1))) is not None:
            i = int(self.rows[k])
            return (
                f"the force on particle {i} is {found[i, :3].tolist()}, expected"
                f" {self.expected[k].tolist()} to within {self.bound[k].tolist()}"
            )
        return None
