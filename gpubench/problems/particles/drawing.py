"""Random positions and moves of particles, drawn by NumPy's generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.threads import over, stable_order, take
from gpubench.core.grid import Grid
from gpubench.problems.particles.axes import (
    CLUSTER_WIDTH,
    CLUSTERS,
    POWER_LAW,
    SURFACE,
    thin_share,
)

WAVES = 0.05  # amplitude of the waves of a free surface, in box heights
SPRAY = 0.01  # fraction of the particles above it, if no contrast is given
RADII = 256  # different radii
DISPLACED = 0.01  # fraction of the particles that `nearly-sorted` swaps
STEP = 0.02  # standard deviation of a simulation step along each axis, in cell edges
MARGIN = 0.05  # minimum distance of placed particles from the walls of their cell, in cell edges


def _uniform(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    return rng.random((particles, 3), np.float32)


def _lattice(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    # Particle i is placed in cell i mod count, at a site of the smallest lattice with enough sites,
    # jittered by up to 40 % of the spacing in each direction.
    index = np.arange(particles)
    cell, site = index % grid.count, index // grid.count
    sites = max(1, int(np.ceil((-(-particles // grid.count)) ** (1 / 3) - 1e-9)))
    corner = np.stack(np.unravel_index(cell, grid.cells, order="F"), axis=1)
    inner = np.stack(np.unravel_index(site, (sites,) * 3, order="F"), axis=1)
    jitter = rng.uniform(0.1, 0.9, (particles, 3))
    return ((corner + (inner + jitter) / sites) / grid.cells).astype(np.float32)


def _clusters(
    rng: np.random.Generator, particles: int, grid: Grid, between: float = 0.0
) -> NDArray[np.float32]:
    centres = rng.random((CLUSTERS, 3), np.float32)
    spread = rng.standard_normal((particles, 3), np.float32) * np.float32(CLUSTER_WIDTH)
    unit = take(centres, rng.integers(0, CLUSTERS, particles))
    unit += spread
    unit[: round(between * particles)] = rng.random((round(between * particles), 3), np.float32)
    return _back_inside(unit, grid)


def _one_cell(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    middle = np.asarray(grid.cells) // 2
    inside = rng.uniform(0.05, 0.95, (particles, 3))
    return ((middle + inside) / grid.cells).astype(np.float32)


def _symmetric(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    # Coordinates are multiples of 2^-24, like those of `random`, so mirror images are exact. The
    # last group of eight may be incomplete.
    octant = rng.integers(1, 2**23, (-(-particles // 8), 3)).astype(np.float32) * 2.0**-24
    unit = np.repeat(octant, 8, axis=0)[:particles]
    is_mirrored = np.arange(particles)[:, None] >> np.arange(3) & 1 == 1
    return np.where(is_mirrored, 1 - unit, unit)


def _coincident(rng: np.random.Generator, particles: int, grid: Grid) -> NDArray[np.float32]:
    return np.repeat(_uniform(rng, -(-particles // 2), grid), 2, axis=0)[:particles]


def _free_surface(
    rng: np.random.Generator, particles: int, grid: Grid, above: float = SPRAY
) -> NDArray[np.float32]:
    unit = rng.random((particles, 3), np.float32)
    spray = rng.choice(particles, round(above * particles), replace=False, shuffle=False)
    # Turned upside down, the region above the surface is the region under the opposite waves.
    drops = unit[spray]
    _under_waves(drops, 1 - SURFACE, -WAVES)
    drops[:, 2] = 1 - drops[:, 2]
    _under_waves(unit, SURFACE, WAVES)
    unit[spray] = drops
    return unit


def _power_law(
    rng: np.random.Generator, particles: int, grid: Grid, contrast: float = POWER_LAW
) -> NDArray[np.float32]:
    # Within m of the centre along every axis, a core of even density, m = core, holds 8 core, and
    # each shell around it 24 dm, as the density falls as m^-2: together 12 - 16 core.
    core = np.float32(0.5 / np.sqrt(contrast))
    unit = 2 * rng.random((particles, 3), np.float32) - 1
    held = (12 - 16 * core) * rng.random(particles, np.float32)
    outside = np.flatnonzero(held >= 8 * core)
    face = rng.integers(0, 6, len(outside))
    unit[outside, face % 3] = 1 - face // 3 * 2
    half = np.maximum(core, core + (held - 8 * core) / 24)
    return unit * half[:, None] + np.float32(0.5)


def _under_waves(unit: NDArray[np.float32], mean: float, amplitude: float) -> None:
    """Map uniform points of the unit cube to uniform points under a wavy surface, in place.

    unit: float32, shape (particles, 3). mean: height of the surface. amplitude: that of its waves.
    """
    height = abs(amplitude)
    unit[:, 2] *= mean
    # The layer between the mean and one amplitude below it is stretched to twice its thickness,
    # centred on the mean. Half of its points are then above the surface: shifted by half a wave and
    # turned upside down, they are below it, as crests and troughs have the same shape.
    layer = np.flatnonzero(unit[:, 2] >= mean - height)
    x, y, z = unit[layer].T
    offset = 2 * (z - (mean - height)) - height
    above = offset > amplitude * (_wave(x) * _wave(y))
    unit[layer, 0] = np.where(above, np.where(x < 0.5, x + 0.5, x - 0.5), x)
    unit[layer, 2] = mean + np.where(above, -offset, offset)


def _wave(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a wave of length and amplitude 1, made of two parabolas.

    Its bits are the same on any machine; the last bits of sines differ between processors.
    """
    about = x - 0.5
    wave: NDArray[np.float32] = 8 * about * (1 - 2 * np.abs(about))
    return wave


