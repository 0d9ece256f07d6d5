"""The inputs on which every algorithm of a problem must be right.

They are small on purpose (a suite takes seconds on a CPU) and lie where algorithms break: nothing,
one, all in one place, walls and edges, block sizes and powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.core.case import Case
from gpubench.core.grid import Grid
from gpubench.inputs import (
    ORDERS,
    ParticleSet,
    from_positions,
    make,
    make_pairs,
    move,
    of_particles,
)
from gpubench.verify.collision_suites import meshes
from gpubench.verify.noise_suites import pairs
from gpubench.verify.sparse_suites import matrices
from gpubench.verify.subdivision_suites import surfaces

Triple = tuple[bool, bool, bool]
OPEN: Triple = (False, False, False)
PERIODIC: Triple = (True, True, True)


@cache
def cases(family: str) -> tuple[Case, ...]:
    """Return the suite of a family."""
    from gpubench.problems import problems

    return tuple(problems()[family].cases())


def large_cases(family: str) -> list[Case]:
    """Return the inputs just past 2^24 in size, where float32 no longer counts; for a GPU."""
    from gpubench.problems import problems

    return list(problems()[family].large_cases())


def unmoved(family: str) -> list[Case]:
    """Return the suite of a problem that has no folder yet."""
    return _SUITES[family]()


def unmoved_large(family: str) -> list[Case]:
    """Return the large cases of a problem that has no folder yet."""
    if family == "pair-noise":
        return [Case("2^24 + 1 pairs", partial(make_pairs, 2**24 + 1))]
    if family == "sparse-product":
        cells = Grid.with_count(2**24)
        return [Case("2^24 + 1 rows", lambda: of_particles(make(2**24 + 1, cells)))]
    queried = family in ("neighbour-query", "neighbour-search", "unbounded-query")
    dense = Grid.with_count(2**24 if queried else 2**22)
    if family in ("hash-grid", "unbounded-query"):
        about = Grid.with_count(2**25).centred()
        return [
            Case("2^24 + 1 particles", partial(make, 2**24 + 1, dense)),
            Case("2^24 + 3 particles, symmetric", partial(make, 2**24 + 3, about, "symmetric")),
        ]
    sparse = Grid.with_count(2**25, PERIODIC)
    if family == "cell-list-update":
        return [
            Case("2^24 + 1 particles", lambda: _moved(make(2**24 + 1, dense), 2**20)),
            Case("2^24 + 3 particles, all move", lambda: _moved(make(2**24 + 3, sparse))),
        ]
    return [
        Case("2^24 + 1 particles", partial(make, 2**24 + 1, dense)),
        Case(
            "2^24 + 3 particles, nearly sorted, periodic",
            partial(make, 2**24 + 3, sparse, order="nearly-sorted"),
        ),
    ]


def _cube(edge: int, periodic: Triple = OPEN) -> Grid:
    """Return edge^3 unit cells from the origin."""
    return Grid((edge,) * 3, (0.0,) * 3, (float(edge),) * 3, periodic)


def _given(grid: Grid, positions: ArrayLike) -> Callable[[], ParticleSet]:
    return lambda: from_positions(np.asarray(positions, np.float32).reshape(-1, 3), grid)


def _points(grid: Grid, per_cell: int = 1, far_walls: bool = True) -> NDArray[np.float32]:
    """Return the points of a lattice over the box, per_cell of them along each edge of a cell."""
    axes = [
        np.linspace(low, low + size, n * per_cell + 1)[: None if far_walls else -1]
        for low, size, n in zip(grid.low, grid.size, grid.cells, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return points.astype(np.float32)


def _few() -> list[Case]:
    box, torus = _cube(4), _cube(4, PERIODIC)
    copies = np.repeat(make(64, box, seed=3).positions[:, :3], 5, axis=0)
    return [
        Case("empty", partial(make, 0, box)),
        Case("empty, one cell", partial(make, 0, _cube(1))),
        Case("one particle", partial(make, 1, box)),
        Case("one particle, one cell", partial(make, 1, _cube(1))),
        Case("one particle, last cell", _given(box, [3.5, 3.5, 3.5])),
        Case("two particles, far apart", _given(_cube(64), [[0.5] * 3, [63.5] * 3])),
        Case("all in one cell", partial(make, 300, box, "one-cell")),
        Case("all in the first cell", _given(box, make(257, _cube(1)).positions[:, :3])),
        Case("one cell for all", partial(make, 257, _cube(1))),
        Case("all at one point", _given(box, np.full((300, 3), 1.25)), exact=True),
        Case("all at one corner", _given(torus, np.zeros((100, 3))), exact=True),
        Case("five at each point", _given(box, copies)),
    ]


def _edges() -> list[Case]:
    box = Grid((5, 4, 3), (0.0, 0.0, 0.0), (5.0, 4.0, 3.0))
    torus = Grid(box.cells, box.low, box.size, PERIODIC)
    shifted = Grid((5, 4, 3), (-8.0, -2.5, 16.0), (2.5, 2.0, 1.5))
    tenths = Grid((7, 5, 3), (-0.3, 0.1, -0.7), (0.7, 0.5, 0.3))
    corners = _points(box)
    below = np.nextafter(corners, np.float32(-1))
    above = np.minimum(np.nextafter(corners, np.float32(9)), np.asarray(box.size, np.float32))
    wall = np.zeros((len(corners), 4), np.float32)
    wall[:, :3] = corners
    return [
        Case("on cell corners", _given(box, corners), exact=True),
        Case("on cell corners, periodic", _given(torus, corners), exact=True),
        # Wrapping by rounded arithmetic can leave a particle at the far wall of a periodic box.
        Case(
            "on the far walls, periodic",
            lambda: ParticleSet(wall, torus, "given", "given", None),
            exact=True,
        ),
        Case("just below cell corners", _given(box, np.maximum(below, 0))),
        Case("just above cell corners", _given(box, above)),
        Case("just below cell corners, periodic", _given(torus, below)),
        Case("half a cell apart", _given(shifted, _points(shifted, 2)), exact=True),
        Case("half a cell apart, periodic", _given(torus, _points(torus, 2, False)), exact=True),
        Case("on cell corners of inexact cells", _given(tenths, _points(tenths))),
    ]


def _sizes() -> list[Case]:
    sizes = (2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)
    return [
        *(Case(f"{n} particles", partial(make, n, _cube(10), seed=n)) for n in sizes),
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
        Case("clusters", partial(make, 2000, _cube(24), "clusters")),
        Case("clusters, periodic", partial(make, 2000, _cube(24, PERIODIC), "clusters")),
        Case("free surface", partial(make, 2000, slab, "free-surface")),
        Case("lattice", partial(make, 2000, _cube(10), "lattice")),
        Case("one cell of a periodic box", partial(make, 200, _cube(5, PERIODIC), "one-cell")),
    ]


def _random() -> list[Case]:
    wrapped = _cube(11, PERIODIC)
    return [
        *(Case(f"{order} order", partial(make, 3000, wrapped, order=order)) for order in ORDERS),
        *(Case(f"random, seed {s}", partial(make, 1777, _cube(8), seed=s)) for s in range(5)),
        *(
            Case(f"random, periodic, seed {s}", partial(make, 1777, _cube(8, PERIODIC), seed=s))
            for s in range(5)
        ),
        Case("2^16 + 1 particles in 2^18 cells", partial(make, 2**16 + 1, _cube(64))),
    ]


def _cell_list_own() -> list[Case]:
    # A query needs three cells along a periodic axis; a cell list does not.
    torus = _cube(1, PERIODIC)
    pair = Grid((2, 1, 2), (-1.0, 0.0, 0.0), (2.0, 1.0, 2.0), PERIODIC)
    return [
        Case("one periodic cell", partial(make, 100, torus)),
        Case("two periodic cells", partial(make, 300, pair)),
        Case("16 per cell", partial(make, 2**14 + 1, Grid.with_count(2**10))),
        Case("2^17 + 1 particles, 1 per cell", partial(make, 2**17 + 1, Grid.with_count(2**17))),
    ]


def _near_the_cutoff() -> ParticleSet:
    """Draw 400 separate pairs, across a periodic wall and within rounding of the cutoff.

    Either answer is right for such a pair, but it must be the same from both of its sides.
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
    """Return pairs whose images are just nearer than the cutoff, at the walls of three cells."""
    near = [0.999999, 0.9999, 0.5, 1e-6, 1.0, 1.000001, 1.9999995]
    pairs = [((x + 0.9999994 * side) % 3, x) for x in near for side in (-1, 1)]
    lines = [(x, 0.4 + along, 1.5) for along, pair in enumerate(pairs) for x in pair]
    grid = Grid((3, 20, 3), (0.0,) * 3, (3.0, 20.0, 3.0), PERIODIC)
    return from_positions(np.asarray(lines, np.float32), grid)


