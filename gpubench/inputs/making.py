"""Making inputs: particles in cells, particles that move, pairs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.threads import take
from gpubench.core.grid import MAX_CELLS, Grid
from gpubench.inputs.drawing import (
    SAMPLERS,
    arrangement,
    in_the_box,
    place_inside,
    take_step,
    to_next_cells,
    to_random_cells,
)
from gpubench.inputs.sets import (
    DESTINATIONS,
    DISTRIBUTIONS,
    FLOAT32_MAX,
    MAX_PAIRS,
    MAX_PARTICLES,
    ORDERS,
    PairSet,
    ParticleSet,
)

PARTNERS = 16  # of a particle, among the pairs that `make_pairs` draws


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
    unit = SAMPLERS[distribution](rng, particles, grid)
    positions = in_the_box(unit, grid)
    if order != "random":
        positions = take(positions, arrangement(rng, positions, grid, order))
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
        take_step(rng, positions, before.grid)
    else:
        movers = rng.choice(before.particles, moved, replace=False)
        relocate = {"random": to_random_cells, "next": to_next_cells}[destination]
        target = relocate(rng, before.cell_of[movers], before.grid)
        place_inside(rng, positions, movers, target, before.grid)
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
