"""The oracle of neighbours and images: explicit images in SciPy's cKDTree, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from gpubench.core.arrays import Ints, check_array, check_range, first_absent, first_true
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.images.contract import Images
from gpubench.problems.images.inputs import SystemSet

CHECKED = 2**22  # pairs; of more, those of some particles are checked
EXACT = 1e-12  # part of the cutoff that float64 may be wrong by
ROUNDING = 1e-5  # part of the cutoff within which pairs may be found or not


def pairs_within(inputs: SystemSet, reach: float, rows: Ints) -> tuple[NDArray[Any], ...]:
    """Return i, j, shifts and distances of all pairs (i, j) at most `reach` apart with i in `rows`.

    Particles that are not finite have no neighbours, nor is a vector of zeros along an open axis.
    The others are wrapped into their cell, and repeated wherever an image is near it. Systems are
    then moved apart along x, so that one tree holds them all.
    """
    system = np.repeat(np.arange(len(inputs.vectors)), np.diff(inputs.offsets))
    given, own = inputs.positions.astype(np.float64), completed(inputs.vectors)
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(given).all(axis=1))
    inverse, vectors = np.linalg.inv(own), own[system]
    rows, given = rows[finite[rows]], np.where(finite[:, None], given, 0.0)
    along = np.einsum("pc,pca->pa", given, inverse[system])
    wraps = np.where(inputs.periodic, -np.floor(along), 0.0)
    # In parts of the vectors: how far a ball of this radius extends along each of them.
    margin = 1.001 * reach * np.linalg.norm(inverse, axis=1)
    source = np.flatnonzero(finite)
    moves = wraps[source]
    for axis in np.flatnonzero(inputs.periodic):
        place, beyond = along[source, axis] + moves[:, axis], margin[system[source], axis]
        most, pieces = int(np.ceil(margin[:, axis].max(initial=0.0))), []
        for step in range(-most, most + 1):
            near = (place + step >= -beyond) & (place + step <= 1 + beyond)
            pieces.append((moves[near] + step * (np.arange(3) == axis), source[near]))
        moves, source = map(np.concatenate, zip(*pieces, strict=True))
    places = given[source] + np.einsum("pa,pac->pc", moves, vectors[source])
    centres = given[rows] + np.einsum("pa,pac->pc", wraps[rows], vectors[rows])
    apart = np.ptp(np.append(places[:, 0], 0.0)) + 3 * reach
    places[:, 0] += system[source] * apart
    centres[:, 0] += system[rows] * apart
    tree = cKDTree(places)
    found = cKDTree(centres).sparse_distance_matrix(tree, reach, output_type="ndarray")
    i, j = rows[found["i"]], source[found["j"]]
    shifts = (moves[found["j"]] - wraps[i]).astype(np.int64)
    other = (i != j) | shifts.any(axis=1)
    return i[other], j[other], shifts[other], found["v"][other]


def completed(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cells in which vectors of zeros are replaced by others, perpendicular to the rest."""
    cells = vectors.copy()
    for cell in cells:
        none = ~cell.any(axis=1)
        if none.any():
            cell[none] = np.linalg.svd(cell)[2][3 - none.sum() :]
    return cells


class ImageSearchOracle(Oracle):
    """Compare sets of (i, j, shift): of all particles or, if there are too many pairs, of some.

    exact: pairs are decided in float64; those at the cutoff may be listed, but then twice.
    """

    def __init__(self, inputs: SystemSet, exact: bool = False) -> None:
        self.particles, self._exact = (n := len(inputs.positions)), exact
        scale = max(np.abs(each).max(initial=0) for each in (inputs.positions, inputs.vectors))
        # The second part is float32's rounding of positions and images.
        tolerance = ROUNDING * inputs.cutoff + 8 * float(np.finfo(np.float32).eps) * scale
        tolerance = EXACT * inputs.cutoff if exact else tolerance
        volumes = np.abs(np.linalg.det(completed(inputs.vectors)))
        each = 4.2 * inputs.cutoff**3 * (np.diff(inputs.offsets) / volumes).max(initial=0)
        chosen = np.random.default_rng(n).permutation(n)[: int(CHECKED / max(each, 1)) + 1]
        self.rows = np.union1d(chosen, [0, n - 1]) if n else chosen
        *pairs, distances = pairs_within(inputs, inputs.cutoff + tolerance, self.rows)
        self._low = pairs[2].min(axis=0, initial=0)
        self._sizes = n, n, *(pairs[2].max(axis=0, initial=0) - self._low + 1).tolist()
        codes = self._coded(*pairs)
        self._allowed = np.sort(codes)
        self._required = np.sort(codes[distances < inputs.cutoff - tolerance])

    def check(self, algorithm: Any) -> str | None:
        """Check the list of the last launch."""
        answer, n = self.answer_of(algorithm, Images), self.particles
        arrays = answer.offsets, answer.neighbours, answer.shifts
        offsets, neighbours, shifts = map(algorithm.download, arrays)
        if problem := check_array("offsets", offsets, (n + 1,), np.int64):
            return problem
        counts, pairs = np.diff(offsets), int(offsets[-1])
        if offsets[0] or (counts < 0).any():
            return "offsets do not ascend from 0"
        if problem := (
            check_array("neighbours", neighbours, (pairs,), np.int32)
            or check_array("shifts", shifts, (pairs, 3), np.int32)
            or check_range("neighbours", neighbours, 0, n)
        ):
            return problem
        each, i = counts[self.rows], np.repeat(self.rows, counts[self.rows])
        before = np.cumsum(each) - each
        listed = np.repeat(offsets[self.rows] - before, each) + np.arange(len(i))
        j, shifts = neighbours[listed], shifts[listed]
        outside = (shifts < self._low) | (shifts >= self._low + self._sizes[2:])
        if (k := first_true(outside.any(axis=1))) is not None:
            return f"particle {i[k]}: neighbour {j[k]} with the shift {shifts[k]} is too far"
        found = np.sort(self._coded(i, j, shifts))
        if (k := first_true(found[1:] == found[:-1])) is not None:
            return f"{self._described(found[k])} is listed twice"
        if (pair := first_absent(self._required, found)) is not None:
            return f"{self._described(pair)} is missing"
        if (pair := first_absent(found, self._allowed)) is not None:
            return f"{self._described(pair)} should not be listed"
        if self._exact:
            ties = np.setdiff1d(found, self._required)
            i, j, *steps = np.unravel_index(ties, self._sizes)
            shifts = np.stack(steps, axis=1) + self._low
            others = self._coded(j, i, -shifts)
            if (pair := first_absent(others, ties)) is not None:
                return f"{self._described(pair)} is missing, and listed from the other side"
        return None

    def _coded(self, i: Ints, j: Ints, shifts: Ints) -> NDArray[np.int64]:
        """Return a number for each pair."""
        if not self.particles:
            return np.zeros(0, np.int64)
        return np.ravel_multi_index((i, j, *(shifts - self._low).T), self._sizes)

    def _described(self, code: int) -> str:
        i, j, *steps = map(int, np.unravel_index(code, self._sizes))
        return f"particle {i}: neighbour {j} with the shift {self._low + steps}"