def _neighbour_query_own() -> list[Case]:
    stretched = Grid((6, 6, 6), (0.0, 0.0, 0.0), (6.0, 9.0, 12.0), PERIODIC)
    pair = [[1.0, 1.5, 1.5], [2.0, 1.5, 1.5]]  # one cutoff apart: not neighbours
    nearer = [[1.0, 1.5, 1.5], [2.0 - 2**-20, 1.5, 1.5]]
    across = [[0.25, 2.0, 2.0], [3.75, 2.0, 2.0], [3.25, 2.0, 2.0]]
    return [
        Case("a pair at the cutoff", _given(_cube(4), pair), exact=True),
        Case("a pair just nearer than the cutoff", _given(_cube(4), nearer), exact=True),
        Case("a pair across a wall of three periodic cells", _across_three_cells),
        Case("pairs across a periodic wall", _given(_cube(4, PERIODIC), across), exact=True),
        Case("no pairs across an open wall", _given(_cube(4), across), exact=True),
        Case("longer cells along y and z", partial(make, 800, stretched)),
        Case("within rounding of the cutoff, periodic", _near_the_cutoff),
    ]


def _neighbour_search_own() -> list[Case]:
    """Return what updates find: particles that moved, once and again."""
    box, torus = _cube(4), _cube(5, PERIODIC)
    return [
        Case("nothing moved", lambda: _moved(make(500, box), 0)),
        Case("one moved", lambda: _moved(make(500, box), 1)),
        Case("all moved", lambda: _moved(make(1000, torus))),
        Case("to next cells", lambda: _moved(make(2000, torus), 300, "next")),
        Case("moved in a row", lambda: _in_a_row(make(700, box, seed=2), 5)),
        Case("all in one cell moved", lambda: _moved(make(300, torus, "one-cell"))),
    ]


