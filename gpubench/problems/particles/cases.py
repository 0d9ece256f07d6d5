"""Test inputs of particles: none, one, all at one position, at walls, and many other sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.grid import Grid
from gpubench.core.problem import Sample
from gpubench.problems.particles.axes import ORDERS
from gpubench.problems.particles.inputs import ParticleSet, from_positions, make, move

Triple = tuple[bool, bool, bool]
OPEN: Triple = (False, False, False)
PERIODIC: Triple = (True, True, True)


def cube(edge: int, periodic: Triple = OPEN) -> Grid:
    """Return a grid of edge^3 unit cells, with its low corner at the origin."""
    return Grid((edge,) * 3, (0.0,) * 3, (float(edge),) * 3, periodic)


def given_positions(grid: Grid, positions: ArrayLike) -> Callable[[], ParticleSet]:
    """Return a function that makes particles at given positions."""
    return lambda: from_positions(np.asarray(positions, np.float32).reshape(-1, 3), grid)


def lattice_points(grid: Grid, per_cell: int = 1, far_walls: bool = True) -> NDArray[np.float32]:
    """Return `per_cell` lattice points per cell edge; `far_walls` includes the upper walls."""
    axes = [
        np.linspace(low, low + size, n * per_cell + 1)[: None if far_walls else -1]
        for low, size, n in zip(grid.low, grid.size, grid.cells, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return points.astype(np.float32)


def _few() -> list[Case]:
    box, torus = cube(4), cube(4, PERIODIC)
    copies = np.repeat(make(64, box, seed=3).positions[:, :3], 5, axis=0)
    return [
        Case("empty", partial(make, 0, box)),
        Case("empty, one cell", partial(make, 0, cube(1))),
        Case("one particle", partial(make, 1, box)),
        Case("one particle, one cell", partial(make, 1, cube(1))),
        Case("one particle, last cell", given_positions(box, [3.5, 3.5, 3.5])),
        Case("two particles, far apart", given_positions(cube(64), [[0.5] * 3, [63.5] * 3])),
        Case("all in one cell", partial(make, 300, box, "one-cell")),
        Case("all in the first cell", given_positions(box, make(257, cube(1)).positions[:, :3])),
        Case("one cell for all", partial(make, 257, cube(1))),
        Case("all at one point", given_positions(box, np.full((300, 3), 1.25)), exact=True),
        Case("all at one corner", given_positions(torus, np.zeros((100, 3))), exact=True),
        Case("five at each point", given_positions(box, copies)),
    ]


def _edges() -> list[Case]:
    box = Grid((5, 4, 3), (0.0, 0.0, 0.0), (5.0, 4.0, 3.0))
    torus = Grid(box.cells, box.low, box.size, PERIODIC)
    shifted = Grid((5, 4, 3), (-8.0, -2.5, 16.0), (2.5, 2.0, 1.5))
    tenths = Grid((7, 5, 3), (-0.3, 0.1, -0.7), (0.7, 0.5, 0.3))
    corners = lattice_points(box)
    below = np.nextafter(corners, np.float32(-1))
    above = np.minimum(np.nextafter(corners, np.float32(9)), np.asarray(box.size, np.float32))
    wall = np.zeros((len(corners), 4), np.float32)
    wall[:, :3] = corners
    return [
        Case("on cell corners", given_positions(box, corners), exact=True),
        Case("on cell corners, periodic", given_positions(torus, corners), exact=True),
        # Rounding in a wrap can leave a particle at the far wall of a periodic box.
        Case(
            "on the far walls, periodic",
            lambda: ParticleSet(wall, torus, "given", "given", None),
            exact=True,
        ),
        Case("just below cell corners", given_positions(box, np.maximum(below, 0))),
        Case("just above cell corners", given_positions(box, above)),
        Case("just below cell corners, periodic", given_positions(torus, below)),
        Case("half a cell apart", given_positions(shifted, lattice_points(shifted, 2)), exact=True),
        Case(
            "half a cell apart, periodic",
            given_positions(torus, lattice_points(torus, 2, False)),
            exact=True,
        ),
        Case("on cell corners of inexact cells", given_positions(tenths, lattice_points(tenths))),
    ]


def _sizes() -> list[Case]:
    sizes = (2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)
    return [
        *(Case(f"{n} particles", partial(make, n, cube(10), seed=n)) for n in sizes),
        *(
            Case(f"{n} cells", partial(make, 1000, Grid.with_count(n), seed=n))
            for n in (255, 256, 257, 1023, 1025, 2047, 2049, 4097)
        ),
    ]


def _shapes() -> list[Case]:
    flat = Grid((1, 37, 1), (0.0, 0.0, 0.0), (1.0, 37.0, 1.0))
    sheet = Grid((33, 1, 9), (0.0, 0.0, 0.0), (33.0, 1.0, 9.0))
    metres = Grid.in_box((-3.0, -0.2, -11.5), (2.9, 1.7, 4.4), 0.31)
    slab = Grid((12, 5, 7), (-6.0, 100.0, -0.5), (9.0, 4.0, 3.5), (True, False, True))
    torus = Grid((3, 4, 3), (-0.9, -1.3, 2.1), (0.9, 1.3, 1.1), PERIODIC)
    column = Grid((1, 3, 1), (0.0, 0.0, 0.0), (1.0, 3.0, 1.0), (False, True, False))
    return [
        Case("1 x 37 x 1 cells", partial(make, 500, flat)),
        Case("33 x 1 x 9 cells", partial(make, 900, sheet)),
        Case("negative corner, odd cell size", partial(make, 1500, metres)),
        Case("periodic along x and z", partial(make, 1500, slab)),
        Case("three periodic cells", partial(make, 150, torus)),
        Case("periodic column", partial(make, 60, column)),
        Case("clusters", partial(make, 2000, cube(24), "clusters")),
        Case("clusters, periodic", partial(make, 2000, cube(24, PERIODIC), "clusters")),
        Case("free surface", partial(make, 2000, slab, "free-surface")),
        Case("lattice", partial(make, 2000, cube(10), "lattice")),
        Case("one cell of a periodic box", partial(make, 200, cube(5, PERIODIC), "one-cell")),
    ]


def _random() -> list[Case]:
    wrapped = cube(11, PERIODIC)
    return [
        *(Case(f"{order} order", partial(make, 3000, wrapped, order=order)) for order in ORDERS),
        *(Case(f"random, seed {s}", partial(make, 1777, cube(8), seed=s)) for s in range(5)),
        *(
            Case(f"random, periodic, seed {s}", partial(make, 1777, cube(8, PERIODIC), seed=s))
            for s in range(5)
        ),
        Case("2^16 + 1 particles in 2^18 cells", partial(make, 2**16 + 1, cube(64))),
    ]


def _anywhere(positions: ArrayLike, cell: Sequence[float] = (1.0, 1.0, 1.0)) -> ParticleSet:
    """Make particles at these positions, in an unbounded world of cells with these edges."""
    packed = np.zeros((len(np.asarray(positions)), 4), np.float32)
    packed[:, :3] = positions
    edges = (float(cell[0]), float(cell[1]), float(cell[2]))
    return ParticleSet(packed, Grid((1, 1, 1), (0.0,) * 3, edges), "given", "given", None)


def _far_away(*places: tuple[float, float, float], cell: float = 1.0) -> ParticleSet:
    """Draw 300 particles in 5^3 cells around each place."""
    about = np.random.default_rng(8).uniform(-2.5, 2.5, (len(places), 300, 3))
    points = cell * about + np.asarray(places)[:, None]
    return _anywhere(points.reshape(-1, 3), (cell,) * 3)


def _with_one_far_away(distance: float) -> ParticleSet:
    """Draw particles around the origin, and a far particle that extends the world."""
    near = np.random.default_rng(9).uniform(-3, 3, (500, 3))
    return _anywhere([*near, [distance, 0.5, -distance]])


def _along_all_axes(coordinates: ArrayLike, cell: Sequence[float] = (1.0, 1.0, 1.0)) -> ParticleSet:
    """Make the lattice of particles with these coordinates along every axis."""
    along = np.asarray(coordinates, np.float32)
    points = np.stack(np.meshgrid(along, along, along), axis=-1).reshape(-1, 3)
    return _anywhere(points, cell)


def _at_the_cutoff(place: float, cell: float) -> ParticleSet:
    """Draw 300 separate pairs around a coordinate, at distances within rounding of the cutoff.

    Such a pair may be listed or not, but both of its particles must agree.
    """
    rng = np.random.default_rng(12)
    first = np.full((300, 3), place, np.float32)
    first[:, 1:] += np.stack(np.divmod(np.arange(300), 20), axis=1) * np.float32(3 * cell)
    first[:, 0] += rng.uniform(-cell, cell, 300).astype(np.float32)
    second = first.copy()
    second[:, 0] += np.float32(cell)
    second[:, 0] += rng.integers(-2, 3, 300) * np.spacing(np.float32(place))
    return _anywhere(np.concatenate((first, second)), (cell,) * 3)


def unbounded_cases() -> list[Case]:
    """Return cases without a box, at any distance from the origin, up to the range of float32."""
    corners = np.arange(-3, 4, dtype=np.float32)
    centred = Grid((6, 8, 4), (-3.0, -4.0, -2.0), (6.0, 8.0, 4.0))
    last = 2.0**22 + np.array([-1, -0.5, 0, 0.5, 2, 2.0**40])
    tiny, huge = float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)
    ends = [-huge, -1e30, -1e-30, -tiny, -0.0, 0.0, tiny, 1e-30, 1e30, huge]
    pair = [[-0.25, -0.5, -0.5], [0.75, -0.5, -0.5]]  # at the cutoff, so not neighbours
    nearer = [[-0.25, -0.5, -0.5], [0.75 - 2**-20, -0.5, -0.5]]
    return [
        Case("mirror images", partial(make, 2000, centred, "symmetric")),
        Case("mirror images of one particle", partial(make, 8, centred, "symmetric", seed=4)),
        Case("eighth of the images missing", partial(make, 1999, centred, "symmetric")),
        Case("uniform about the origin", partial(make, 2000, centred)),
        Case("a pair at the cutoff, across the origin", partial(_anywhere, pair), exact=True),
        Case("a pair just nearer, across the origin", partial(_anywhere, nearer), exact=True),
        Case("on corners about the origin", partial(_along_all_axes, corners), exact=True),
        Case(
            "just below corners about the origin",
            partial(_along_all_axes, np.nextafter(corners, np.float32(-9))),
        ),
        Case(
            "just above corners about the origin",
            partial(_along_all_axes, np.nextafter(corners, np.float32(9))),
        ),
        Case(
            "on corners of inexact cells about the origin",
            partial(_along_all_axes, corners * np.float32(0.1), (0.1,) * 3),
        ),
        Case("cells of three sizes", partial(_along_all_axes, 0.4 * corners, (0.9, 0.5, 0.7))),
        Case("far from the origin", partial(_far_away, (1e6, 2e5, 3e4))),
        Case("far below the origin", partial(_far_away, (-1e6, -2e5, -3e4))),
        Case("far away on every side", partial(_far_away, *lattice_points(cube(1)) * 2e5 - 1e5)),
        Case("inexact cells far from the origin", partial(_far_away, (7e4, -3e5, 11), cell=0.37)),
        Case("one particle far away", partial(_with_one_far_away, 1e5)),
        Case("one particle below, far away", partial(_with_one_far_away, -5e7)),
        Case("one particle below, further away", partial(_with_one_far_away, -1e9)),
        Case("about the last cells", partial(_along_all_axes, [*last, *-last])),
        Case("in the last cell", partial(_far_away, (1e7, 2e7, -3e7))),
        Case("smallest cells", partial(_far_away, (0, 0, 0), cell=2e-15)),
        Case("largest cells", partial(_far_away, (1e18, 0, -1e17), cell=9e14)),
        Case("the ends of float32", partial(_along_all_axes, ends)),
        *(
            Case(f"within rounding of the cutoff at {place:g}", partial(_at_the_cutoff, place, 0.7))
            for place in (0.0, -1e3, 1e6, 2.0**22 * 0.7)
        ),
    ]


def after_move(
    before: ParticleSet, moved: int | None = None, destination: str = "random", seed: int = 1
) -> ParticleSet:
    """Move `moved` particles, by default all."""
    return move(before, before.particles if moved is None else moved, destination, seed)


def after_moves(start: ParticleSet, moves: int) -> ParticleSet:
    """Move none, one, a few, half or all particles in turn, to random or to adjacent cells."""
    n = start.particles
    for seed in range(moves):
        moved = (0, 1, n // 50, n // 2, n)[seed % 5]
        start = move(start, moved, ("random", "next")[seed % 2], seed)
    return start


def particle_cases() -> list[Case]:
    """Return cases of every arrangement of particles, in open and periodic boxes."""
    return [*_few(), *_edges(), *_sizes(), *_shapes(), *_random()]


def open_cases() -> list[Case]:
    """Return those of `particle_cases` whose boxes are open along every axis."""
    return [case for case in particle_cases() if not any(case.make().made_for["grid"].periodic)]


def large_sets(dense: Grid) -> list[Case]:
    """Return cases with more than 2^24 particles, in the given cells and in sparse cells."""
    sparse = Grid.with_count(2**25, PERIODIC)
    return [
        Case("2^24 + 1 particles", partial(make, 2**24 + 1, dense)),
        Case(
            "2^24 + 3 particles, nearly sorted, periodic",
            partial(make, 2**24 + 3, sparse, order="nearly-sorted"),
        ),
    ]


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield small inputs in boxes of several shapes, with parameters for small parts and chunks."""
    torus = Grid((8, 6, 7), (0.0,) * 3, (8.0, 6.0, 7.0), PERIODIC)
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    long = Grid((40, 20, 1), (0.0,) * 3, (40.0, 20.0, 1.0))
    known = algorithm.defaults
    # A chunk of the default size takes seconds, even with few particles.
    usual = {"chunk": 32} if "chunk" in known else {}
    yield make(300, torus), usual
    yield make(100, box, "clusters"), usual
    yield make(200, long), usual
    yield make(40, long, "one-cell"), usual
    yield make(40, cube(1)), usual
    yield make(1, box), usual
    yield make(0, box), {}
    for particles, cells in getattr(algorithm, "sample_sizes", ()):
        yield make(particles, Grid.with_count(cells), seed=1), {}
    if "count_comparisons" in known:  # small chunks: splitting trees takes several launches
        yield make(140, torus, seed=1), {"chunk": 2, "count_comparisons": 1}
    if "threshold" in known:
        yield make(200, torus), {"parts": 3, "threshold": 50}
        yield make(60, torus), {"parts": 8, "threshold": 1}


