"""Particles in a box: random, given, and after moves.

All random numbers come from ``numpy.random.default_rng(seed)``. Equal arguments yield equal bytes
on any machine; ``hash`` identifies them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.base.threads import take
from gpubench.core.grid import Grid
from gpubench.core.recipe import MAX_PARTICLES
from gpubench.problems.particles.axes import DISTRIBUTIONS, ORDERS, Particles, check_move
from gpubench.problems.particles.drawing import (
    RADII,
    arrangement,
    in_the_box,
    place_inside,
    take_step,
    to_next_cells,
    to_random_cells,
    unit_positions,
)

NOT_SHUFFLED = ("lattice", "symmetric", "coincident")  # these are not drawn in random order
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class ParticleSet:
    """Particles in a box.

    positions: float32, shape (particles, 4); the fourth component is zero, and unused.
    grid: the cells that algorithms sort the particles into.
    before: the same particles before they moved, or None.
    radii: float32, shape (particles,), within which each particle has neighbours; None if within
        the grid's `reach`.
    """

    positions: NDArray[np.float32]
    grid: Grid
    distribution: str
    order: str
    seed: int | None
    before: ParticleSet | None = None
    radii: NDArray[np.float32] | None = None

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
        """The cell of each particle, computed by NumPy, int32, shape (particles,)."""
        return self.grid.cell_ids(self.positions)

    @property
    def history(self) -> list[ParticleSet]:
        """All states of the particles, from the oldest to this one."""
        states = [self]
        while (before := states[-1].before) is not None:
            states.append(before)
        return states[::-1]

    @property
    def moved(self) -> int | None:
        """The number of particles that changed cells; None if there is no earlier state."""
        if self.before is None:
            return None
        return int(np.count_nonzero(self.cell_of != self.before.cell_of))

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of algorithms for these particles."""
        return {"particles": self.particles, "grid": self.grid}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over grid, cutoff, radii and positions in all states, first 16 hex digits."""
        digest = hashlib.sha256(self.grid.packed().tobytes())
        if self.grid.cutoff is not None:
            digest.update(np.float64(self.grid.cutoff).tobytes())
        if self.radii is not None:
            digest.update(self.radii.data)
        for state in self.history:
            digest.update(np.ascontiguousarray(state.positions).data)
        return digest.hexdigest()[:16]


def coordinates_of(positions: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return positions of shape (particles, 3) or (particles, 4) as float64, (particles, 3).

    Raises UserError for other shapes, non-real types, NaN, infinity, or too many particles.
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
    with np.errstate(over="ignore"):  # long doubles may overflow to infinity
        xyz = given[:, :3].astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(xyz).all(axis=1))
    if len(bad):
        raise UserError(
            f"particle {bad[0]} has position {given[bad[0], :3].tolist()}"
            f" ({len(bad)} of {len(given)} are not finite): every coordinate must be a number"
        )
    return xyz


def from_positions(
    positions: NDArray[np.floating], grid: Grid, origin: Sequence[float] = (0.0, 0.0, 0.0)
) -> ParticleSet:
    """Make particles from a user's positions, shape (particles, 3 or 4), in any float type.

    origin: the user's coordinates of the grid's origin; it is subtracted in float64.
    Raises UserError as `coordinates_of` does, and for particles outside the box along an open axis.
    Along a periodic axis positions are wrapped into the box.
    """
    xyz, given = coordinates_of(positions), np.asarray(positions)
    low, size = np.add(grid.low, origin), np.asarray(grid.size)
    xyz = np.where(grid.periodic, low + (xyz - low) % size, xyz)
    # Compare in float32, so that float32 positions on the walls count as inside.
    least, most = low.astype(np.float32), (low + size).astype(np.float32)
    rounded = np.clip(xyz, -FLOAT32_MAX, FLOAT32_MAX).astype(np.float32)
    out = np.flatnonzero(((rounded < least) | (rounded > most)).any(axis=1))
    if len(out):
        raise UserError(
            f"particle {out[0]} at {given[out[0], :3].tolist()} lies outside the box from"
            f" {low.tolist()} to {(low + size).tolist()} ({len(out)} of {len(given)} do):"
            " enlarge the box or make that axis periodic"
        )
    packed = np.zeros((len(given), 4), np.float32)
    low = np.asarray(grid.low)
    placed = np.clip(xyz - np.asarray(origin), low, low + size).astype(np.float32)
    # A wrapped position can round to the far wall, where the next periodic image begins.
    at_end = np.asarray(grid.periodic) & (placed == (low + size).astype(np.float32))
    packed[:, :3] = np.where(at_end, low.astype(np.float32), placed)
    return ParticleSet(packed, grid, "given", "given", None)


def make(
    particles: int, grid: Grid, distribution: str = "uniform", order: str = "random", seed: int = 0,
    contrast: float | None = None,
) -> ParticleSet:  # fmt: skip
    """Draw a particle set.

    Distributions: `uniform`; `lattice`, a jittered lattice with equal numbers per cell (+- 1);
    `clusters`, 32 Gaussians, folded back at the walls of an open box; `one-cell`;
    `symmetric`, uniform in one octant of the box and mirrored at its three mid-planes;
    `free-surface`, a fluid that fills the box along z to 40 % of its height, with waves of 5 % of
    the height, and 1 % of the particles as spray above it, both of uniform density; `coincident`,
    uniform, with two particles at each position; `power-law`, a density that falls as m^-2 from an
    even core, where m is the largest distance from the centre along an axis, in box edges.
    contrast: of a power law, the density of the core over that at the walls (default 1000); of
    clusters, at the peak of one alone over that of particles added evenly; of a free surface, of
    the fluid over that of the spray.
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
    positions = in_the_box(unit_positions(rng, particles, grid, distribution, contrast), grid)
    if order != "random":
        positions = take(positions, arrangement(rng, positions, grid, order))
    elif distribution in NOT_SHUFFLED or contrast is not None:
        positions = positions[rng.permutation(particles)]
    return ParticleSet(positions, grid, distribution, order, seed)


