"""Right answers by NumPy and SciPy, to compare every algorithm's answer with.

Each check returns None for a right answer, else one sentence that names the first thing wrong.
Answers are not trusted: shapes, types and ranges are checked before any value is used as an
index. Time and memory grow linearly with the particles (and with the pairs, for neighbours).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order
from scipy.spatial import cKDTree

from gpubench.core.answers import NULL
from gpubench.core.grid import Grid
from gpubench.physics.noise import pair_noise

Ints = NDArray[np.integer[Any]]

# Up to so many particles, with so many candidates in their own cells, all pairs are listed.
FULL_PARTICLES, FULL_CANDIDATES = 2**18, 2**21
# Of an input with more of either: regions, particles in each at most, and pairs of these.
REGIONS, SAMPLES, SAMPLED_PAIRS = 8, 2000, 2**17
RECOUNTED = 8  # of the particles whose counts differ between two answers
SLABS = 2**16  # by which an input is sorted along x; their numbers fit into 16 bits
ROWS = 2**16  # rows of a list that are unpacked together
NOISE_BLOCK = 2**14  # pairs whose numbers are computed together, so that they stay in a cache


def check_cell_ids(expected: NDArray[np.int32], found: Ints) -> str | None:
    """Compare cell ids, int32, shape (particles,), with those that NumPy computed."""
    if problem := _check_array("cell_of", found, expected.shape, np.int32):
        return problem
    if (i := _first(found != expected)) is not None:
        return f"particle {i} is in cell {expected[i]}, found {found[i]}"
    return None


def check_linked(cell_of: NDArray[np.int32], cells: int, head: Ints, next: Ints) -> str | None:
    """Check linked lists: each particle exactly once, in its own cell's list, every list ends.

    cell_of: int32, shape (particles,), each in [0, cells); the right cell of each particle.
    head: int32, shape (cells,), and next: int32, shape (particles,), as in LinkedCells.
    """
    particles = len(cell_of)
    problem = (
        _check_array("head", head, (cells,), np.int32)
        or _check_array("next", next, (particles,), np.int32)
        or _check_range("head", head, NULL, particles)
        or _check_range("next", next, NULL, particles)
    )
    if problem:
        return problem
    filled, linked = np.flatnonzero(head != NULL), np.flatnonzero(next != NULL)
    first, after = head[filled], next[linked]

    if (k := _first(cell_of[first] != filled)) is not None:
        return f"cell {filled[k]} starts with particle {first[k]} of cell {cell_of[first[k]]}"
    if (k := _first(cell_of[after] != cell_of[linked])) is not None:
        i, j = linked[k], after[k]
        return (
            f"particle {j} of cell {cell_of[j]} is linked after particle {i} of cell {cell_of[i]}"
        )
    seen = np.bincount(first, minlength=particles) + np.bincount(after, minlength=particles)
    if (i := _first(seen != 1)) is not None:
        return f"particle {i} of cell {cell_of[i]} is in the lists {seen[i]} times, expected once"

    # Each particle is now pointed to once, from its own cell. What can still be wrong is a
    # closed ring that no head leads to: follow all lists from their heads at once.
    row_ends = np.concatenate(([0], np.cumsum(next != NULL), [particles]))
    links = csr_array(
        (np.ones(particles), np.concatenate((after, first)), row_ends),
        shape=(particles + 1, particles + 1),
    )
    reached = np.zeros(particles + 1, bool)
    reached[breadth_first_order(links, particles, return_predecessors=False)] = True
    if (i := _first(~reached)) is not None:
        return f"particle {i} is not reached from the head of cell {cell_of[i]}: its list is a ring"
    return None


def check_sorted(
    cell_of: NDArray[np.int32],
    cells: int,
    start: Ints,
    order: Ints,
    positions: NDArray[np.float32] | None = None,
    reordered: NDArray[np.float32] | None = None,
) -> str | None:
    """Check particles in order of their cells: each exactly once, between its cell's bounds.

    cell_of: int32, shape (particles,), each in [0, cells); the right cell of each particle.
    start: int32, shape (cells + 1,), and order: int32, shape (particles,), as in SortedCells.
    positions, reordered: float32, shape (particles, 4); where both are given, reordered must
        be positions[order] bit for bit.
    """
    particles = len(cell_of)
    problem = (
        _check_array("start", start, (cells + 1,), np.int32)
        or _check_array("order", order, (particles,), np.int32)
        or _check_range("order", order, 0, particles)
    )
    if problem:
        return problem
    per_cell = np.bincount(cell_of, minlength=cells)
    expected = _exclusive_sum(per_cell)
    if (c := _first(start != expected)) is not None:
        where = f"for cell {c}" if c < cells else "at the end"
        return f"start[{c}] is {start[c]} {where}, expected {expected[c]}"
    problem = _check_order("cell", cell_of, per_cell, order)
    if problem or positions is None or reordered is None:
        return problem
    return _check_reordered(positions, order, reordered)


def check_hashed(
    bucket_of: NDArray[np.int32],
    buckets: int,
    bounds: Ints,
    order: Ints,
    positions: NDArray[np.float32],
    reordered: NDArray[np.float32],
) -> str | None:
    """Check particles in order of their buckets: each exactly once, between its bucket's bounds.

    bucket_of: int32, shape (particles,), each in [0, buckets); the right bucket of each particle.
    bounds: int32, shape (buckets, 2), order: int32, shape (particles,), and reordered, as in
        HashedCells; empty buckets must be flagged.
    positions: float32, shape (particles, 4), what was hashed.
    """
    particles = len(bucket_of)
    problem = (
        _check_array("bounds", bounds, (buckets, 2), np.int32)
        or _check_array("order", order, (particles,), np.int32)
        or _check_range("order", order, 0, particles)
    )
    if problem:
        return problem
    per_bucket = np.bincount(bucket_of, minlength=buckets)
    start = _exclusive_sum(per_bucket)
    expected = np.stack((start[:-1], start[1:]), axis=1)
    expected[per_bucket == 0] = NULL
    if (b := _first((bounds != expected).any(axis=1))) is not None:
        return f"bounds[{b}] is {bounds[b].tolist()}, expected {expected[b].tolist()}"
    return _check_order("bucket", bucket_of, per_bucket, order) or _check_reordered(
        positions, order, reordered
    )


def _check_order(
    kind: str, group_of: NDArray[np.int32], per_group: Ints, order: Ints
) -> str | None:
    """Check that `order` holds each particle once, among those of its own cell or bucket."""
    seen = np.bincount(order, minlength=len(group_of))
    if (i := _first(seen != 1)) is not None:
        return (
            f"particle {i} of {kind} {group_of[i]} is in the order {seen[i]} times, expected once"
        )
    owner = np.repeat(np.arange(len(per_group), dtype=np.int32), per_group)
    if (k := _first(group_of[order] != owner)) is not None:
        return (
            f"order[{k}], in the range of {kind} {owner[k]}, is particle {order[k]}"
            f" of {kind} {group_of[order[k]]}"
        )
    return None


def _check_reordered(
    positions: NDArray[np.float32], order: Ints, reordered: NDArray[np.float32]
) -> str | None:
    """Check that positions were brought into an order bit for bit."""
    if problem := _check_array("positions", reordered, positions.shape, positions.dtype):
        return problem
    # As bits, so that a NaN equals itself and -0.0 differs from 0.0.
    wanted = positions[order].view(np.uint32)
    wrong = (np.ascontiguousarray(reordered).view(np.uint32) != wanted).any(axis=1)
    if (k := _first(wrong)) is not None:
        return (
            f"positions[{k}] is {reordered[k].tolist()}, expected"
            f" {positions[order[k]].tolist()} of particle {order[k]}"
        )
    return None


def check_compacted(
    kept: NDArray[np.float32], records: NDArray[Any], count: Ints, stable: bool
) -> str | None:
    """Check the records that a filter kept, bit for bit, as they were or as a multiset of rows.

    kept: float32, shape (kept, words), the right ones in their order.
    records: float32, shape (at least kept, words); nothing is asked of the rows after them.
    count: int32, shape (1,). stable: whether the order must be that of `kept`.
    """
    expected, words = kept.shape
    if problem := _check_array("count", count, (1,), np.int32):
        return problem
    if count[0] != expected:
        return f"count is {count[0]}, expected {expected}"
    if records.ndim != 2 or len(records) < expected or records.shape[1] != words:
        return f"records has shape {records.shape}, expected ({expected} or more, {words})"
    if records.dtype != np.float32:
        return f"records has type {records.dtype}, expected float32"
    # As bits: a NaN keeps its payload, and -0.0 differs from 0.0.
    found, wanted = (
        np.ascontiguousarray(rows).view(np.uint32) for rows in (records[:expected], kept)
    )
    if not stable:
        found, wanted = (rows[np.lexsort(rows.T)] for rows in (found, wanted))
    if (k := _first((found != wanted).any(axis=1))) is not None:
        place = f"record {k}" if stable else f"record {k} in sorted order"
        return f"{place} is {_bits(found[k])}, expected {_bits(wanted[k])}"
    return None


def check_limited(
    cell_of: NDArray[np.int32],
    cells: int,
    count: Ints,
    slots: Ints,
    lost: Ints,
    allow_overflow: bool,
) -> str | None:
    """Check cells of limited capacity: each kept particle once and in its cell, full cells full.

    cell_of: int32, shape (particles,), each in [0, cells); the right cell of each particle.
    count, slots, lost, allow_overflow: as in LimitedCells.
    """
    particles, capacity = len(cell_of), slots.shape[-1]
    problem = (
        _check_array("count", count, (cells,), np.int32)
        or _check_array("slots", slots, (cells, capacity), np.int32)
        or _check_array("lost", lost, (1,), np.int32)
    )
    if problem:
        return problem
    per_cell = np.bincount(cell_of, minlength=cells)
    if (c := _first(count != per_cell)) is not None:
        return f"cell {c} counts {count[c]} particles, expected {per_cell[c]}"
    kept_per_cell = np.minimum(per_cell, capacity)
    kept = slots[np.arange(capacity) < kept_per_cell[:, None]]
    owner = np.repeat(np.arange(cells), kept_per_cell)
    if (k := _first((kept < 0) | (kept >= particles))) is not None:
        return f"cell {owner[k]} holds {kept[k]}, expected particles 0 to {particles - 1}"
    if (k := _first(cell_of[kept] != owner)) is not None:
        return f"cell {owner[k]} holds particle {kept[k]} of cell {cell_of[kept[k]]}"
    seen = np.bincount(kept, minlength=particles)
    if (i := _first(seen > 1)) is not None:
        return f"particle {i} of cell {cell_of[i]} is kept {seen[i]} times, expected once"
    if lost[0] != particles - len(kept):
        return f"{lost[0]} particles are reported as lost, but {particles - len(kept)} are"
    if lost[0] and not allow_overflow:
        return (
            f"{lost[0]} of {particles} particles are lost: up to {per_cell.max()} lie in a cell"
            f" of capacity {capacity}"
        )
    return None


def check_noise(
    expected: NDArray[np.float32],
    found: NDArray[Any],
    i: NDArray[np.int32],
    j: NDArray[np.int32],
    step: int,
) -> str | None:
    """Compare random numbers of pairs, bit for bit.

    expected, found: float32, shape (steps, pairs), of the pairs (i, j) from `step` on.
    """
    if problem := _check_array("values", found, expected.shape, np.float32):
        return problem
    if (k := _first((found.view(np.uint32) != expected.view(np.uint32)).ravel())) is not None:
        after, pair = divmod(k, len(i))
        return (
            f"the pair ({i[pair]}, {j[pair]}) has {found[after, pair]!s} in step {step + after},"
            f" expected {expected[after, pair]!s}"
        )
    return None


def noise(
    generator: str,
    i: NDArray[np.int32],
    j: NDArray[np.int32],
    step: int,
    key: int,
    steps: int,
) -> NDArray[np.float32]:
    """Return the random numbers of pairs, float32, shape (steps, pairs), from `step` on.

    generator: one of physics.noise.GENERATORS. i, j: int32, shape (pairs,). key: the seed.
    """
    first, second = i.view(np.uint32), j.view(np.uint32)
    values = np.empty((steps, len(i)), np.float32)
    for after in range(steps):
        for start in range(0, len(i), NOISE_BLOCK):
            block = slice(start, start + NOISE_BLOCK)
            clock = (step + after) % 2**64
            values[after, block] = pair_noise(first[block], second[block], clock, key, generator)
    return values


class NeighbourOracle:
    """The pairs of particles strictly nearer than the cutoff, by SciPy's cKDTree in float64.

    positions: float32, shape (particles, 4). A periodic axis counts the nearest image, which
    is the only one within the cutoff as long as the axis is longer than twice the cutoff.
    grid: the box; None for a world without one, where nothing is taken from positions but
    differences.

    An algorithm works in float32, so a pair may go either way when its distance is within
    `tolerance` of the cutoff. With `exact` the tolerance is zero: for inputs whose coordinates
    and distances float32 represents exactly.
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
        self.tolerance = _tolerance(positions, grid, cutoff, exact)

        self._boxsize = np.where(periodic, size, 0.0)  # 0 where open, as cKDTree has it
        if grid:
            self._xyz = _in_box(positions, grid)
        else:
            self._xyz = positions[:, :3].astype(np.float64)
        reach = cutoff + self.tolerance
        # The tree includes the radius itself, and rounds: take a little more, then select.
        tree = cKDTree(self._xyz, boxsize=self._boxsize)
        pairs = tree.query_pairs(reach * (1 + 1e-9), output_type="ndarray")
        squared = self._squared_distance(pairs[:, 0], pairs[:, 1])
        within = squared < reach**2
        self._allowed = pairs[within]
        self._required = squared[within] < max(cutoff - self.tolerance, 0.0) ** 2

    def check_counts(self, counts: Ints) -> str | None:
        """Check the number of neighbours of each particle, int32, shape (particles,)."""
        if problem := _check_array("counts", counts, (self.particles,), np.int32):
            return problem
        least, most = self._least_and_most
        if (i := _first((counts < least) | (counts > most))) is not None:
            expected = f"{least[i]}" if least[i] == most[i] else f"{least[i]} to {most[i]}"
            return f"particle {i} has {counts[i]} neighbours, expected {expected}"
        if (total := int(counts.sum(dtype=np.int64))) % 2:
            return f"the counts add up to {total}, expected an even number: pairs have two sides"
        return None

    def check_list(self, counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
        """Check the neighbours of each particle, in any order within its row.

        counts: int32, shape (particles,). offsets: int64, shape (particles + 1,).
        neighbours: int32, shape (offsets[-1],). As in Neighbours.
        """
        n = self.particles
        if problem := _check_rows(n, counts, offsets, neighbours):
            return problem

        # A pair (i, j) as one number, i * n + j, so that sets of pairs are sorted arrays.
        row, column = np.repeat(np.arange(n), counts), neighbours.astype(np.int64)
        found = np.sort(row * n + column)
        if (k := _first(found[1:] == found[:-1])) is not None:
            i, j = divmod(int(found[k]), n)
            return f"particle {i} has neighbour {j} twice"
        allowed, required = self._ordered_pairs
        if (pair := _first_absent(required, found)) is not None:
            return f"particle {self._describe(pair)} is missing"
        if (pair := _first_absent(found, allowed)) is not None:
            return f"particle {self._describe(pair)} should not be listed"
        mirrored = np.sort(column * n + row)
        if (pair := _first_absent(found, mirrored)) is not None:
            i, j = divmod(pair, n)
            return f"particle {i} has neighbour {j}, but particle {j} does not have {i}"
        return None

    @cached_property
    def _least_and_most(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many neighbours each particle must have, and may."""
        least = np.bincount(self._allowed[self._required].ravel(), minlength=self.particles)
        return least, np.bincount(self._allowed.ravel(), minlength=self.particles)

    @cached_property
    def _ordered_pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Both sides of every allowed pair and of every required pair, as sorted numbers."""

        def both_sides(pairs: NDArray[np.intp]) -> NDArray[np.int64]:
            low, high = pairs.astype(np.int64).T
            return np.sort(
                np.concatenate((low * self.particles + high, high * self.particles + low))
            )

        return both_sides(self._allowed), both_sides(self._allowed[self._required])

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


def _tolerance(
    positions: NDArray[np.float32], grid: Grid | None, cutoff: float, exact: bool
) -> float:
    """Return by how much a distance may be wrong that float32 computed, cells included."""
    if exact:
        return 0.0
    # With u = 2^-24, half of float32's epsilon, and no coordinate or edge above `scale`:
    # - a pair straddles two cells or more only by the rounding of its cell coordinates, at
    #   most 5 u scale each (low, subtraction, inverse, product), so 10 u scale together;
    # - a distance errs by 3 u scale along an axis (difference, edge, image), so by
    #   3 sqrt(3) u scale, and its square and that of the cutoff by less than 4 u scale.
    # 16 u scale covers either. Without a box cells are exact, differences of positions are
    # rounded once, and what is compared is of the size of the cutoff.
    scale = cutoff
    if grid:
        low, size = np.asarray(grid.low), np.asarray(grid.size)
        largest = max(abs(float(e)) for e in (positions.min(initial=0), positions.max(initial=0)))
        scale = max(float(np.abs([low, low + size, size]).max()), largest)
    return 8 * float(np.finfo(np.float32).eps) * scale


def _check_rows(particles: int, counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
    """Check shapes, types and ranges of a list of neighbours, and that no particle is its own."""
    problem = (
        _check_array("counts", counts, (particles,), np.int32)
        or _check_range("counts", counts, 0, max(particles, 1))
        or _check_array("offsets", offsets, (particles + 1,), np.int64)
    )
    if problem:
        return problem
    sums = _exclusive_sum(counts)
    if (i := _first(offsets != sums)) is not None:
        return f"offsets[{i}] is {offsets[i]}, expected {sums[i]}, the sum of the counts before"
    problem = _check_array("neighbours", neighbours, (int(sums[-1]),), np.int32) or _check_range(
        "neighbours", neighbours, 0, particles
    )
    if problem:
        return problem
    for begin in range(0, particles, ROWS):
        rows = np.arange(begin, min(begin + ROWS, particles), dtype=np.int32)
        own = np.repeat(rows, counts[rows])
        if (k := _first(own == neighbours[sums[begin] : sums[rows[-1] + 1]])) is not None:
            return f"particle {own[k]} is listed as its own neighbour"
    return None


def neighbour_oracle(
    positions: NDArray[np.float32], grid: Grid, cutoff: float, exact: bool = False
) -> NeighbourOracle | SampledNeighbourOracle:
    """Return the oracle of all pairs where they are few enough, else that of samples."""
    if len(positions) <= FULL_PARTICLES:
        inside = np.bincount(grid.cell_ids(positions), minlength=1).astype(np.float64)
        if float((inside**2).sum()) <= FULL_CANDIDATES:
            return NeighbourOracle(positions, grid, cutoff, exact)
    return SampledNeighbourOracle(positions, grid, cutoff, exact)


@dataclass(frozen=True)
class _Sample:
    """Some particles, and all that may be their neighbours.

    queries: int64, the particles asked about, sorted. allowed, required: both sides' numbers
        row * particles + neighbour of their pairs, sorted, as in NeighbourOracle.
    """

    queries: NDArray[np.int64]
    allowed: NDArray[np.int64]
    required: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


class SampledNeighbourOracle:
    """As NeighbourOracle, where all pairs are too many to list: exact in places, sums everywhere.

    In regions about two corners of the box, about the first and the last particle, and about some
    that are drawn at random, neighbours are those that SciPy finds in float64, for up to SAMPLES
    particles in each (fewer where these have over SAMPLED_PAIRS neighbours). Of all particles it is
    checked that pairs have two sides: counts add up to an even number; weighted with random
    numbers, what rows list adds up to the same from either side. Where two answers differ in a
    count, a recount of some such particles says which of them is wrong.
    """

    def __init__(
        self, positions: NDArray[np.float32], grid: Grid, cutoff: float, exact: bool = False
    ) -> None:
        self.particles = len(positions)
        self.cutoff = cutoff
        self.tolerance = _tolerance(positions, grid, cutoff, exact)
        self._positions, self._grid = positions, grid
        # All are sorted into slabs along x, so that nobody far from a place is looked at.
        slab = self._slab_of(_in_box(positions, grid)[:, 0]).astype(np.uint16)
        self._by_slab = np.argsort(slab, kind="stable")  # a radix sort, of 16 bits
        self._slab_start = _exclusive_sum(np.bincount(slab, minlength=SLABS))
        rng = np.random.default_rng(self.particles)
        low, size = np.asarray(grid.low, np.float32), np.asarray(grid.size, np.float32)
        drawn = [0, self.particles - 1, *rng.integers(0, self.particles, REGIONS - 4)]
        places = [low, low + size, *positions[drawn, :3]]
        self._samples = [self._sample(place, rng) for place in places]
        self._weights = rng.integers(0, 2**64, (2, self.particles), np.uint64, endpoint=False)
        self._counts: Ints | None = None

    def _sample(self, place: NDArray[np.float32], rng: np.random.Generator) -> _Sample:
        """Find the neighbours of particles in a cube about a place."""
        per_cutoff = self.particles * self.cutoff**3 / float(np.prod(self._grid.size))
        half = self.cutoff * max(2.0, (SAMPLES / per_cutoff) ** (1 / 3) / 2)
        near, inside = self._near(place, half)
        queries = near[inside]
        if len(queries) > SAMPLES:
            queries = np.sort(rng.choice(queries, SAMPLES, replace=False))
        tree, reach = self._tree(near), self.cutoff + self.tolerance
        # Of crowded particles, as many as have so many neighbours together.
        asked = _in_box(self._positions[queries], self._grid)
        there = tree.query_ball_point(asked, reach, return_length=True, workers=-1)
        few = np.sort(rng.permutation(len(queries))[: _fitting(there, SAMPLED_PAIRS)])
        return self._neighbours_of(queries[few], near, tree)

    def _near(
        self, place: NDArray[np.float32], half: float
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return who is in a cube about a place or in reach of it, and which are inside."""
        reach = half + 1.001 * (self.cutoff + self.tolerance)
        near = self._in_slabs(place[0], 1.001 * reach)
        inside = np.ones(len(near), np.bool_)
        for axis in range(3):
            apart = np.abs(self._positions[near, axis] - place[axis])
            if self._grid.periodic[axis]:
                apart = np.minimum(apart, np.float32(self._grid.size[axis]) - apart)
            within = apart < reach
            near, inside = near[within], (inside & (apart < half))[within]
        return near, inside

    def _in_slabs(self, x: np.float32, reach: float) -> NDArray[np.intp]:
        """Return who is about so near along x, sorted; across the edge where the box repeats."""
        size = self._grid.size[0]
        along = float(x) - self._grid.low[0]
        images = (-size, 0.0, size) if self._grid.periodic[0] else (0.0,)
        ends = np.array([(along + by - reach, along + by + reach) for by in images])
        wanted = np.zeros(SLABS, np.bool_)
        for first, last in self._slab_of(ends):
            wanted[first : last + 1] = True
        # Slabs that are wanted are few runs of slabs, and so of particles.
        edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False)).reshape(-1, 2)
        bounds = self._slab_start[edges]
        return np.sort(np.concatenate([self._by_slab[first:last] for first, last in bounds]))

    def _slab_of(self, along: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return in which slab coordinates from the low end of the box are."""
        return np.clip(along * (SLABS / self._grid.size[0]), 0, SLABS - 1).astype(np.int64)

    def _tree(self, particles: NDArray[np.intp]) -> cKDTree:
        boxsize = np.where(self._grid.periodic, self._grid.size, 0.0)
        return cKDTree(_in_box(self._positions[particles], self._grid), boxsize=boxsize)

    def _neighbours_of(
        self, queries: NDArray[np.intp], near: NDArray[np.intp], tree: cKDTree
    ) -> _Sample:
        """Find the neighbours of some particles among those near them, whose tree is given."""
        reach, n = self.cutoff + self.tolerance, self.particles
        boxsize = np.where(self._grid.periodic, self._grid.size, 0.0)
        asked = _in_box(self._positions[queries], self._grid)
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
        return self._check_sums(counts) or self._check_against_another(counts)

    def _check_sums(self, counts: Ints) -> str | None:
        """Check the counts of the samples, and that pairs have two sides."""
        if problem := _check_array("counts", counts, (self.particles,), np.int32):
            return problem
        for sample in self._samples:
            if problem := _check_sampled(sample, counts):
                return problem
        if (total := int(counts.sum(dtype=np.int64))) % 2:
            return f"the counts add up to {total}, expected an even number: pairs have two sides"
        return None

    def _check_against_another(self, counts: Ints) -> str | None:
        """Where counts differ from those of another answer, see by a recount whose are wrong.

        Of the particles that differ, RECOUNTED are looked at; pairs within rounding of the cutoff
        are of either answer.
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
                # It was the other that is wrong there, as its next check will find.
                self._counts = counts.copy()
                return None
        return None

    def check_list(self, counts: Ints, offsets: Ints, neighbours: Ints) -> str | None:
        """Check the neighbours of each particle; see NeighbourOracle."""
        n = self.particles
        if problem := _check_rows(n, counts, offsets, neighbours) or self._check_sums(counts):
            return problem
        for sample in self._samples:
            row = np.repeat(sample.queries, counts[sample.queries])
            inside = [neighbours[offsets[i] : offsets[i + 1]] for i in sample.queries]
            found = np.sort(row * n + np.concatenate([np.empty(0, np.int64), *inside]))
            if (k := _first(found[1:] == found[:-1])) is not None:
                i, j = divmod(int(found[k]), n)
                return f"particle {i} has neighbour {j} twice"
            if (pair := _first_absent(sample.required, found)) is not None:
                return f"particle {pair // n}: neighbour {pair % n} is missing"
            if (pair := _first_absent(found, sample.allowed)) is not None:
                return f"particle {pair // n}: neighbour {pair % n} should not be listed"
        # Each pair (i, j) adds a_i b_j - b_i a_j, which its other side takes back, modulo 2^64.
        a, b = self._weights

        def surplus(begin: int) -> int:
            rows = slice(begin, min(begin + ROWS, n))
            listed = neighbours[offsets[rows.start] : offsets[rows.stop]]
            own_a, own_b = (np.repeat(w[rows], counts[rows]) for w in (a, b))
            return int((own_a * b[listed] - own_b * a[listed]).sum(dtype=np.uint64))

        with ThreadPoolExecutor() as pool:
            balance = sum(pool.map(surplus, range(0, n, ROWS)))
        if balance % 2**64:
            return "some particle has a neighbour that does not have it"
        return self._check_against_another(counts)


def _check_sampled(sample: _Sample, counts: Ints) -> str | None:
    """Check how many neighbours the particles of a sample have."""
    found = counts[sample.queries]
    if (k := _first((found < sample.least) | (found > sample.most))) is None:
        return None
    low, high = sample.least[k], sample.most[k]
    expected = f"{low}" if low == high else f"{low} to {high}"
    return f"particle {sample.queries[k]} has {found[k]} neighbours, expected {expected}"


def _fitting(lengths: NDArray[np.int64], total: int) -> int:
    """Return how many of rows of about these lengths have `total` entries together, at least 1."""
    return (
        min(len(lengths), 1 + int(total / max(1.0, float(np.mean(lengths))))) if len(lengths) else 0
    )


def _in_box(positions: NDArray[np.float32], grid: Grid) -> NDArray[np.float64]:
    """Return coordinates from the corner of the box, wrapped where it repeats, float64."""
    xyz = positions[:, :3].astype(np.float64) - grid.low
    for axis in np.flatnonzero(grid.periodic):
        wrapped = xyz[:, axis] % grid.size[axis]
        xyz[:, axis] = np.where(wrapped < grid.size[axis], wrapped, 0.0)
    return xyz


def _bits(words: NDArray[np.uint32]) -> str:
    return " ".join(f"{word:08x}" for word in words)


def _check_array(
    name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: DTypeLike
) -> str | None:
    if array.shape != shape:
        return f"{name} has shape {array.shape}, expected {shape}"
    if array.dtype != dtype:
        return f"{name} has type {array.dtype}, expected {np.dtype(dtype)}"
    return None


def _check_range(name: str, array: Ints, low: int, high: int) -> str | None:
    if (k := _first((array < low) | (array >= high))) is not None:
        return f"{name}[{k}] is {array[k]}, expected {low} to {high - 1}"
    return None


def _first(wrong: NDArray[np.bool_]) -> int | None:
    """Return the first index that is true, or None."""
    k = int(wrong.argmax()) if wrong.size else 0
    return k if wrong.size and wrong[k] else None


def _first_absent(wanted: NDArray[np.int64], present: NDArray[np.int64]) -> int | None:
    """Return the first of the sorted `wanted` that the sorted `present` lacks, or None."""
    if np.array_equal(wanted, present):
        return None
    place = np.searchsorted(present, wanted)
    absent = np.append(present, -1)[place] != wanted  # no pair is numbered -1
    k = _first(absent)
    return None if k is None else int(wanted[k])


def _exclusive_sum(counts: Ints) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
