"""Conformance suites: the inputs on which every algorithm of a family must be right.

They are small on purpose (the suite of a family takes seconds on a CPU) and lie where
algorithms break: nothing, one, all in one place, walls and edges, block sizes and powers of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.contracts import Algorithm
from gpubench.errors import NotSupported
from gpubench.families import FAMILIES
from gpubench.grid import Grid
from gpubench.inputs import ORDERS, ParticleSet, from_positions, make

Triple = tuple[bool, bool, bool]
OPEN: Triple = (False, False, False)
PERIODIC: Triple = (True, True, True)


@dataclass(frozen=True)
class Case:
    """One input of a suite.

    make: draw it; the same each time.
    exact: whether its coordinates and distances are exact in float32, so that the neighbours
        are those of exact arithmetic, even exactly at the cutoff.
    """

    name: str
    make: Callable[[], ParticleSet]
    exact: bool = False


@dataclass(frozen=True)
class CaseResult:
    """What came of a case: status `ok`, `wrong` or `skipped`; reason is empty for `ok`."""

    name: str
    status: str
    reason: str = ""


def cases(family: str) -> list[Case]:
    """Return the suite of a family."""
    return [*_few(), *_edges(), *_sizes(), *_shapes(), *_random(), *_OWN[family]()]


def large_cases(family: str) -> list[Case]:
    """Return the inputs just past 2^24 particles, where float32 no longer counts; for a GPU."""
    dense = Grid.with_count({"cell-list": 2**22, "neighbour-query": 2**24}[family])
    sparse = Grid.with_count(2**25, PERIODIC)
    return [
        Case("2^24 + 1 particles", partial(make, 2**24 + 1, dense)),
        Case(
            "2^24 + 3 particles, nearly sorted, periodic",
            partial(make, 2**24 + 3, sparse, order="nearly-sorted"),
        ),
    ]


def run_conformance(
    make_algorithm: Callable[[int, Grid], Algorithm], family: str
) -> list[CaseResult]:
    """Run the suite of a family.

    make_algorithm: makes the algorithm for a number of particles and a grid, with its
        conformance_parameters; where it raises NotSupported the case is skipped.
    Each answer is checked after a first launch and after a second, which must not be disturbed
    by what the first left behind.
    """
    return [run_case(make_algorithm, family, case) for case in cases(family)]


def run_case(
    make_algorithm: Callable[[int, Grid], Algorithm], family: str, case: Case
) -> CaseResult:
    """Run one case, as run_conformance does."""
    inputs = case.make()
    oracle = FAMILIES[family].oracle(inputs, case.exact)
    try:
        algorithm = make_algorithm(inputs.particles, inputs.grid)
    except NotSupported as reason:
        return CaseResult(case.name, "skipped", str(reason))
    algorithm.load(inputs)
    for launch in ("first", "second"):
        algorithm.launch()
        if problem := oracle.check(algorithm):
            return CaseResult(case.name, "wrong", f"after the {launch} launch: {problem}")
    return CaseResult(case.name, "ok")


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


def _neighbour_query_own() -> list[Case]:
    stretched = Grid((6, 6, 6), (0.0, 0.0, 0.0), (6.0, 9.0, 12.0), PERIODIC)
    pair = [[1.0, 1.5, 1.5], [2.0, 1.5, 1.5]]  # one cutoff apart: not neighbours
    nearer = [[1.0, 1.5, 1.5], [2.0 - 2**-20, 1.5, 1.5]]
    across = [[0.25, 2.0, 2.0], [3.75, 2.0, 2.0], [3.25, 2.0, 2.0]]
    return [
        Case("a pair at the cutoff", _given(_cube(4), pair), exact=True),
        Case("a pair just nearer than the cutoff", _given(_cube(4), nearer), exact=True),
        Case("pairs across a periodic wall", _given(_cube(4, PERIODIC), across), exact=True),
        Case("no pairs across an open wall", _given(_cube(4), across), exact=True),
        Case("longer cells along y and z", partial(make, 800, stretched)),
        Case("within rounding of the cutoff, periodic", _near_the_cutoff),
    ]


_OWN: dict[str, Callable[[], list[Case]]] = {
    "cell-list": _cell_list_own,
    "neighbour-query": _neighbour_query_own,
}