def move(before: ParticleSet, moved: int | None, destination: str, seed: int = 0) -> ParticleSet:
    """Move particles to other cells; particle i stays particle i.

    Destinations: `random`, each of `moved` particles moves to a uniformly random other cell;
    `next`, each moves to one of the up to 26 cells around its own, also across periodic walls;
    `step`, all particles take a Gaussian step of 0.02 cell edges along each axis, wrapped at
    periodic walls and reflected at open walls, and some thereby change cells (`moved` is None).
    Raises UserError if fewer than `moved` particles can move.
    """
    check_move(before.particles, before.grid, moved, destination)
    if seed < 0:
        raise UserError(f"a seed is a whole number from 0 on, not {seed}")
    rng = np.random.default_rng((seed, 1))  # a different stream from that of `make`
    positions = before.positions.copy()
    if moved is None:
        take_step(rng, positions, before.grid)
    else:
        movers = rng.choice(before.particles, moved, replace=False)
        relocate = {"random": to_random_cells, "next": to_next_cells}[destination]
        target = relocate(rng, before.cell_of[movers], before.grid)
        place_inside(rng, positions, movers, target, before.grid)
    return replace(before, positions=positions, before=before)


def with_radii(inputs: ParticleSet, longest_over_shortest: float, seed: int = 0) -> ParticleSet:
    """Give each particle one of 256 radii from the grid's reach down, in equal ratios.

    Radii do not depend on positions. Only searches that take them accept the result.
    """
    reach, rng = inputs.grid.reach, np.random.default_rng((seed, 2))
    every = (reach * longest_over_shortest ** -np.linspace(0.0, 1.0, RADII)).astype(np.float32)
    grid = replace(inputs.grid, shortest=reach / longest_over_shortest)
    return replace(inputs, grid=grid, radii=every[rng.integers(0, RADII, inputs.particles)])


def draw(axes: Particles, seed: int) -> ParticleSet:
    """Draw the particles of a recipe, and move them."""
    start = make(axes.particles, axes.grid, axes.distribution, axes.order, seed, axes.contrast)
    if axes.radii is not None:
        start = with_radii(start, axes.radii, seed)
    if axes.destination is None:
        return start
    return move(start, axes.moved, axes.destination, seed)
