"""Test inputs of searches for neighbours and images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.problem import Sample
from gpubench.problems.images.axes import Systems
from gpubench.problems.images.inputs import SystemSet, make_systems

SLAB, OPEN, WIRE = (True, True, False), (False, False, False), (False, False, True)
CUBE = np.diag([6.0, 6.0, 6.0])
TILTED = np.array([[6.0, 0.0, 0.0], [2.0, 5.5, 0.0], [1.5, 2.5, 5.0]])
LEVEL = TILTED * [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


def systems() -> list[Case]:
    """Return cells of many shapes, cutoffs below and above them, and batches."""
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    shapes: dict[str, ArrayLike] = {
        "cubic": CUBE,
        "triclinic": TILTED,
        "left-handed": TILTED[[1, 0, 2]],
        "turned": TILTED @ turn,
        "strongly tilted": np.array([[6, 0, 0], [13, 5, 0], [-20, 11, 5]]),
        "flat": np.diag([14.0, 14.0, 1.0]),
        "a needle": np.array([[1.0, 0.0, 0.0], [0.3, 1.0, 0.0], [4.0, 5.0, 40.0]]),
        **{f"random cell {k}": TILTED + np.random.default_rng(k).random((3, 3)) for k in range(20)},
    }
    rng, make = np.random.default_rng(4), partial(partial, make_systems)
    own = np.multiply.outer((0.3, 1.0, 0.5, 0.7, 0.2, 0.9), TILTED)
    sizes = (0, 1, 2, 31, 32, 33, 255, 256, 257)
    return [
        *(Case(name, make([150], cell, 1.7)) for name, cell in shapes.items()),
        *(Case(f"cutoff {cutoff}", make([40], TILTED, cutoff)) for cutoff in (1.4, 3.3, 8.0)),
        *(Case(f"{n} particles", make([n], TILTED, 2.0)) for n in sizes),
        Case("slab", make([300], CUBE, 1.7, SLAB)),
        Case("slab, tilted", make([300], LEVEL, 1.7, SLAB)),
        Case("slab thinner than the cutoff", make([90], CUBE / 3, 3.0, SLAB)),
        Case("open", make([300], CUBE, 1.7, OPEN)),
        Case("wire", make([100], CUBE / 2, 4.0, WIRE)),
        Case("positions outside", partial(_given, rng.uniform(-30, 40, (200, 3)), 1.7)),
        Case("all at one point", partial(_given, np.full((20, 3), 1.25), 7.0)),
        Case("on the corners", partial(_given, TILTED[rng.integers(0, 3, 30)], 2.5)),
        Case("one particle, 400 images", make([1], np.eye(3), 4.6)),
        Case("a batch of many sizes", make((2, 200, 0, 60, 1, 90), own, 2.4)),
        Case("a batch of slabs", make((9, 30), LEVEL, 2.0, SLAB)),
        Case("a batch of 300", make([5] * 300, TILTED / 3, 1.5)),
        Case("2^12 particles", partial(Systems("60-70-80", 2**12, 60).make, 0)),
    ]


def _given(positions: NDArray[np.float64], cutoff: float) -> SystemSet:
    cells, ends = np.array([np.float32(TILTED)], np.float64), np.array([0, len(positions)])
    return SystemSet(positions.astype(np.float32), ends, cells, (True, True, True), cutoff)


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield small systems, orthogonal and triclinic, and a batch."""
    for sizes, vectors in ([0], CUBE), ([300], CUBE), ([1], TILTED), ([300], TILTED), (
        [5, 0, 30], TILTED,
    ):  # fmt: skip
        yield make_systems(sizes, vectors, 1.9), {}


def blanks(size: int) -> Iterator[SystemSet]:
    """Yield systems of either shape, for which all kernels are compiled."""
    positions, ends = np.zeros((size, 3), np.float32), np.array([0, size])
    for vectors in (CUBE, TILTED):
        yield replace(make_systems([0], vectors, 1.9), positions=positions, offsets=ends)