def moved_samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield inputs in which some, all or none of the particles moved."""
    torus = Grid((5, 6, 7), (0.0,) * 3, (5.0, 6.0, 7.0), PERIODIC)
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    yield move(make(400, torus), 150, "random"), {}
    yield move(make(100, box, "clusters"), 60, "next"), {}
    yield move(make(40, box, "one-cell"), 40, "random"), {}
    yield move(make(90, box), 1, "random"), {}
    yield move(make(1, box), 1, "next"), {}
    yield move(make(0, box), 0, "next"), {}
    if "threshold" in algorithm.defaults:
        yield move(make(200, torus), 100, "random"), {"parts": 3, "threshold": 40}


def unbounded_samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield particles near the origin and far from it, with many buckets and with few."""
    box = Grid((3, 4, 3), (-1.0, 0.0, 2.0), (3.0, 4.0, 3.0))
    about = Grid((6, 6, 6), (-3.0,) * 3, (6.0,) * 3)
    far = Grid((4, 4, 4), (-1e5, 2e5, 3e4), (4.0,) * 3)
    for buckets in (0, 1, 5):
        yield make(50, about, "symmetric"), {"buckets": buckets}
    yield make(30, box, "one-cell"), {"buckets": 5}
    for size in (0, 1, 300):
        yield make(size, far), {}


def blanks(size: int) -> Iterator[ParticleSet]:
    """Yield particles with two states, in few and in many cells, in open and periodic boxes."""
    positions = np.zeros((size, 4), np.float32)
    for cells in ((3, 4, 5), (64, 64, 64)):
        for periodic in (OPEN, PERIODIC):
            edges = (float(cells[0]), float(cells[1]), float(cells[2]))
            grid = Grid(cells, (0.0,) * 3, edges, periodic)
            before = ParticleSet(positions, grid, "given", "given", None)
            yield ParticleSet(positions, grid, "given", "given", None, before)