def take_step(rng: np.random.Generator, positions: NDArray[np.float32], grid: Grid) -> None:
    """Move particles by a normal step of STEP cell edges along each axis, in place."""
    low, size = np.asarray(grid.low), np.asarray(grid.size)
    unit = (positions[:, :3] - low) / size
    unit += rng.standard_normal(unit.shape, np.float32) * np.float32(STEP) / grid.cells
    positions[:, :3] = low + _back_inside(unit, grid) * size
    keep_inside(positions, grid)


def to_random_cells(
    rng: np.random.Generator, cell_of: NDArray[np.int32], grid: Grid
) -> NDArray[np.int64]:
    """Return a random other cell for each particle."""
    # Draw from count - 1 cells; add one at or above the particle's own cell, to skip that cell.
    target = rng.integers(0, max(1, grid.count - 1), len(cell_of))
    return target + (target >= cell_of)


def to_next_cells(
    rng: np.random.Generator, cell_of: NDArray[np.int32], grid: Grid
) -> NDArray[np.int64]:
    """Return a random adjacent cell for each particle."""
    # Along each axis a particle can stay, or move down or up if those cells exist and differ. All
    # combinations are equally likely, but staying along all three axes is excluded.
    start = np.unravel_index(cell_of, grid.cells, order="F")
    down, up = [], []
    for c, n, periodic in zip(start, grid.cells, grid.periodic, strict=True):
        wraps = periodic and n > 2  # with two cells, down and up are the same
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


def place_inside(
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
    inside = np.empty_like(unit)

    def part(begin: int, end: int) -> None:
        outside = unit[begin:end]
        wrapped = outside - np.floor(outside)
        folded = np.abs(np.remainder(outside + 1, 2) - 1)  # reflect at 0 and at 1
        inside[begin:end] = np.where(grid.periodic, wrapped, folded)

    over(len(unit), part)
    return inside


def in_the_box(unit: NDArray[Any], grid: Grid) -> NDArray[np.float32]:
    """Convert coordinates in units of the box to positions, float32, shape (n, 4)."""
    positions = np.zeros((len(unit), 4), np.float32)
    low, size = np.asarray(grid.low, np.float32), np.asarray(grid.size, np.float32)

    def place(begin: int, end: int) -> None:
        part = positions[begin:end]
        np.multiply(unit[begin:end], size, out=part[:, :3])
        part[:, :3] += low
        keep_inside(part, grid)

    over(len(unit), place)
    return positions


def keep_inside(positions: NDArray[np.float32], grid: Grid) -> None:
    """Move coordinates that were rounded to a wall back inside, in place."""
    # A coordinate can round to the upper wall; in a periodic box, that is the same as the lower.
    low = np.asarray(grid.low, np.float32)
    high = np.add(grid.low, grid.size).astype(np.float32)
    np.clip(positions[:, :3], low, np.nextafter(high, low), out=positions[:, :3])


def arrangement(
    rng: np.random.Generator, positions: NDArray[np.float32], grid: Grid, order: str
) -> NDArray[np.intp]:
    """Return the permutation that puts the particles into a non-random order."""
    particles = len(positions)
    if order == "morton":
        return stable_order(morton_codes(grid.coordinates(positions)))
    arrangement = stable_order(grid.cell_ids(positions))
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

    codes = np.empty(len(coordinates), np.uint64)

    def part(begin: int, end: int) -> None:
        x, y, z = (spread(c.astype(np.uint64)) for c in coordinates[begin:end].T)
        codes[begin:end] = x | (y << np.uint64(1)) | (z << np.uint64(2))

    over(len(codes), part)
    return codes


# The generator of each distribution; coordinates are in units of the box.
SAMPLERS = {
    "uniform": _uniform,
    "lattice": _lattice,
    "clusters": _clusters,
    "one-cell": _one_cell,
    "symmetric": _symmetric,
    "free-surface": _free_surface,
    "coincident": _coincident,
    "power-law": _power_law,
}


def unit_positions(
    rng: np.random.Generator, particles: int, grid: Grid, distribution: str, contrast: float | None
) -> NDArray[np.float32]:
    """Draw positions of a distribution, in units of the box."""
    sampler: Callable[..., NDArray[np.float32]] = SAMPLERS[distribution]
    if contrast is None:
        return sampler(rng, particles, grid)
    is_law = distribution == "power-law"
    return sampler(rng, particles, grid, contrast if is_law else thin_share(distribution, contrast))