def _anywhere(positions: ArrayLike, cell: Sequence[float] = (1.0, 1.0, 1.0)) -> ParticleSet:
    """Take positions as they are, with a grid of which only the cell's edges mean anything."""
    packed = np.zeros((len(np.asarray(positions)), 4), np.float32)
    packed[:, :3] = positions
    edges = (float(cell[0]), float(cell[1]), float(cell[2]))
    return ParticleSet(packed, Grid((1, 1, 1), (0.0,) * 3, edges), "given", "given", None)


def _far_away(*places: tuple[float, float, float], cell: float = 1.0) -> ParticleSet:
    """Draw 300 particles in 5^3 cells about each place."""
    about = np.random.default_rng(8).uniform(-2.5, 2.5, (len(places), 300, 3))
    points = cell * about + np.asarray(places)[:, None]
    return _anywhere(points.reshape(-1, 3), (cell,) * 3)


def _with_one_far_away(distance: float) -> ParticleSet:
    """Draw particles about the origin, and one that stretches the world to its side."""
    near = np.random.default_rng(9).uniform(-3, 3, (500, 3))
    return _anywhere([*near, [distance, 0.5, -distance]])


def _along_all_axes(coordinates: ArrayLike, cell: Sequence[float] = (1.0, 1.0, 1.0)) -> ParticleSet:
    """Return the lattice of which these are the coordinates along every axis."""
    along = np.asarray(coordinates, np.float32)
    points = np.stack(np.meshgrid(along, along, along), axis=-1).reshape(-1, 3)
    return _anywhere(points, cell)


