"""Test inputs of neighbour searches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.grid import Grid
from gpubench.core.problem import Sample
from gpubench.problems.particles.cases import (
    PERIODIC,
    after_move,
    after_moves,
    cube,
    given_positions,
    large_sets,
    moved_samples,
    open_cases,
    particle_cases,
    unbounded_cases,
)
from gpubench.problems.particles.cases import blanks as blanks
from gpubench.problems.particles.cases import samples as samples
from gpubench.problems.particles.cases import unbounded_samples as unbounded_samples
from gpubench.problems.particles.inputs import ParticleSet, from_positions, make, with_radii


def _near_the_cutoff() -> ParticleSet:
    """Draw 400 separate pairs across a periodic wall, at distances within rounding of the cutoff.

    Such a pair may be listed or not, but both of its particles must agree.
    """
    grid = Grid((9, 40, 40), (0.3, 0.0, 0.0), (6.3, 28.0, 28.0), (True, False, False))
    cutoff = min(grid.cell_size)
    rng = np.random.default_rng(11)
    pairs = np.empty((2, 20, 20, 3))
    pairs[..., 1:] = np.moveaxis(np.mgrid[1:40:2, 1:40:2], 0, -1) * cutoff
    beyond = rng.uniform(0.1, 0.9, (20, 20)) * cutoff
    rounding = rng.integers(-4, 5, (20, 20)) * np.spacing(np.float32(grid.size[0]))
    pairs[0, ..., 0] = grid.low[0] + beyond
    pairs[1, ..., 0] = grid.low[0] + grid.size[0] + beyond - cutoff + rounding
    return from_positions(pairs.reshape(-1, 3), grid)


def _across_three_cells() -> ParticleSet:
    """Return pairs within the cutoff across the walls of a periodic box of three cells."""
    near = [0.999999, 0.9999, 0.5, 1e-6, 1.0, 1.000001, 1.9999995]
    pairs = [((x + 0.9999994 * side) % 3, x) for x in near for side in (-1, 1)]
    lines = [(x, 0.4 + along, 1.5) for along, pair in enumerate(pairs) for x in pair]
    grid = Grid((3, 20, 3), (0.0,) * 3, (3.0, 20.0, 3.0), PERIODIC)
    return from_positions(np.asarray(lines, np.float32), grid)


def _query_own() -> list[Case]:
    stretched = Grid((6, 6, 6), (0.0, 0.0, 0.0), (6.0, 9.0, 12.0), PERIODIC)
    pair = [[1.0, 1.5, 1.5], [2.0, 1.5, 1.5]]  # at the cutoff, so not neighbours
    nearer = [[1.0, 1.5, 1.5], [2.0 - 2**-20, 1.5, 1.5]]
    across = [[0.25, 2.0, 2.0], [3.75, 2.0, 2.0], [3.25, 2.0, 2.0]]
    return [
        Case("a pair at the cutoff", given_positions(cube(4), pair), exact=True),
        Case("a pair just nearer than the cutoff", given_positions(cube(4), nearer), exact=True),
        Case("a pair across a wall of three periodic cells", _across_three_cells),
        Case(
            "pairs across a periodic wall", given_positions(cube(4, PERIODIC), across), exact=True
        ),
        Case("no pairs across an open wall", given_positions(cube(4), across), exact=True),
        Case("longer cells along y and z", partial(make, 800, stretched)),
        Case("within rounding of the cutoff, periodic", _near_the_cutoff),
    ]


def _of_radii(most: int, particles: int = 1200) -> ParticleSet:
    """Draw particles with radii of their own, in a box periodic along x and z."""
    box = Grid((3, 4, 5), (-1.0, 0.0, 2.5), (3.0, 4.0, 5.0), (True, False, True))
    return with_radii(make(particles, box, "clusters", seed=most), most, most)


def _search_own() -> list[Case]:
    """Return cases of particles that moved, once and repeatedly, and of radii of their own."""
    box, torus = cube(4), cube(5, PERIODIC)
    return [
        Case("nothing moved", lambda: after_move(make(500, box), 0)),
        Case("one moved", lambda: after_move(make(500, box), 1)),
        Case("all moved", lambda: after_move(make(1000, torus))),
        Case("to next cells", lambda: after_move(make(2000, torus), 300, "next")),
        Case("moved in a row", lambda: after_moves(make(700, box, seed=2), 5)),
        Case("all in one cell moved", lambda: after_move(make(300, torus, "one-cell"))),
        *(Case(f"radii up to {most} times", partial(_of_radii, most)) for most in (2, 16)),
    ]


def query_cases() -> list[Case]:
    """Return the test cases of queries."""
    return [*particle_cases(), *_query_own()]


def search_cases() -> list[Case]:
    """Return the test cases of searches."""
    return [*query_cases(), *_search_own()]


def unbounded_query_cases() -> list[Case]:
    """Return the test cases of queries in an unbounded world."""
    return [*open_cases(), *unbounded_cases()]


def large_searches() -> list[Case]:
    """Return cases with more than 2^24 particles, about one per cell."""
    return large_sets(Grid.with_count(2**24))


def search_samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield particles; for updates, which have moved; with their own radii, if it takes them."""
    yield from (moved_samples if form == "update" else samples)(algorithm, form)
    if getattr(algorithm, "takes_radii", False):
        yield _of_radii(16, 200), {}
