"""The oracle of neighbours and images: explicit images in SciPy's cKDTree, in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from gpubench.core.arrays import Ints, check_array, check_range, first_absent, first_true
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.images.contract import Images
from gpubench.problems.images.inputs import SystemSet

CHECKED = 2**22  # pairs; of more, those of some particles are checked
ROUNDING = 1e-5  # part of the cutoff within which pairs may be found or not


class Pairs(NamedTuple):
    """Pairs (i, j, shift): particles and neighbours, int64; shifts, int64, (pairs, 3)."""

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    shifts: NDArray[np.int64]
    distances: NDArray[np.float64]


def pairs_within(inputs: SystemSet, reach: float, rows: NDArray[np.int64]) -> Pairs:
    """Return the pairs of some particles that are at most `reach` apart.

    Every particle is wrapped into its cell and repeated wherever an image is within reach of the
    cell. Systems are then moved apart along x, so that one tree holds them all.
    """
    sizes = np.diff(inputs.offsets)
    system = np.repeat(np.arange(len(sizes)), sizes)
    inverse = np.linalg.inv(inputs.vectors)
    along = np.einsum("pc,pca->pa", inputs.positions.astype(np.float64), inverse[system])
    wraps = np.where(inputs.periodic, -np.floor(along), 0.0)
    # In parts of the vectors: how far a ball of this radius extends along each of them.
    margin = 1.001 * reach * np.linalg.norm(inverse, axis=1)
    along, moves, source = along + wraps, wraps, np.arange(len(along))
    for axis in np.flatnonzero(inputs.periodic):
        pieces = []
        most = int(np.ceil(margin[:, axis].max(initial=0.0)))
        for step in range(-most, most + 1):
            there, beyond = along[:, axis] + step, margin[system[source], axis]
            near = np.flatnonzero((there >= -beyond) & (there <= 1 + beyond))
            shift = np.where(np.arange(3) == axis, step, 0)
            pieces.append((along[near] + shift, moves[near] + shift, source[near]))
        along, moves, source = map(np.concatenate, zip(*pieces, strict=True))
    # From positions as given, since `along` is rounded.
    own, vectors = inputs.positions.astype(np.float64), inputs.vectors[system]
    places = own[source] + np.einsum("pa,pac->pc", moves, vectors[source])
    centres = own + np.einsum("pa,pac->pc", wraps, vectors)
    ends = np.concatenate((places[:, 0], centres[:, 0], [0.0]))
    apart = float(np.ptp(ends)) + 3 * reach
    for points, of in ((places, system[source]), (centres, system)):
        points[:, 0] += of * apart
    found = cKDTree(centres[rows]).sparse_distance_matrix(
        cKDTree(places), reach, output_type="ndarray"
    )
    i, j = rows[found["i"]], source[found["j"]]
    shifts = (moves[found["j"]] - wraps[i]).astype(np.int64)
    other = (i != j) | shifts.any(axis=1)
    return Pairs(*(each[other] for each in (i, j, shifts, found["v"])))


class ImageSearchOracle(Oracle):
    """Compare sets of (i, j, shift) of all particles or, if there are too many pairs, of some."""

    def __init__(self, inputs: SystemSet, exact: bool = False) -> None:
        self.particles = n = len(inputs.positions)
        ends = np.abs(inputs.positions).max(initial=0), np.abs(inputs.vectors).max(initial=0)
        # As that of other searches: float32's rounding of coordinates, and of images' shifts.
        tolerance = ROUNDING * inputs.cutoff + 8 * float(np.finfo(np.float32).eps) * max(ends)
        volume = np.abs(np.linalg.det(inputs.vectors)).min(initial=np.inf)
        density = np.diff(inputs.offsets).max(initial=0) / volume
        most = CHECKED / max(1.0, 4.2 * inputs.cutoff**3 * density)
        chosen = np.random.default_rng(n).permutation(n)[: max(1, int(min(most, n)))]
        self.rows = np.unique([0, n - 1, *chosen]) if n else np.zeros(0, np.int64)
        self._allowed = pairs_within(inputs, inputs.cutoff + tolerance, self.rows)
        self._required = self._allowed.distances < inputs.cutoff - tolerance
        ends_of = self._allowed.shifts
        self._low, self._high = ends_of.min(axis=0, initial=0), ends_of.max(axis=0, initial=0)

    def check(self, algorithm: Any) -> str | None:
        """Check the list of the last launch."""
        answer = self.answer_of(algorithm, Images)
        offsets, neighbours, shifts = map(
            algorithm.download, (answer.offsets, answer.neighbours, answer.shifts)
        )
        n = self.particles
        if problem := check_array("offsets", offsets, (n + 1,), np.int64):
            return problem
        counts = np.diff(offsets)
        if offsets[0] or (counts < 0).any():
            return f"offsets begin with {offsets[0]} and fall, or do not begin with 0"
        if problem := (
            check_array("neighbours", neighbours, (int(offsets[-1]),), np.int32)
            or check_array("shifts", shifts, (int(offsets[-1]), 3), np.int32)
            or check_range("neighbours", neighbours, 0, n)
        ):
            return problem
        if len(self.rows) < n:
            lengths = counts[self.rows]
            before = np.cumsum(lengths) - lengths
            place = np.arange(lengths.sum()) + np.repeat(offsets[self.rows] - before, lengths)
            neighbours, shifts, counts = neighbours[place], shifts[place], lengths
        i = np.repeat(self.rows, counts)
        return self._compare(i, neighbours.astype(np.int64), shifts.astype(np.int64))

    def _compare(self, i: Ints, j: Ints, shifts: Ints) -> str | None:
        outside = ((shifts < self._low) | (shifts > self._high)).any(axis=1)
        if (k := first_true(outside)) is not None:
            return f"particle {i[k]}: neighbour {j[k]} with the shift {shifts[k]} is too far"
        found = np.sort(self._coded(i, j, shifts))
        if (k := first_true(found[1:] == found[:-1])) is not None:
            return f"{self._described(found[k])} is listed twice"
        allowed = self._coded(*self._allowed[:3])
        if (pair := first_absent(np.sort(allowed[self._required]), found)) is not None:
            return f"{self._described(pair)} is missing"
        if (pair := first_absent(found, np.sort(allowed))) is not None:
            return f"{self._described(pair)} should not be listed"
        return None

    @property
    def _span(self) -> list[int]:
        return (self._high - self._low + 1).tolist()  # type: ignore[no-any-return]

    def _coded(self, i: Ints, j: Ints, shifts: Ints) -> NDArray[np.int64]:
        """Return a number for each pair."""
        code = i.astype(np.int64) * self.particles + j
        for along, low, span in zip(shifts.T, self._low, self._span, strict=True):
            code = code * span + (along - low)
        return code

    def _described(self, code: int) -> str:
        shift: list[int] = []
        for low, span in zip(self._low[::-1], self._span[::-1], strict=True):
            code, rest = divmod(int(code), int(span))
            shift.insert(0, rest + int(low))
        i, j = divmod(code, self.particles)
        return f"particle {i}: neighbour {j} with the shift {shift}"