def _at_the_cutoff(place: float, cell: float) -> ParticleSet:
    """Draw 300 separate pairs within rounding of the cutoff, all at a distance from the origin.

    Either answer is right for such a pair, but it must be the same from both of its sides.
    """
    rng = np.random.default_rng(12)
    first = np.full((300, 3), place, np.float32)
    first[:, 1:] += np.stack(np.divmod(np.arange(300), 20), axis=1) * np.float32(3 * cell)
    first[:, 0] += rng.uniform(-cell, cell, 300).astype(np.float32)
    second = first.copy()
    second[:, 0] += np.float32(cell)
    second[:, 0] += rng.integers(-2, 3, 300) * np.spacing(np.float32(place))
    return _anywhere(np.concatenate((first, second)), (cell,) * 3)


def _unbounded() -> list[Case]:
    """Return worlds that lie anywhere, as wide as float32 has them."""
    corners = np.arange(-3, 4, dtype=np.float32)
    centred = Grid((6, 8, 4), (-3.0, -4.0, -2.0), (6.0, 8.0, 4.0))
    last = 2.0**22 + np.array([-1, -0.5, 0, 0.5, 2, 2.0**40])
    tiny, huge = float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)
    ends = [-huge, -1e30, -1e-30, -tiny, -0.0, 0.0, tiny, 1e-30, 1e30, huge]
    pair = [[-0.25, -0.5, -0.5], [0.75, -0.5, -0.5]]  # one cutoff apart: not neighbours
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
        Case("far away on every side", partial(_far_away, *_points(_cube(1)) * 2e5 - 1e5)),
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


def _moved(
    before: ParticleSet, moved: int | None = None, destination: str = "random", seed: int = 1
) -> ParticleSet:
    """Move particles, all of them where no number is given."""
    return move(before, before.particles if moved is None else moved, destination, seed)


def _between(grid: Grid, *states: NDArray[np.intp]) -> ParticleSet:
    """Return particles that are in the given cells, state after state, each at its centre."""
    found: ParticleSet | None = None
    for cell_of in states:
        corner = np.stack(np.unravel_index(cell_of, grid.cells, order="F"), axis=1)
        found = replace(from_positions(corner + 0.5, grid), before=found)
    assert found is not None
    return found


