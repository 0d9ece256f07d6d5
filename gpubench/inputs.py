"""Seeded particle sets: distribution, initial order, occupancy.

Everything random comes from ``numpy.random.default_rng(seed)``; the same arguments give the
same bytes on any machine, and ``ParticleSet.hash`` names them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpubench.errors import UserError
from gpubench.grid import MAX_CELLS, Grid

MAX_PARTICLES = 2**31 - 1
FLOAT32_MAX = float(np.finfo(np.float32).max)
DISTRIBUTIONS = ("uniform", "lattice", "clusters", "one-cell")
ORDERS = ("random", "cell", "morton", "nearly-sorted")

CLUSTERS = 32
CLUSTER_WIDTH = 0.05  # standard deviation of a cluster, as a share of the box edge
DISPLACED = 0.01  # share of the particles that `nearly-sorted` swaps out of cell order


@dataclass(frozen=True, eq=False)
class ParticleSet:
    """Particles in a box.

    positions: float32, shape (particles, 4); the fourth component is free and zero here.
    grid: the cells they are sorted into.
    """

    positions: NDArray[np.float32]
    grid: Grid
    distribution: str
    order: str
    seed: int | None

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

    @cached_property
    def hash(self) -> str:
        """SHA-256 over positions and grid, first 16 hex digits."""
        digest = hashlib.sha256(self.grid.packed().tobytes())
        digest.update(np.ascontiguousarray(self.positions).data)
        return digest.hexdigest()[:16]


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
    bad = np.flatnonzero(~np.isfinite(given[:, :3]).all(axis=1))
    if len(bad):
        raise UserError(
            f"particle {bad[0]} has position {given[bad[0], :3].tolist()}"
            f" ({len(bad)} of {len(given)} are not finite): every coordinate must be a number"
        )
    low, size = np.asarray(grid.low), np.asarray(grid.size)
    xyz = given[:, :3].astype(np.float64)
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
    (to one); `clusters`, 32 Gaussians, folded back at the walls of an open box; `one-cell`.
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
    }[distribution](rng, particles, grid)
    positions = np.zeros((particles, 4), np.float32)
    np.multiply(unit, np.asarray(grid.size, np.float32), out=positions[:, :3])
    positions[:, :3] += np.asarray(grid.low, np.float32)
    _keep_inside(positions, grid)
    if order != "random":
        positions = positions[_arrangement(rng, positions, grid, order)]
    elif distribution == "lattice":  # the one that is not drawn in random order
        positions = positions[rng.permutation(particles)]
    return ParticleSet(positions, grid, distribution, order, seed)


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
    wrapped = unit - np.floor(unit)
    folded = np.abs(np.remainder(unit + 1, 2) - 1)  # a mirror at 0 and at 1
    return np.where(grid.periodic, wrapped, folded).astype(np.float32)


def _one_cell(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    middle = np.asarray(grid.cells) // 2
    inside = rng.uniform(0.05, 0.95, (particles, 3))
    return ((middle + inside) / grid.cells).astype(np.float32)


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
