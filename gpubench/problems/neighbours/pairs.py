"""The reference neighbours: all pairs in float64, or a sample if there are too many."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from gpubench.base.threads import each, over, same
from gpubench.core.arrays import Ints, check_array, exclusive_sum, first_absent, first_true
from gpubench.core.grid import Grid
from gpubench.problems.neighbours.rows import check_no_self, check_rows, row_sums

# Up to these numbers of particles, and of pairs within the same cell, all pairs are checked.
FULL_PARTICLES, FULL_CANDIDATES = 2**18, 2**21
# For larger inputs: the number of sampled regions; the maximum sampled particles and their pairs.
REGIONS, SAMPLES, SAMPLED_PAIRS = 8, 2000, 2**17
RECOUNTED = 8  # maximum number of particles recounted if two answers differ
MOST_RIGHT = 4  # maximum number of correct lists whose row sums are kept for comparison


class NeighbourOracle:
    """The pairs of particles strictly nearer than the cutoff, by SciPy's cKDTree in float64.

    positions: float32, shape (particles, 4). Along periodic axes the nearest image counts, which is
    the only image within the cutoff if the axis is longer than twice the cutoff.
    grid: the box; None for an unbounded world, where only differences of positions matter.

    As algorithms work in float32, a pair whose distance is within `tolerance` of the cutoff may be
    found or not. With `exact` the tolerance is zero: for inputs whose coordinates and distances
    float32 represents exactly.
    """

    def __init__(
        self,
        positions: NDArray[np.float32],
        grid: Grid | None,
        cutoff: float,
        exact: bool = False,
    ) -> None:
        self.particles = len(positions)
        self.cutoff = cutoff
        size = np.asarray(grid.size if grid else (0.0,) * 3)
        periodic = grid.periodic if grid else (False,) * 3
        self.tolerance = tolerance_of(positions, grid, cutoff, exact)

        self._boxsize = np.where(periodic, size, 0.0)  # 0 if open, as in cKDTree
        if grid:
            self._xyz = in_box(positions, grid)
        else:
            self._xyz = positions[:, :3].astype(np.float64)
        reach = cutoff + self.tolerance
        # The tree rounds, and includes pairs at the radius itself: query a larger one, then select.
        tree = tree_of(self._xyz, self._boxsize)
        pairs = tree.query_pairs(reach * (1 + 1e-9), output_type="ndarray")
        squared = self._squared_distance(pairs[:, 0], pairs[:, 1])
        within = squared < reach**2
        self._allowed = pairs[within]
        self._required = squared[within] < max(cutoff - self.tolerance, 0.0) ** 2
        self._right: list[NDArray[np.uint64]] = []

    def check_counts(self, counts: Ints) -> str | None:
        """Check the number of neighbours of each particle, int32, shape (particles,)."""
        if problem := check_array("counts", counts, (self.particles,), np.int32):
            return problem
        least, most = self._least_and_most
        if (i := first_true((counts < least) | (counts > most))) is not None:
            expected = f"{least[i]}" if least[i] == most[i] else f"{least[i]} to {most[i]}"
            return f"particle {i} has {counts[i]} neighbours, expected {expected}"
        if (total := int(counts.sum(dtype=np.int64))) % 2:
            return f"the counts add up to {total}, expected an even number: pairs have two sides"
        return None

    def check_list(self, counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
        """Check the neighbours of each particle, in any order within its row.

        counts, offsets, neighbours: as in Neighbours.
        """
        if problem := check_rows(self.particles, counts, offsets, neighbours):
            return problem
        weights, expected = self._weights
        sums = row_sums(offsets, neighbours, weights)
        if any(same(sums, right) for right in self._right):
            return None
        differ = np.flatnonzero(sums != expected)
        if problem := self._check_some(differ, counts, offsets, neighbours):
            return problem
        self._right = [*self._right[1 - MOST_RIGHT :], sums]
        return None

    def _check_some(
        self, rows: NDArray[np.intp], counts: Ints, offsets: Ints, neighbours: Ints
    ) -> str | None:
        """Check the given rows pair by pair; all others are known to list every permitted pair."""
        n, lengths = self.particles, counts[rows]
        # The position of each entry: row start plus offset in the row.
        place = np.arange(lengths.sum()) + np.repeat(
            offsets[rows] - exclusive_sum(lengths)[:-1], lengths
        )
        row, column = np.repeat(rows, lengths), neighbours[place].astype(np.int64)
        if (k := first_true(row == column)) is not None:
            return f"particle {row[k]} is listed as its own neighbour"

        # Code pairs (i, j) as numbers i * n + j, so that sets of pairs are sorted arrays.
        found = np.sort(row * n + column)
        if (k := first_true(found[1:] == found[:-1])) is not None:
            i, j = divmod(int(found[k]), n)
            return f"particle {i} has neighbour {j} twice"
        allowed, required = self._ordered_pairs(rows)
        if (pair := first_absent(required, found)) is not None:
            return f"particle {self._describe(pair)} is missing"
        if (pair := first_absent(found, allowed)) is not None:
            return f"particle {self._describe(pair)} should not be listed"
        left_out = np.setdiff1d(allowed, found, assume_unique=True)
        mirrored = np.sort(left_out % n * n + left_out // n)
        if (pair := first_absent(mirrored, left_out)) is not None:
            i, j = divmod(pair, n)
            return f"particle {i} has neighbour {j}, but particle {j} does not have {i}"
        return None

    @cached_property
    def _least_and_most(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The minimum and maximum number of neighbours of each particle."""
        least = np.bincount(self._allowed[self._required].ravel(), minlength=self.particles)
        return least, np.bincount(self._allowed.ravel(), minlength=self.particles)

    @cached_property
    def _weights(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """A random number per particle, and for each row the sum over its permitted neighbours."""
        weights = _random_words(np.random.default_rng(self.particles), self.particles)
        sums = np.zeros(self.particles, np.uint64)
        for row, column in (self._allowed.T, self._allowed.T[::-1]):
            np.add.at(sums, row, weights[column])
        return weights, sums

    def _ordered_pairs(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the permitted and the required pairs of some rows, as sorted row * n + column."""
        wanted = np.zeros(self.particles, np.bool_)
        wanted[rows] = True

        def of_rows(pairs: NDArray[np.intp]) -> NDArray[np.int64]:
            both = [
                row[wanted[row]].astype(np.int64) * self.particles + column[wanted[row]]
                for row, column in (pairs.T, pairs.T[::-1])
            ]
            return np.sort(np.concatenate(both))

        return of_rows(self._allowed), of_rows(self._allowed[self._required])

    def _squared_distance(
        self, first: NDArray[np.intp], second: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        total = np.zeros(len(first))
        for along, edge in zip(self._xyz.T, self._boxsize, strict=True):
            apart = np.abs(along[first] - along[second])
            if edge:
                apart = np.minimum(apart, edge - apart)
            total += apart**2
        return total

    def _describe(self, pair: int) -> str:
        i, j = divmod(pair, self.particles)
        distance = float(np.sqrt(self._squared_distance(np.array([i]), np.array([j])))[0])
        return f"{i}: neighbour {j} at distance {distance:.9g} (cutoff {self.cutoff:.9g})"


def tolerance_of(
    positions: NDArray[np.float32], grid: Grid | None, cutoff: float, exact: bool
) -> float:
    """Return the error bound of distances in float32, including the rounding of cells."""
    if exact:
        return 0.0
    # With u = 2^-24, half of float32's epsilon, and no coordinate or edge above `scale`:
    # - a pair within the cutoff can be two cells apart only if its cell coordinates are rounded, by
    #   at most 5 u scale each (low, subtraction, inverse, product): together 10 u scale;
    # - a distance errs by 3 u scale along an axis (difference, edge, image), hence by 3 sqrt(3) u
    #   scale; squaring it and the cutoff adds less than 4 u scale.
    # 16 u scale covers either error. Without a box, cells are exact, differences of positions are
    # rounded once, and the compared values are of the order of the cutoff.
    scale = cutoff
    if grid:
        low, size = np.asarray(grid.low), np.asarray(grid.size)
        largest = max(abs(float(e)) for e in (positions.min(initial=0), positions.max(initial=0)))
        scale = max(float(np.abs([low, low + size, size]).max()), largest)
    return 8 * float(np.finfo(np.float32).eps) * scale


def _random_words(rng: np.random.Generator, particles: int) -> NDArray[np.uint64]:
    return rng.integers(0, 2**64, particles, np.uint64, endpoint=False)


def neighbour_oracle(
    positions: NDArray[np.float32], grid: Grid, cutoff: float, exact: bool = False
) -> NeighbourOracle | SampledNeighbourOracle:
    """Return an oracle that checks all pairs if they are few enough, else samples."""
    if len(positions) <= FULL_PARTICLES:
        inside = np.bincount(grid.cell_ids(positions), minlength=1).astype(np.float64)
        if float((inside**2).sum()) <= FULL_CANDIDATES:
            return NeighbourOracle(positions, grid, cutoff, exact)
    return SampledNeighbourOracle(positions, grid, cutoff, exact)


@dataclass(frozen=True)
class _Sample:
    """A sample of particles, and all their possible neighbours.

    queries: int64, the sampled particles, sorted. allowed, required: the pairs that an answer may
        and must contain, sorted, each as the number row * particles + neighbour.
    least, most: the minimum and maximum number of neighbours of each sampled particle.
    """

    queries: NDArray[np.int64]
    allowed: NDArray[np.int64]
    required: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


class SampledNeighbourOracle:
    """NeighbourOracle for large inputs: checks samples exactly, and sums over all particles.

    In regions around two corners of the box, the first and the last particle, and some random ones,
    up to SAMPLES particles each (fewer if they have over SAMPLED_PAIRS neighbours) are compared
    with SciPy in float64. For all particles, the symmetry of pairs is checked: counts must add up
    to an even number, and the randomly weighted terms of (i, j) and (j, i) must cancel. Where the
    counts of two answers differ, some particles are recounted to decide which answer is wrong.
    """

    def __init__(
        self, positions: NDArray[np.float32], grid: Grid, cutoff: float, exact: bool = False
    ) -> None:
        self.particles = len(positions)
        self.cutoff = cutoff
        self.tolerance = tolerance_of(positions, grid, cutoff, exact)
        self._positions, self._grid = positions, grid
        rng = np.random.default_rng(self.particles)
        low, size = np.asarray(grid.low, np.float32), np.asarray(grid.size, np.float32)
        drawn = [0, self.particles - 1, *rng.integers(0, self.particles, REGIONS - 4)]
        places = [low, low + size, *positions[drawn, :3]]
        drawn_about = [*zip(places, rng.spawn(len(places)), strict=True)]
        self._samples = each(drawn_about, lambda place: self._sample(*place))
        self._counts: Ints | None = None
        self._right: list[NDArray[np.uint64]] = []

    @cached_property
    def _weights(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Two random numbers per particle, drawn only to check lists."""
        rng = np.random.default_rng((self.particles, 1))
        return _random_words(rng, self.particles), _random_words(rng, self.particles)

    def _sample(self, place: NDArray[np.float32], rng: np.random.Generator) -> _Sample:
        """Sample particles in a cube around a position, and find their neighbours."""
        per_cutoff = self.particles * self.cutoff**3 / float(np.prod(self._grid.size))
        half = self.cutoff * max(2.0, (SAMPLES / per_cutoff) ** (1 / 3) / 2)
        near, inside = self._near(place, half)
        queries = near[inside]
        if len(queries) > SAMPLES:
            queries = np.sort(rng.choice(queries, SAMPLES, replace=False))
        tree, reach = self._tree(near), self.cutoff + self.tolerance
        # In crowded regions, sample fewer: about SAMPLED_PAIRS neighbours in total.
        asked = in_box(self._positions[queries], self._grid)
        there = tree.query_ball_point(asked, reach, return_length=True, workers=-1)
        few = np.sort(rng.permutation(len(queries))[: _fitting(there, SAMPLED_PAIRS)])
        return self._neighbours_of(queries[few], near, tree)

    def _near(
        self, place: NDArray[np.float32], half: float
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the particles within the cutoff of a cube, and which of them are inside it."""
        reach = half + 1.001 * (self.cutoff + self.tolerance)
        near = self._within(place, 0, reach)
        inside = np.ones(len(near), np.bool_)
        for axis in range(3):
            apart = self._apart(self._positions[near, axis], place, axis)
            within = apart < reach
            near, inside = near[within], (inside & (apart < half))[within]
        return near, inside

    def _within(self, place: NDArray[np.float32], axis: int, reach: float) -> NDArray[np.intp]:
        """Return all particles within `reach` of a position along one axis."""
        along = self._positions[:, axis]

        def part(begin: int, end: int) -> NDArray[np.intp]:
            return begin + np.flatnonzero(self._apart(along[begin:end], place, axis) < reach)

        return np.concatenate([np.empty(0, np.intp), *over(self.particles, part)])

    def _apart(
        self, along: NDArray[np.float32], place: NDArray[np.float32], axis: int
    ) -> NDArray[np.float32]:
        """Return the distances of coordinates from a position along an axis, by nearest image."""
        apart: NDArray[np.float32] = along - place[axis]
        if self._grid.periodic[axis]:
            size = np.float32(self._grid.size[axis])
            apart -= size * np.rint(apart / size)
        return np.abs(apart, out=apart)

    def _tree(self, particles: NDArray[np.intp]) -> cKDTree:
        boxsize = np.where(self._grid.periodic, self._grid.size, 0.0)
        return tree_of(in_box(self._positions[particles], self._grid), boxsize)

    def _neighbours_of(
        self, queries: NDArray[np.intp], near: NDArray[np.intp], tree: cKDTree
    ) -> _Sample:
        """Find the neighbours of some particles among nearby candidates, given as a tree."""
        reach, n = self.cutoff + self.tolerance, self.particles
        boxsize = np.where(self._grid.periodic, self._grid.size, 0.0)
        asked = in_box(self._positions[queries], self._grid)
        found = tree.query_ball_point(asked, reach * (1 + 1e-9), workers=-1)
        lengths = np.array([len(one) for one in found], np.int64)
        row = np.repeat(np.arange(len(queries)), lengths)
        column = np.concatenate([np.empty(0, np.int64), *map(np.asarray, found)]).astype(np.int64)
        apart = np.abs(asked[row] - np.asarray(tree.data)[column])
        apart = np.minimum(apart, np.where(boxsize > 0, boxsize - apart, np.inf))
        squared = (apart**2).sum(axis=1)
        numbers = queries[row] * n + near[column]
        allowed = (queries[row] != near[column]) & (squared < reach**2)
        required = allowed & (squared < max(self.cutoff - self.tolerance, 0.0) ** 2)
        return _Sample(
            queries,
            np.sort(numbers[allowed]),
            np.sort(numbers[required]),
            least=np.bincount(row[required], minlength=len(queries)),
            most=np.bincount(row[allowed], minlength=len(queries)),
        )

    def check_counts(self, counts: Ints) -> str | None:
        """Check the number of neighbours of each particle, int32, shape (particles,)."""
        if self._counts is not None and same(counts, self._counts):
            return check_array("counts", counts, (self.particles,), np.int32)
        return self._check_sums(counts) or self._check_against_another(counts)

    def _check_sums(self, counts: Ints) -> str | None:
        """Check the counts of the samples, and that all counts add up to an even number."""
        if problem := check_array("counts", counts, (self.particles,), np.int32):
            return problem
        for sample in self._samples:
            if problem := _check_sampled(sample, counts):
                return problem
        if (total := int(counts.sum(dtype=np.int64))) % 2:
            return f"the counts add up to {total}, expected an even number: pairs have two sides"
        return None

    def _check_against_another(self, counts: Ints) -> str | None:
        """If counts differ from another answer's, recount to find the wrong answer.

        At most RECOUNTED differing particles are checked; pairs within rounding of the cutoff may
        be counted or not.
        """
        if self._counts is None:
            self._counts = counts.copy()
            return None
        differ = np.flatnonzero(counts != self._counts)
        rng = np.random.default_rng(len(differ))
        chosen = rng.choice(differ, min(len(differ), RECOUNTED), replace=False)
        for particle in np.sort(chosen):
            near, _ = self._near(self._positions[particle, :3], 0.0)
            sample = self._neighbours_of(np.array([particle]), near, self._tree(near))
            if problem := _check_sampled(sample, counts):
                return problem
            if _check_sampled(sample, self._counts):
                # The other answer is wrong; its next check will report that.
                self._counts = counts.copy()
                return None
        return None

    def check_list(self, counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
        """Check the neighbours of each particle; see NeighbourOracle.

        A list with the same rows as a correct list, each in any order, needs no further check.
        """
        if problem := check_rows(self.particles, counts, offsets, neighbours):
            return problem
        a, b = self._weights
        sums_b = row_sums(offsets, neighbours, b)
        if not any(same(sums_b, right) for right in self._right):
            problem = check_no_self(counts, offsets, neighbours) or self._check_sums(counts)
            if problem or (problem := self._check_samples(counts, offsets, neighbours)):
                return problem
            # Each pair (i, j) adds a_i b_j - b_i a_j, which the pair (j, i) cancels, modulo 2^64.
            sums_a = row_sums(offsets, neighbours, a)
            if int((a * sums_b - b * sums_a).sum(dtype=np.uint64)):
                return "some particle has a neighbour that does not have it"
            self._right = [*self._right[1 - MOST_RIGHT :], sums_b]
        return self._check_against_another(counts)

    def _check_samples(self, counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
        """Check the neighbours of all sampled particles."""
        n = self.particles
        for sample in self._samples:
            row = np.repeat(sample.queries, counts[sample.queries])
            inside = [neighbours[offsets[i] : offsets[i + 1]] for i in sample.queries]
            found = np.sort(row * n + np.concatenate([np.empty(0, np.int64), *inside]))
            if (k := first_true(found[1:] == found[:-1])) is not None:
                i, j = divmod(int(found[k]), n)
                return f"particle {i} has neighbour {j} twice"
            if (pair := first_absent(sample.required, found)) is not None:
                return f"particle {pair // n}: neighbour {pair % n} is missing"
            if (pair := first_absent(found, sample.allowed)) is not None:
                return f"particle {pair // n}: neighbour {pair % n} should not be listed"
        return None


def _check_sampled(sample: _Sample, counts: Ints) -> str | None:
    """Check the number of neighbours of each particle of a sample."""
    found = counts[sample.queries]
    if (k := first_true((found < sample.least) | (found > sample.most))) is None:
        return None
    low, high = sample.least[k], sample.most[k]
    expected = f"{low}" if low == high else f"{low} to {high}"
    return f"particle {sample.queries[k]} has {found[k]} neighbours, expected {expected}"


def _fitting(lengths: NDArray[np.int64], total: int) -> int:
    """Return how many rows, of mean length, hold `total` entries; at least 1 if there are any."""
    return (
        min(len(lengths), 1 + int(total / max(1.0, float(np.mean(lengths))))) if len(lengths) else 0
    )


def tree_of(xyz: NDArray[np.float64], boxsize: NDArray[np.float64]) -> cKDTree:
    """Return a tree of points in a box; boxsize is 0 along open axes."""
    # In an open box, pass no `boxsize`: a search then takes half the time.
    return cKDTree(xyz, boxsize=boxsize if boxsize.any() else None)


def in_box(positions: NDArray[np.float32], grid: Grid) -> NDArray[np.float64]:
    """Return float64 coordinates relative to the low corner, wrapped along periodic axes."""
    return np.stack([_along(positions, grid, axis) for axis in range(3)], axis=1)


def _along(positions: NDArray[np.float32], grid: Grid, axis: int) -> NDArray[np.float64]:
    """Return the coordinates along one axis, as in `in_box`."""
    along = positions[:, axis].astype(np.float64) - grid.low[axis]
    if grid.periodic[axis]:
        wrapped = along % grid.size[axis]
        along = np.where(wrapped < grid.size[axis], wrapped, 0.0)
    return along