def _in_a_row(start: ParticleSet, moves: int) -> ParticleSet:
    """Move particles again and again: none, a few, many, all, to random and to next cells."""
    n = start.particles
    for seed in range(moves):
        moved = (0, 1, n // 50, n // 2, n)[seed % 5]
        start = move(start, moved, ("random", "next")[seed % 2], seed)
    return start


def _moves() -> list[Case]:
    box, torus, row = _cube(4), _cube(4, PERIODIC), Grid.with_count(1)
    flat = Grid((1, 37, 1), (0.0, 0.0, 0.0), (1.0, 37.0, 1.0))
    pair = Grid((2, 1, 2), (-1.0, 0.0, 0.0), (2.0, 1.0, 2.0), PERIODIC)
    some = make(600, box, seed=1)
    tight = make(300, box, "one-cell")
    sizes = (1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)
    return [
        Case("empty", lambda: _moved(make(0, box))),
        Case("empty, one cell", lambda: _moved(make(0, row), 0)),
        Case("one cell, nothing moves", lambda: _moved(make(257, row), 0)),
        Case("one periodic cell, nothing moves", lambda: _moved(make(100, _cube(1, PERIODIC)), 0)),
        Case("never moved", lambda: some),
        Case("nothing moves", lambda: _moved(some, 0)),
        Case("one moves", lambda: _moved(some, 1)),
        Case("two move", lambda: _moved(some, 2)),
        Case("all but one move", lambda: _moved(some, 599)),
        Case("everything moves", lambda: _moved(some)),
        Case("everything moves, periodic", lambda: _moved(make(600, torus, seed=2))),
        *_between_lists(),
        Case("out of one cell", lambda: _moved(tight)),
        Case("half out of one cell, to next cells", lambda: _moved(tight, 150, "next")),
        Case("out of one cell by one", lambda: _moved(tight, 1)),
        Case("to next cells", lambda: _moved(some, 300, "next")),
        Case("all to next cells, periodic", lambda: _moved(make(600, torus), None, "next")),
        Case("to next cells in a column", lambda: _moved(make(500, flat), 250, "next")),
        Case("two periodic cells", lambda: _moved(make(300, pair), 150, "next")),
        Case("a simulation step", lambda: move(make(3000, _cube(9)), None, "step")),
        Case(
            "a simulation step, periodic, clusters",
            lambda: move(make(3000, _cube(24, PERIODIC), "clusters"), None, "step"),
        ),
        *(Case(f"{n} particles", partial(_resized, n)) for n in sizes),
        *(
            Case(f"random, seed {s}", partial(_resized, 1777, (1, 17, 170, 888, 1777)[s], s))
            for s in range(5)
        ),
        *(Case(f"{order} order", partial(_resized, 3000, 60, order=order)) for order in ORDERS),
        Case(
            "2^16 + 1 particles in 2^18 cells",
            lambda: _moved(make(2**16 + 1, _cube(64)), 2**12, "next"),
        ),
        Case("2^17 + 1 particles", lambda: _moved(make(2**17 + 1, Grid.with_count(2**15)), 2621)),
        Case("30 moves in a row", lambda: _in_a_row(make(500, _cube(5)), 30)),
        Case("30 moves in a row, periodic", lambda: _in_a_row(make(257, torus), 30)),
    ]


def _between_lists() -> list[Case]:
    """Return moves between lists of ten, whose places say which particle is the head."""
    half = Grid((4, 4, 2), (0.0,) * 3, (4.0, 4.0, 2.0))
    lists = np.repeat(np.arange(32), 10)  # ten particles in each of its cells
    place = np.arange(320) % 10

    def leave(*which: int) -> NDArray[np.intp]:
        """Return the cells after the given places of every list have gone to the next list."""
        return np.where(np.isin(place, which), (lists + 1) % 32, lists)

    def between(*states: NDArray[np.intp]) -> Callable[[], ParticleSet]:
        return partial(_between, half, lists, *states)

    return [
        # Whichever end of its list the head is, one of the first and last places holds it.
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
    """Move particles of a 10^3 grid, a third of them unless a number is given."""
    before = make(particles, _cube(10), order=order, seed=seed)
    return _moved(before, -(-particles // 3) if moved is None else moved, seed=seed)


def _any_particles() -> list[Case]:
    return [*_few(), *_edges(), *_sizes(), *_shapes(), *_random()]


def _any_open() -> list[Case]:
    return [case for case in _any_particles() if not any(case.make().made_for["grid"].periodic)]


_SUITES: dict[str, Callable[[], list[Case]]] = {
    "cell-list": lambda: [*_any_particles(), *_cell_list_own()],
    "cell-list-update": _moves,
    "neighbour-query": lambda: [*_any_particles(), *_neighbour_query_own()],
    "neighbour-search": lambda: [
        *_any_particles(),
        *_neighbour_query_own(),
        *_neighbour_search_own(),
    ],
    "hash-grid": lambda: [*_any_open(), *_unbounded()],
    "unbounded-query": lambda: [*_any_open(), *_unbounded()],
    "pair-noise": pairs,
    "sparse-product": matrices,
    "surface-subdivision": surfaces,
    "mesh-collision": meshes,
}
