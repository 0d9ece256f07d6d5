"""Test inputs for all cell lists and their updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpubench.core.case import Case
from gpubench.core.grid import Grid
from gpubench.problems.particles.axes import ORDERS
from gpubench.problems.particles.cases import (
    PERIODIC,
    after_move,
    after_moves,
    cube,
    large_sets,
    open_cases,
    particle_cases,
    unbounded_cases,
)
from gpubench.problems.particles.cases import blanks as blanks
from gpubench.problems.particles.cases import moved_samples as moved_samples
from gpubench.problems.particles.cases import samples as samples
from gpubench.problems.particles.cases import unbounded_samples as unbounded_samples
from gpubench.problems.particles.inputs import ParticleSet, from_positions, make, move


def _cell_list_own() -> list[Case]:
    # Cell lists support fewer than three cells along a periodic axis; queries do not.
    torus = cube(1, PERIODIC)
    pair = Grid((2, 1, 2), (-1.0, 0.0, 0.0), (2.0, 1.0, 2.0), PERIODIC)
    return [
        Case("one periodic cell", partial(make, 100, torus)),
        Case("two periodic cells", partial(make, 300, pair)),
        Case("16 per cell", partial(make, 2**14 + 1, Grid.with_count(2**10))),
        Case("2^17 + 1 particles, 1 per cell", partial(make, 2**17 + 1, Grid.with_count(2**17))),
    ]


def _between(grid: Grid, *states: NDArray[np.intp]) -> ParticleSet:
    """Return particles at the centres of the given cells, one array of cell ids per state."""
    found: ParticleSet | None = None
    for cell_of in states:
        corner = np.stack(np.unravel_index(cell_of, grid.cells, order="F"), axis=1)
        found = replace(from_positions(corner + 0.5, grid), before=found)
    assert found is not None
    return found


def update_cases() -> list[Case]:
    """Return the test cases of updates, in which no, some or all particles move."""
    box, torus, row = cube(4), cube(4, PERIODIC), Grid.with_count(1)
    flat = Grid((1, 37, 1), (0.0, 0.0, 0.0), (1.0, 37.0, 1.0))
    pair = Grid((2, 1, 2), (-1.0, 0.0, 0.0), (2.0, 1.0, 2.0), PERIODIC)
    some = make(600, box, seed=1)
    tight = make(300, box, "one-cell")
    sizes = (1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)
    return [
        Case("empty", lambda: after_move(make(0, box))),
        Case("empty, one cell", lambda: after_move(make(0, row), 0)),
        Case("one cell, nothing moves", lambda: after_move(make(257, row), 0)),
        Case(
            "one periodic cell, nothing moves", lambda: after_move(make(100, cube(1, PERIODIC)), 0)
        ),
        Case("never moved", lambda: some),
        Case("nothing moves", lambda: after_move(some, 0)),
        Case("one moves", lambda: after_move(some, 1)),
        Case("two move", lambda: after_move(some, 2)),
        Case("all but one move", lambda: after_move(some, 599)),
        Case("everything moves", lambda: after_move(some)),
        Case("everything moves, periodic", lambda: after_move(make(600, torus, seed=2))),
        *_between_lists(),
        Case("out of one cell", lambda: after_move(tight)),
        Case("half out of one cell, to next cells", lambda: after_move(tight, 150, "next")),
        Case("out of one cell by one", lambda: after_move(tight, 1)),
        Case("to next cells", lambda: after_move(some, 300, "next")),
        Case("all to next cells, periodic", lambda: after_move(make(600, torus), None, "next")),
        Case("to next cells in a column", lambda: after_move(make(500, flat), 250, "next")),
        Case("two periodic cells", lambda: after_move(make(300, pair), 150, "next")),
        Case("a simulation step", lambda: move(make(3000, cube(9)), None, "step")),
        Case(
            "a simulation step, periodic, clusters",
            lambda: move(make(3000, cube(24, PERIODIC), "clusters"), None, "step"),
        ),
        *(Case(f"{n} particles", partial(_resized, n)) for n in sizes),
        *(
            Case(f"random, seed {s}", partial(_resized, 1777, (1, 17, 170, 888, 1777)[s], s))
            for s in range(5)
        ),
        *(Case(f"{order} order", partial(_resized, 3000, 60, order=order)) for order in ORDERS),
        Case(
            "2^16 + 1 particles in 2^18 cells",
            lambda: after_move(make(2**16 + 1, cube(64)), 2**12, "next"),
        ),
        Case(
            "2^17 + 1 particles", lambda: after_move(make(2**17 + 1, Grid.with_count(2**15)), 2621)
        ),
        Case("30 moves in a row", lambda: after_moves(make(500, cube(5)), 30)),
        Case("30 moves in a row, periodic", lambda: after_moves(make(257, torus), 30)),
    ]


def _between_lists() -> list[Case]:
    """Return cases of moves between lists of ten particles, from every position in a list."""
    half = Grid((4, 4, 2), (0.0,) * 3, (4.0, 4.0, 2.0))
    lists = np.repeat(np.arange(32), 10)  # ten particles per cell
    place = np.arange(320) % 10

    def leave(*which: int) -> NDArray[np.intp]:
        """Return all cells after particles at these positions of each list go to the next cell."""
        return np.where(np.isin(place, which), (lists + 1) % 32, lists)

    def between(*states: NDArray[np.intp]) -> Callable[[], ParticleSet]:
        return partial(_between, half, lists, *states)

    return [
        # The head of a list is its first or last particle, depending on the algorithm.
        Case("the first of each list leaves", between(leave(0))),
        Case("the last of each list leaves", between(leave(9))),
        Case("both ends of each list leave", between(leave(0, 9))),
        Case("neighbours in each list leave", between(leave(3, 4, 5, 6))),
        Case("all but the ends of each list leave", between(leave(*range(1, 9)))),
        Case("every second of each list leaves", between(leave(*range(0, 10, 2)))),
        Case("one of each list stays", between(leave(*range(9)))),
        Case("lists empty, one fills", between(np.where(lists % 2, 0, lists))),
        Case("lists change places", between(lists ^ 1)),
        Case("movers swap cells", between(np.where(place == 4, 31 - lists, lists))),
        Case("all go into one cell", between(0 * lists + 17)),
        Case("all go into one cell and out of it", between(0 * lists + 17, 31 - lists)),
        Case("all go from one cell to the last", between(0 * lists, 0 * lists + 31)),
    ]


def _resized(
    particles: int, moved: int | None = None, seed: int = 0, order: str = "random"
) -> ParticleSet:
    """Make particles in a grid of 10^3 cells and move some of them, by default a third."""
    before = make(particles, cube(10), order=order, seed=seed)
    return after_move(before, -(-particles // 3) if moved is None else moved, seed=seed)


def cell_list_cases() -> list[Case]:
    """Return the test cases of cell lists."""
    return [*particle_cases(), *_cell_list_own()]


def hash_grid_cases() -> list[Case]:
    """Return the test cases of hash grids."""
    return [*open_cases(), *unbounded_cases()]


def large_cell_lists() -> list[Case]:
    """Return cases with more than 2^24 particles, crowded and sparse."""
    return large_sets(Grid.with_count(2**22))


def large_updates() -> list[Case]:
    """Return cases with more than 2^24 particles, of which some or all move."""
    dense, sparse = Grid.with_count(2**22), Grid.with_count(2**25, PERIODIC)
    return [
        Case("2^24 + 1 particles", lambda: after_move(make(2**24 + 1, dense), 2**20)),
        Case("2^24 + 3 particles, all move", lambda: after_move(make(2**24 + 3, sparse))),
    ]


def large_worlds() -> list[Case]:
    """Return cases with more than 2^24 particles in unbounded worlds."""
    about = Grid.with_count(2**25).centred()
    return [
        Case("2^24 + 1 particles", partial(make, 2**24 + 1, Grid.with_count(2**22))),
        Case("2^24 + 3 particles, symmetric", partial(make, 2**24 + 3, about, "symmetric")),
    ]
