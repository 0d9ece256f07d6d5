"""Test inputs of searches for neighbours and images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.problem import Sample
from gpubench.problems.images.axes import Systems
from gpubench.problems.images.inputs import SystemSet, make_systems

Axes = tuple[bool, bool, bool]
ALL: Axes = (True, True, True)
SLAB: Axes = (True, True, False)
CUBE = np.diag([6.0, 6.0, 6.0])
TILTED = np.array([[6.0, 0.0, 0.0], [2.0, 5.5, 0.0], [1.5, 2.5, 5.0]])


def systems() -> list[Case]:
    """Return cells of many shapes, cutoffs below and above them, and batches."""
    shapes: dict[str, ArrayLike] = {
        "cubic": CUBE,
        "triclinic": TILTED,
        "left-handed": TILTED[[1, 0, 2]],
        "turned": TILTED @ _turn(),
        "strongly tilted": [[6, 0, 0], [13, 5, 0], [-20, 11, 5]],
        "flat": np.diag([14.0, 14.0, 1.0]),
        "a needle": np.array([[1.0, 0.0, 0.0], [0.3, 1.0, 0.0], [4.0, 5.0, 40.0]]),
    }
    cutoffs = {"below a third of it": 1.4, "above half of it": 3.3, "above all of it": 8.0}
    few = {f"{n} particles": n for n in (0, 1, 2, 31, 32, 33, 255, 256, 257)}
    rng = np.random.default_rng(4)
    own = np.stack([TILTED * scale for scale in (0.3, 1.0, 0.5, 0.7, 0.2, 0.9)])
    batch = partial(make_systems, (2, 200, 0, 60, 1, 90), own, 2.4)
    return [
        *(Case(name, partial(make_systems, [150], cell, 1.7)) for name, cell in shapes.items()),
        *(
            Case(f"cutoff {name}", partial(make_systems, [40], TILTED, cutoff))
            for name, cutoff in cutoffs.items()
        ),
        *(Case(name, partial(make_systems, [n], TILTED, 2.0)) for name, n in few.items()),
        Case("slab", partial(make_systems, [300], CUBE, 1.7, SLAB)),
        Case("slab, tilted", partial(make_systems, [300], _level(), 1.7, SLAB)),
        Case("slab thinner than the cutoff", partial(make_systems, [90], CUBE / 3, 3.0, SLAB)),
        Case("open", partial(make_systems, [300], CUBE, 1.7, (False, False, False))),
        Case("wire", partial(make_systems, [100], CUBE / 2, 4.0, (False, False, True))),
        Case("positions outside", _given(rng.uniform(-30, 40, (200, 3)), TILTED, 1.7)),
        Case("all at one point", _given(np.full((20, 3), 1.25), TILTED, 7.0)),
        Case("on the corners", _given(TILTED[rng.integers(0, 3, 30)], TILTED, 2.5)),
        Case("one particle, 400 images", partial(make_systems, [1], np.eye(3), 4.6)),
        Case("a batch of many sizes", batch),
        Case("a batch of slabs", partial(make_systems, (9, 30), _level(), 2.0, SLAB)),
        Case("a batch of 300", partial(make_systems, [5] * 300, TILTED / 3, 1.5)),
        *(
            Case(f"random cell {k}", partial(make_systems, [400], _random(k), 1.5, seed=k))
            for k in range(8)
        ),
        Case("2^12 particles", partial(_drawn, 2**12)),
    ]


def _level() -> NDArray[np.float64]:
    return np.array([[6.0, 0.0, 0.0], [2.0, 5.5, 0.0], [0.0, 0.0, 6.0]])


def _turn() -> NDArray[np.float64]:
    turned, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    return turned


def _random(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-1, 1, (3, 3)) + np.diag([6.0, 5.0, 7.0])


def _given(positions: ArrayLike, vectors: ArrayLike, cutoff: float) -> Callable[[], SystemSet]:
    x, cells = np.asarray(positions, np.float32), np.asarray([vectors], np.float32)
    offsets = np.array([0, len(x)])
    return lambda: SystemSet(x, offsets, cells.astype(np.float64), ALL, cutoff)


def _drawn(particles: int, lattice: str = "60-70-80", systems: int = 1) -> SystemSet:
    drawn = Systems(lattice, particles, 60, systems).make(0)
    assert isinstance(drawn, SystemSet)
    return drawn


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield small systems, orthogonal and triclinic, and a batch."""
    for size in (0, 1, 300):
        yield make_systems([size], CUBE, 1.5), {}
        yield make_systems([size], TILTED, 2.0), {}
    yield make_systems([5, 0, 30], TILTED, 2.0), {}


def blanks(size: int) -> Iterator[SystemSet]:
    """Yield systems of either shape, for which all kernels are compiled."""
    for lattice in ("cubic", "60-70-80"):
        yield _drawn(max(size, 1), lattice)
