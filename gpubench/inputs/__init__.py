"""Seeded inputs: particles in cells, particles that move, streams of records, pairs.

Everything random comes from ``numpy.random.default_rng(seed)``; the same arguments give the
same bytes on any machine, and ``hash`` names them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpubench.core.errors import UserError
from gpubench.core.grid import MAX_CELLS, Grid

MAX_PARTICLES = 2**31 - 1
FLOAT32_MAX = float(np.finfo(np.float32).max)
DISTRIBUTIONS = (
    "uniform",
    "lattice",
    "clusters",
    "one-cell",
    "symmetric",
    "free-surface",
    "coincident",
)
ORDERS = ("random", "cell", "morton", "nearly-sorted")
DESTINATIONS = ("random", "next", "step")
# How ranks share a simulation: each keeps a part of space, or one deals out equal parts.
DECOMPOSITIONS = ("slab", "master")
MAX_RECORDS = 2**31 - 1
RECORD_BYTES = (4, 16)
NULLS = ("infinity", "predicate")
MAX_PAIRS = 2**31 - 1

CLUSTERS = 32
CLUSTER_WIDTH = 0.05  # standard deviation of a cluster, as a share of the box edge
# A free surface, in heights of the box: where it lies on average, how high its waves are, and
# the share of the particles that are spray above it.
SURFACE = 0.4
WAVES = 0.05
SPRAY = 0.01
DISPLACED = 0.01  # share of the particles that `nearly-sorted` swaps out of cell order
STEP = 0.02  # standard deviation of a simulation step along each axis, in cell edges
MARGIN = 0.05  # of a cell's edge, which particles put into a cell keep from its walls
POSITIVE_INFINITY = np.uint32(0x7F800000)
# What sorts and copies get wrong: negative zero, denormals of both signs, -infinity, and quiet
# and signalling NaNs with payloads.
SPECIAL_BITS = np.array(
    [0x80000000, 0x00000001, 0x807FFFFF, 0xFF800000, 0x7FC00001, 0xFFEDCBA9, 0x7FA12345],
    np.uint32,
)
SPECIAL_SHARE = 1 / 8
PARTNERS = 16  # of a particle, among the pairs that `make_pairs` draws


class Inputs(Protocol):
    """An input of any kind."""

    @property
    def hash(self) -> str | None:
        """SHA-256 over all that an algorithm is given, first 16 hex digits.

        None where it is not drawn yet.
        """

    @property
    def made_for(self) -> dict[str, Any]:
        """What the constructor of an algorithm for it takes, beside device and form."""


@dataclass(frozen=True, eq=False)
class ParticleSet:
    """Particles in a box.

    positions: float32, shape (particles, 4); the fourth component is free and zero here.
    grid: the cells they are sorted into.
    before: the same particles before they moved, or None.
    """

    positions: NDArray[np.float32]
    grid: Grid
    distribution: str
    order: str
    seed: int | None
    before: ParticleSet | None = None

    @property
    def particles(self) -> int:
        """Number of particles."""
        return len(self.positions)

    @property
    def per_cell(self) -> float:
        """Mean number of particles in a cell."""
        return self.particles / self.grid.count

    @cached_property
    def cell_of(self) -> NDArray[np.int32]:
        """The cell of each particle by NumPy, int32, shape (particles,)."""
        return self.grid.cell_ids(self.positions)

    @property
    def history(self) -> list[ParticleSet]:
        """The states that the particles were in, oldest first, this one last."""
        states = [self]
        while (before := states[-1].before) is not None:
            states.append(before)
        return states[::-1]

    @property
    def moved(self) -> int | None:
        """How many particles are in another cell than before; None where nothing was before."""
        if self.before is None:
            return None
        return int(np.count_nonzero(self.cell_of != self.before.cell_of))

    @property
    def made_for(self) -> dict[str, Any]:
        """What the constructor of an algorithm for these particles takes."""
        return {"particles": self.particles, "grid": self.grid}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over grid and positions in every state, first 16 hex digits."""
        digest = hashlib.sha256(self.grid.packed().tobytes())
        for state in self.history:
            digest.update(np.ascontiguousarray(state.positions).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class RecordSet:
    """A stream of records, some of which are null.

    records: float32, shape (size, words), any bit patterns.
    keep: int32, shape (size,), 0 where a record is null, whatever it holds; or None, and null
        are those whose first float is +infinity (horn2005). -infinity and NaN are records.
    """

    records: NDArray[np.float32]
    keep: NDArray[np.int32] | None
    seed: int | None

    @property
    def nulls(self) -> str:
        """How a null is told: `infinity` or `predicate`."""
        return "infinity" if self.keep is None else "predicate"

    @cached_property
    def is_kept(self) -> NDArray[np.bool_]:
        """Which records are not null, bool, shape (size,)."""
        if self.keep is not None:
            return np.not_equal(self.keep, 0)
        return np.not_equal(self.records[:, 0].view(np.uint32), POSITIVE_INFINITY)

    @property
    def made_for(self) -> dict[str, Any]:
        """What the constructor of an algorithm for these records takes."""
        size, words = self.records.shape
        return {"records": size, "record_bytes": 4 * words, "nulls": self.nulls}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over record size, records and keep, first 16 hex digits."""
        digest = hashlib.sha256(f"{self.records.shape[1]} {self.nulls}".encode())
        digest.update(np.ascontiguousarray(self.records).data)
        if self.keep is not None:
            digest.update(np.ascontiguousarray(self.keep).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class PairSet:
    """Pairs of particles whose random numbers are wanted from a step on.

    i, j: int32, shape (pairs,), the ids of both, in any order.
    step, key: what the numbers depend on besides, 64 bits each; the key is the simulation's seed.
    """

    i: NDArray[np.int32]
    j: NDArray[np.int32]
    step: int
    key: int
    seed: int | None

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.i)

    @property
    def clock(self) -> NDArray[np.uint32]:
        """Step and key as kernels read them: low and high word of each, uint32, shape (4,)."""
        return np.array([self.step, self.key], "<u8").view("<u4").astype(np.uint32)

    @property
    def made_for(self) -> dict[str, Any]:
        """What the constructor of an algorithm for these pairs takes."""
        return {"pairs": self.pairs}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over clock and ids, first 16 hex digits."""
        digest = hashlib.sha256(self.clock.tobytes())
        digest.update(np.ascontiguousarray(self.i).data)
        digest.update(np.ascontiguousarray(self.j).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class SimulationStart:
    """What a simulation begins from; the workload draws its particles from the seed itself.

    workload: its name. skin: how much further than the cutoff its lists of neighbours reach; 0
        for none. time_step: None for the workload's own. ranks, decomposition: how many ranks
        share it and how, see kinds.Simulation; None for one rank.
    """

    workload: str
    particles: int
    skin: float
    time_step: float | None
    seed: int
    ranks: int | None = None
    decomposition: str | None = None

    @property
    def hash(self) -> None:
        """None: there are no particles yet."""
        return

    @property
    def made_for(self) -> dict[str, Any]:
        """What the steps of a workload are made for, beside the workload and the algorithm."""
        return {
            "particles": self.particles,
            "skin": self.skin,
            "time_step": self.time_step,
            "seed": self.seed,
            "ranks": self.ranks,
            "decomposition": self.decomposition,
        }


def from_positions(positions: NDArray[np.floating], grid: Grid) -> ParticleSet:
    """Take a user's own positions, shape (particles, 3) or (particles, 4), in any float type.

    Raises UserError for another shape, NaN or infinity, or particles outside the box along an
    open axis. Along a periodic axis positions are wrapped into the box.
    """
    given = np.asarray(positions)
    if given.dtype.kind not in "fiu":
        raise UserError(f"positions must be real numbers, not {given.dtype}")
    if given.ndim != 2 or given.shape[1] not in (3, 4):
        raise UserError(
            f"positions must have shape (particles, 3) or (particles, 4), not {given.shape}"
        )
    if len(given) > MAX_PARTICLES:
        raise UserError(f"{len(given)} particles are too many: at most {MAX_PARTICLES}")
    with np.errstate(over="ignore"):  # of numbers longer than float64, which are infinite then
        xyz = given[:, :3].astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(xyz).all(axis=1))
    if len(bad):
        raise UserError(
            f"particle {bad[0]} has position {given[bad[0], :3].tolist()}"
            f" ({len(bad)} of {len(given)} are not finite): every coordinate must be a number"
        )
    low, size = np.asarray(grid.low), np.asarray(grid.size)
    xyz = np.where(grid.periodic, low + (xyz - low) % size, xyz)
    # Compared in float32, so that float32 positions on the walls are inside.
    least, most = low.astype(np.float32), (low + size).astype(np.float32)
    rounded = np.clip(xyz, -FLOAT32_MAX, FLOAT32_MAX).astype(np.float32)
    out = np.flatnonzero(((rounded < least) | (rounded > most)).any(axis=1))
    if len(out):
        raise UserError(
            f"particle {out[0]} at {given[out[0], :3].tolist()} lies outside the box from"
            f" {list(grid.low)} to {(low + size).tolist()} ({len(out)} of {len(given)} do):"
            " enlarge the box or make that axis periodic"
        )
    packed = np.zeros((len(given), 4), np.float32)
    # Rounding can carry a wrapped position to the far wall, where the box starts again.
    packed[:, :3] = np.where(np.asarray(grid.periodic) & (rounded == most), least, rounded)
    return ParticleSet(packed, grid, "given", "given", None)


def grid_for(
    particles: int, per_cell: float, periodic: tuple[bool, bool, bool] = (False, False, False)
) -> Grid:
    """Make the grid that gives exactly `per_cell` particles a cell on average.

    Raises UserError where no whole number of cells does, or none that is near to a cube.
    """
    if not 0 <= particles <= MAX_PARTICLES:
        raise UserError(f"the number of particles must be 0 to {MAX_PARTICLES}, not {particles}")
    if not 0 < per_cell <= MAX_PARTICLES:
        raise UserError(
            f"the number of particles per cell must be above 0 and at most {MAX_PARTICLES},"
            f" not {per_cell}"
        )
    count = particles / per_cell
    if count > MAX_CELLS:
        raise UserError(
            f"{particles} particles at {per_cell} per cell need {count:g} cells:"
            f" at most {MAX_CELLS}, so put more particles in a cell"
        )
    if count != int(count) or count < 1:
        step = max(1, Fraction(per_cell).limit_denominator(1000).numerator)
        raise UserError(
            f"{particles} particles at {per_cell} per cell need {count:g} cells, which is not a"
            f" whole number: try {max(step, round(particles / step) * step)} particles"
        )
    grid = Grid.with_count(int(count), periodic)
    if max(grid.cells) > 8 * max(2, min(grid.cells)) and count > 64:
        raise UserError(
            f"{int(count)} cells only fit a box of {grid.cells}, too long for a fair test: choose"
            " a number of particles whose number of cells has small factors, such as a power of two"
        )
    return grid


def make(
    particles: int, grid: Grid, distribution: str = "uniform", order: str = "random", seed: int = 0
) -> ParticleSet:
    """Draw a particle set.

    Distributions: `uniform`; `lattice`, a jittered lattice with the same number in every cell
    (to one); `clusters`, 32 Gaussians, folded back at the walls of an open box; `one-cell`;
    `symmetric`, uniform in one octant of the box and mirrored at its three middle planes;
    `free-surface`, a fluid that fills the box along z to 40 % of its height, with waves of 5 %
    of the height, and 1 % of the particles as spray above it, both of even density;
    `coincident`, uniform, and two particles at each place.
    Orders: `random`; `cell`, sorted by cell id; `morton`, by Morton code of the cell;
    `nearly-sorted`, cell order with 1 % of the particles swapped with others.
    """
    if distribution not in DISTRIBUTIONS:
        raise UserError(f"no distribution {distribution!r}: one of {', '.join(DISTRIBUTIONS)}")
    if order not in ORDERS:
        raise UserError(f"no order {order!r}: one of {', '.join(ORDERS)}")
    if not 0 <= particles <= MAX_PARTICLES:
        raise UserError(f"the number of particles must be 0 to {MAX_PARTICLES}, not {particles}")
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng(seed)
    unit = {
        "uniform": _uniform,
        "lattice": _lattice,
        "clusters": _clusters,
        "one-cell": _one_cell,
        "symmetric": _symmetric,
        "free-surface": _free_surface,
        "coincident": _coincident,
    }[distribution](rng, particles, grid)
    positions = np.zeros((particles, 4), np.float32)
    np.multiply(unit, np.asarray(grid.size, np.float32), out=positions[:, :3])
    positions[:, :3] += np.asarray(grid.low, np.float32)
    _keep_inside(positions, grid)
    if order != "random":
        positions = positions[_arrangement(rng, positions, grid, order)]
    elif distribution in (
        "lattice",
        "symmetric",
        "coincident",
    ):  # those that are not drawn in random order
        positions = positions[rng.permutation(particles)]
    return ParticleSet(positions, grid, distribution, order, seed)


def move(before: ParticleSet, moved: int | None, destination: str, seed: int = 0) -> ParticleSet:
    """Move particles to other cells; particle i stays particle i.

    Destinations: `random`, exactly `moved` particles go each to a uniformly random other cell;
    `next`, to one of the up to 26 cells around their own, across periodic walls too; `step`,
    every particle takes a Gaussian step of 0.02 cell edges along each axis, wrapped at periodic
    walls and reflected at open ones, and what changes cell has moved (`moved` is None).
    Raises UserError where that many cannot move.
    """
    check_move(before.particles, before.grid, moved, destination)
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng((seed, 1))  # not the stream that `make` draws positions from
    positions = before.positions.copy()
    if moved is None:
        _step(rng, positions, before.grid)
    else:
        movers = rng.choice(before.particles, moved, replace=False)
        relocate = {"random": _to_random_cells, "next": _to_next_cells}[destination]
        target = relocate(rng, before.cell_of[movers], before.grid)
        _place_inside(rng, positions, movers, target, before.grid)
    return replace(before, positions=positions, before=before)


def check_move(particles: int, grid: Grid, moved: int | None, destination: str) -> None:
    """Raise UserError where `move` could not move that many particles there."""
    if destination not in DESTINATIONS:
        raise UserError(f"no destination {destination!r}: one of {', '.join(DESTINATIONS)}")
    if (moved is None) != (destination == "step"):
        raise UserError(
            "a step decides for itself how many particles move, and a move to random or next"
            " cells needs their number"
        )
    if moved is not None and not 0 <= moved <= particles:
        raise UserError(
            f"{moved} of {particles} particles cannot move: give a number from 0 to {particles}"
        )
    if moved and grid.count == 1:
        raise UserError("in a grid of one cell no particle can move to another: use more cells")


def make_records(
    records: int, kept: float, record_bytes: int = 4, nulls: str = "infinity", seed: int = 0
) -> RecordSet:
    """Draw records of random bits, of which round(kept * records), at random places, are kept.

    One word in eight is a value that is easily lost: negative zero, a denormal, -infinity, or a
    NaN with a payload; +infinity too where nulls are told by a predicate. Raises UserError for a
    fraction outside 0 to 1 and for other bad arguments.
    """
    check_records(records, kept, record_bytes, nulls)
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng(seed)
    is_kept = np.zeros(records, bool)
    is_kept[rng.choice(records, round(kept * records), replace=False, shuffle=False)] = True
    return records_from(is_kept, record_bytes, nulls, rng, seed)


def records_from(
    is_kept: NDArray[np.bool_],
    record_bytes: int,
    nulls: str,
    rng: np.random.Generator,
    seed: int | None = None,
) -> RecordSet:
    """Draw records as `make_records` does, but keep those that `is_kept`, shape (size,), says."""
    bits = rng.integers(0, 2**32, (len(is_kept), record_bytes // 4), np.uint32)
    special = rng.random(bits.shape, np.float32) < SPECIAL_SHARE
    choice = SPECIAL_BITS if nulls == "infinity" else np.append(SPECIAL_BITS, POSITIVE_INFINITY)
    bits[special] = rng.choice(choice, np.count_nonzero(special))
    if nulls == "predicate":
        return RecordSet(bits.view(np.float32), is_kept.astype(np.int32), seed)
    first = bits[:, 0]
    first[first == POSITIVE_INFINITY] = SPECIAL_BITS[0]
    first[~is_kept] = POSITIVE_INFINITY
    return RecordSet(bits.view(np.float32), None, seed)


def make_pairs(pairs: int, seed: int = 0) -> PairSet:
    """Draw pairs as a simulation has them: every particle with the next 16 by id.

    Successive ids are the hardest that a generator is given, and pairs that follow each other
    share a particle. Drawn are the first id, which particle of a pair comes first, step and key.
    Raises UserError for a bad number of pairs or seed.
    """
    if not 0 <= pairs <= MAX_PAIRS:
        raise UserError(f"the number of pairs must be 0 to {MAX_PAIRS}, not {pairs}")
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng(seed)
    index = np.arange(pairs)
    lower = rng.integers(0, MAX_PARTICLES - pairs // PARTNERS - PARTNERS) + index // PARTNERS
    upper = lower + 1 + index % PARTNERS
    swapped = rng.random(pairs, np.float32) < 0.5
    i, j = np.where(swapped, (upper, lower), (lower, upper)).astype(np.int32)
    step, key = (int(word) for word in rng.integers(0, 2**64, 2, np.uint64))
    return PairSet(i, j, step, key, seed)


def check_records(records: int, kept: float, record_bytes: int, nulls: str) -> None:
    """Raise UserError where `make_records` could not make such records."""
    if not 0 <= records <= MAX_RECORDS:
        raise UserError(f"the number of records must be 0 to {MAX_RECORDS}, not {records}")
    if not 0 <= kept <= 1:
        raise UserError(f"the fraction of the records kept must be 0 to 1, not {kept}")
    if record_bytes not in RECORD_BYTES:
        raise UserError(f"records have 4 or 16 bytes, not {record_bytes}")
    if nulls not in NULLS:
        raise UserError(f"nulls are told by {' or '.join(NULLS)}, not by {nulls!r}")


def _uniform(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    return rng.random((particles, 3), np.float32)


def _lattice(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    # Particle i goes to cell i mod count; inside the cell to a site of the smallest sub-lattice
    # that has a site for each, jittered by up to 40 % of the spacing to either side.
    index = np.arange(particles)
    cell, site = index % grid.count, index // grid.count
    sites = max(1, int(np.ceil((-(-particles // grid.count)) ** (1 / 3) - 1e-9)))
    corner = np.stack(np.unravel_index(cell, grid.cells, order="F"), axis=1)
    inner = np.stack(np.unravel_index(site, (sites,) * 3, order="F"), axis=1)
    jitter = rng.uniform(0.1, 0.9, (particles, 3))
    return ((corner + (inner + jitter) / sites) / grid.cells).astype(np.float32)


def _clusters(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    centres = rng.random((CLUSTERS, 3), np.float32)
    spread = rng.standard_normal((particles, 3), np.float32) * np.float32(CLUSTER_WIDTH)
    unit = centres[rng.integers(0, CLUSTERS, particles)] + spread
    return _back_inside(unit, grid).astype(np.float32)


def _one_cell(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    middle = np.asarray(grid.cells) // 2
    inside = rng.uniform(0.05, 0.95, (particles, 3))
    return ((middle + inside) / grid.cells).astype(np.float32)


def _symmetric(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    # Multiples of 2^-24, as `random` draws them: so the mirror images are exact. The last eight
    # may be incomplete.
    octant = rng.integers(1, 2**23, (-(-particles // 8), 3)).astype(np.float32) * 2.0**-24
    unit = np.repeat(octant, 8, axis=0)[:particles]
    is_mirrored = np.arange(particles)[:, None] >> np.arange(3) & 1 == 1
    return np.where(is_mirrored, 1 - unit, unit)


def _coincident(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    return np.repeat(_uniform(rng, -(-particles // 2), grid), 2, axis=0)[:particles]


def _free_surface(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    unit = rng.random((particles, 3), np.float32)
    spray = rng.choice(particles, round(SPRAY * particles), replace=False, shuffle=False)
    # What is above the surface is, upside down, what is under the opposite waves.
    drops = unit[spray]
    _under_waves(drops, 1 - SURFACE, -WAVES)
    drops[:, 2] = 1 - drops[:, 2]
    _under_waves(unit, SURFACE, WAVES)
    unit[spray] = drops
    return unit


def _under_waves(unit: NDArray[np.float32], mean: float, amplitude: float) -> None:
    """Take evenly spread points of the unit cube to points under a wavy surface, as even, in place.

    unit: float32, shape (particles, 3). mean, amplitude: of the surface's height along z.
    """
    height = abs(amplitude)
    unit[:, 2] *= mean
    # The layer below the mean, as deep as the waves are high, becomes a layer twice as deep,
    # about the mean. Half of its points lie above the surface: a crest is half a wave away from
    # a trough of the same shape, so these go there, upside down.
    layer = np.flatnonzero(unit[:, 2] >= mean - height)
    x, y, z = unit[layer].T
    offset = 2 * (z - (mean - height)) - height
    above = offset > amplitude * (_wave(x) * _wave(y))
    unit[layer, 0] = np.where(above, np.where(x < 0.5, x + 0.5, x - 0.5), x)
    unit[layer, 2] = mean + np.where(above, -offset, offset)


def _wave(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a wave of length and amplitude 1, of two parabolas: the same bits on any machine.

    Sines differ in their last bits from one processor to another.
    """
    about = x - 0.5
    wave: NDArray[np.float32] = 8 * about * (1 - 2 * np.abs(about))
    return wave


def _step(rng: np.random.Generator, positions: NDArray[np.float32], grid: Grid) -> None:
    low, size = np.asarray(grid.low), np.asarray(grid.size)
    unit = (positions[:, :3] - low) / size
    unit += rng.standard_normal(unit.shape, np.float32) * np.float32(STEP) / grid.cells
    positions[:, :3] = low + _back_inside(unit, grid) * size
    _keep_inside(positions, grid)


def _to_random_cells(
    rng: np.random.Generator, cell_of: NDArray[np.int32], grid: Grid
) -> NDArray[np.int64]:
    # A draw among the other cells: those from the own one on are one further.
    target = rng.integers(0, max(1, grid.count - 1), len(cell_of))
    return target + (target >= cell_of)


def _to_next_cells(
    rng: np.random.Generator, cell_of: NDArray[np.int32], grid: Grid
) -> NDArray[np.int64]:
    # Along each axis a particle can stay, and go down or up where there is such a cell and the
    # two are not the same. All combinations but staying along every axis are equally likely.
    start = np.unravel_index(cell_of, grid.cells, order="F")
    down, up = [], []
    for c, n, periodic in zip(start, grid.cells, grid.periodic, strict=True):
        wraps = periodic and n > 2  # with two cells, down and up lead to the same one
        down.append((c > 0) | wraps)
        up.append((c < n - 1) | wraps)
    ways = [1 + d.astype(np.int64) + u for d, u in zip(down, up, strict=True)]
    pick = rng.integers(1, ways[0] * ways[1] * ways[2])
    target = []
    for c, n, d, way in zip(start, grid.cells, down, ways, strict=True):
        pick, digit = np.divmod(pick, way)
        step = np.where(digit == 0, 0, np.where((digit == 1) & d, -1, 1))
        target.append((c + step) % n)
    return np.asarray(np.ravel_multi_index(tuple(target), grid.cells, order="F"), np.int64)


def _place_inside(
    rng: np.random.Generator,
    positions: NDArray[np.float32],
    movers: NDArray[np.int64],
    cells: NDArray[np.int64],
    grid: Grid,
) -> None:
    """Put the movers at uniformly random places inside their cells."""
    corner = np.stack(np.unravel_index(cells, grid.cells, order="F"), axis=1)
    inside = rng.uniform(MARGIN, 1 - MARGIN, corner.shape)
    positions[movers, :3] = grid.low + (corner + inside) * grid.cell_size
    if not np.array_equal(grid.cell_ids(positions[movers]), cells):
        raise UserError(
            f"float32 positions cannot resolve the cells of a {grid.cells} grid well enough to"
            " move particles into given ones: use fewer cells along an axis"
        )


def _back_inside(unit: NDArray[Any], grid: Grid) -> NDArray[Any]:
    """Wrap coordinates in units of the box along its periodic axes, reflect along the others."""
    wrapped = unit - np.floor(unit)
    folded = np.abs(np.remainder(unit + 1, 2) - 1)  # a mirror at 0 and at 1
    return np.asarray(np.where(grid.periodic, wrapped, folded))


def _keep_inside(positions: NDArray[np.float32], grid: Grid) -> None:
    # Rounding can push a coordinate up to the upper wall, where a periodic box starts again.
    low = np.asarray(grid.low, np.float32)
    high = np.add(grid.low, grid.size).astype(np.float32)
    np.clip(positions[:, :3], low, np.nextafter(high, low), out=positions[:, :3])


def _arrangement(
    rng: np.random.Generator, positions: NDArray[np.float32], grid: Grid, order: str
) -> NDArray[np.intp]:
    particles = len(positions)
    if order == "morton":
        return np.argsort(morton_codes(grid.coordinates(positions)), kind="stable")
    arrangement = np.argsort(grid.cell_ids(positions), kind="stable")
    if order == "nearly-sorted":
        swaps = int(particles * DISPLACED / 2)
        chosen = rng.choice(particles, 2 * swaps, replace=False)
        a, b = chosen[:swaps], chosen[swaps:]
        arrangement[a], arrangement[b] = arrangement[b], arrangement[a]
    return arrangement


def morton_codes(coordinates: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Interleave the bits of cell coordinates (up to 21 bits each), x lowest; uint64."""

    def spread(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
        for shift, mask in (
            (32, 0x1F00000000FFFF),
            (16, 0x1F0000FF0000FF),
            (8, 0x100F00F00F00F00F),
            (4, 0x10C30C30C30C30C3),
            (2, 0x1249249249249249),
        ):
            value = (value | (value << np.uint64(shift))) & np.uint64(mask)
        return value

    x, y, z = (spread(c.astype(np.uint64)) for c in coordinates.T)
    codes: NDArray[np.uint64] = x | (y << np.uint64(1)) | (z << np.uint64(2))
    return codes
