"""The oracle of neighbours within a radius per particle."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpubench.core.arrays import check_array, first_true
from gpubench.core.oracle import Oracle
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.pairs import in_box, tolerance_of, tree_of
from gpubench.problems.neighbours.rows import check_no_self, check_rows
from gpubench.problems.particles.inputs import ParticleSet

LISTED = 4000  # rows of a list that are compared; of more, a random sample
TREE = 1e-9  # more than the relative rounding of the tree's distances


class RadiiOracle(Oracle):
    """Check that row i holds the particles nearer than radii[i], by SciPy's cKDTree in float64.

    All particles are counted; of lists, LISTED rows are compared. A pair within float32's rounding
    of the radius may be listed or not.
    """

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        assert inputs.radii is not None
        grid, radii = inputs.grid, inputs.radii.astype(np.float64)
        off = tolerance_of(inputs.positions, grid, grid.reach, exact)
        self._xyz = in_box(inputs.positions, grid)
        tree = tree_of(self._xyz, np.where(grid.periodic, grid.size, 0.0))
        self._find = partial(tree.query_ball_point, workers=-1)
        least, most = (radii - off).clip(0) * (1 - TREE), (radii + off) * (1 + TREE)
        self._radii = least, most
        self._least, self._most = (
            self._find(self._xyz, each, return_length=True) - 1 for each in self._radii
        )

    def check(self, algorithm: Any) -> str | None:
        """Check the neighbours of the last launch."""
        download, answer = algorithm.download, self.answer_of(algorithm, Neighbours)
        counts, n = download(answer.counts), len(self._xyz)
        if problem := check_array("counts", counts, (n,), np.int32):
            return problem
        if (i := first_true((counts < self._least) | (counts > self._most))) is not None:
            expected = f"{self._least[i]} to {self._most[i]}"
            return f"particle {i} has {counts[i]} neighbours, expected {expected}"
        if answer.offsets is None:
            return None
        offsets, listed = download(answer.offsets), download(answer.neighbours)
        found = check_rows(n, counts, offsets, listed) or check_no_self(counts, offsets, listed)
        rows = np.random.default_rng(n).permutation(n)[:LISTED]
        near, may = (self._find(self._xyz[rows], each[rows]) for each in self._radii)
        for i, required, allowed in zip(rows.tolist(), near, may, strict=True):
            row = listed[offsets[i] : offsets[i + 1]].tolist()
            if len({*row}) < len(row) or not {*required} <= {*row, i} <= {*allowed}:
                wrong = sorted({*required} ^ {*row, i})
                found = found or f"particle {i}: neighbours are listed twice or not right: {wrong}"
        return found
