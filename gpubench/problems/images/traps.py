"""Traps for neighbour searches: seeded inputs on which libraries were seen to fail, or may.

No distance lies near the cutoff unless the trap is about that, so a right answer is one set of
pairs, whatever is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpubench.problems.images.cases import CUBE, LEVEL, OPEN, SLAB, TILTED, WIRE
from gpubench.problems.images.inputs import SystemSet
from gpubench.problems.images.oracle import pairs_within

ALL = (True, True, True)
CLEAR = 1e-4  # part of the cutoff, around it, that no distance is in
LIMIT, LONG = 60, 300  # seconds after which a search hangs
Make = Callable[[], SystemSet]


@dataclass(frozen=True)
class Trap:
    """An input, and what is done with it.

    use: "search"; "default", without a capacity; "again"; "changed", to the input `then` made;
        "threads"; "stream"; "graph"; "gradient"; "count".
    given: what the positions become before a library takes them.
    refused: whether an error alone is right.
    crowded: the particles that may have neighbours, if they are few of many.
    """

    name: str
    group: str
    make: Make
    use: str = "search"
    given: Callable[[Any], Any] | None = None
    then: Make | None = None
    refused: bool = False
    limit: int = LIMIT
    crowded: Sequence[int] = ()


def _spaced(
    positions: ArrayLike, cell: ArrayLike, cutoff: float,
    periodic: tuple[bool, bool, bool] = ALL, of: str = "float32",
) -> SystemSet:  # fmt: skip
    """Return a system without the particles by which a distance is near the cutoff."""
    x: Any = np.asarray(positions, np.float64)
    while True:
        made = _points(x, cutoff, cell, periodic, of)()
        i, j, _, apart = pairs_within(made, (1 + CLEAR) * cutoff, np.arange(len(x)))
        near = apart > (1 - CLEAR) * cutoff
        if not near.any():
            return made
        x = np.delete(x, np.unique(np.maximum(i, j)[near]), axis=0)


def _uniform(
    cell: ArrayLike, cutoff: float, particles: int = 200, periodic: Any = ALL, seed: int = 1,
    moved: ArrayLike = 0.0, of: str = "float32",
) -> SystemSet:  # fmt: skip
    along = np.random.default_rng(seed).random((particles, 3)) + np.asarray(moved)
    return _spaced(along @ np.asarray(cell, np.float64), cell, cutoff, periodic, of)


def _walled(count: int, value: ArrayLike, periodic: Any = ALL) -> SystemSet:
    rng = np.random.default_rng(count)
    x = rng.random((60, 3)) * 6
    for row in x:
        row[rng.permutation(3)[:count]] = rng.choice(np.asarray(value, np.float64), count)
    return _spaced(x, CUBE, 1.7, periodic)


def _points(
    at: ArrayLike, cutoff: float = 1.7, cell: ArrayLike = CUBE, periodic: Any = ALL,
    of: Any = "float32",
) -> Make:  # fmt: skip
    x: Any = np.asarray(at, of).reshape(-1, 3)
    cells = np.array([np.asarray(cell, np.float32)], np.float64)
    return lambda: SystemSet(x, np.array([0, len(x)]), cells, periodic, cutoff)


def _lattice(periodic: Any) -> Make:
    at = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), axis=-1)
    return _points(at, 1.0, CUBE, periodic)


def _of_many(particles: int) -> SystemSet:
    """Return a lattice of unit spacing, of whose last particle alone the first is near."""
    edge = round(particles ** (1 / 3)) + 1
    at = np.arange(particles)
    x = np.stack((at % edge, at // edge % edge, at // edge**2), axis=1).astype(np.float32)
    x[-1] = x[0] + np.float32(0.25)
    cells = np.eye(3)[None] * float(edge)
    return SystemSet(x, np.array([0, particles]), cells, OPEN, 0.5)


def _with_one(x: SystemSet, at: Any, value: float) -> SystemSet:
    positions = x.positions.copy()
    positions[at] = value
    return replace(x, positions=positions)


def _far(offset: float, scale: float, of: str, periodic: Any = OPEN) -> Make:
    rng = np.random.default_rng(8)
    x = offset + scale * rng.integers(0, 96, (200, 3)) / 16
    return lambda: _spaced(x, scale * CUBE, 1.7 * scale, periodic, of)


def _cell(name: str, cell: ArrayLike, cutoff: float, **more: Any) -> Trap:
    return Trap(name, "Cells", lambda: _uniform(cell, cutoff, **more))


def _cast(kind: str) -> Callable[[Any], Any]:
    def of_kind(array: Any) -> Any:
        if hasattr(array, "astype"):
            return array.astype(kind)
        import torch

        return array.to(getattr(torch, kind))

    return of_kind


def _of_numpy(change: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[Any], Any]:
    """Return a function for what only arrays of NumPy can be; None of others."""
    return lambda array: change(array) if isinstance(array, np.ndarray) else None


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array = array.copy()
    array.flags.writeable = False
    return array


def _widened(array: Any) -> Any:
    return array[:, [0, 1, 2, 0]][:, :3]


def _placed() -> list[Trap]:
    rng = np.random.default_rng(5)
    one, away = rng.random((1, 3)) * 6, rng.integers(-5, 6, (200, 3))
    unit = rng.random((300, 3))
    ends, eps = (0.0, 6.0), float(np.nextafter(np.float32(6), np.float32(0)))
    crowd = np.repeat(rng.random((3000, 3)) * 24, 2, axis=0)
    group = "Positions"
    made: dict[str, Make] = {
        "inside the box": lambda: _uniform(CUBE, 1.7),
        "negative": lambda: _uniform(CUBE, 1.7, moved=-1),
        "unwrapped": lambda: _uniform(CUBE, 1.7, moved=away),
        "unwrapped, tilted": lambda: _uniform(TILTED, 1.7, moved=away),
        "a million periods away": lambda: _uniform(CUBE, 1.7, moved=2**20, of="float64"),
        "on a face": lambda: _walled(1, ends),
        "on an edge": lambda: _walled(2, ends),
        "on a corner": lambda: _walled(3, ends),
        "next to a face": lambda: _walled(1, (eps, -1e-20, 1e-20, 6.0)),
        "on a face of an open box": lambda: _walled(1, ends, OPEN),
        "open and negative": lambda: _uniform(CUBE, 1.7, periodic=OPEN, moved=-0.5),
        "exactly the cutoff apart": _lattice(OPEN),
        "exactly the cutoff apart, periodic": _lattice(ALL),
        "two coincident": _points(np.repeat(one, 2, axis=0), periodic=OPEN),
        "1,000 coincident": _points(np.repeat(one, 1000, axis=0), periodic=OPEN),
        "6,000 coincident in twos": lambda: _spaced(crowd, 4 * CUBE, 1.7, OPEN),
        "all in one cell of many": lambda: _spaced(unit, 20 * CUBE, 1.7, OPEN),
    }
    return [Trap(name, group, make) for name, make in made.items()]


def _cells() -> list[Trap]:
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    sheet = CUBE * [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    return [
        _cell("three cutoffs long", CUBE, 2.0),
        _cell("under three cutoffs", CUBE, 2.3),
        _cell("under two cutoffs", CUBE, 3.3, particles=60),
        _cell("under one cutoff", CUBE, 7.0, particles=20),
        _cell("one axis under one cutoff", np.diag([1.0, 9.0, 9.0]), 1.7),
        _cell("one axis of one cell", np.diag([1.8, 9.0, 9.0]), 1.7),
        _cell("long and thin", np.diag([2000.0, 6.0, 6.0]), 1.7, particles=4000),
        _cell("triclinic", TILTED, 1.7),
        _cell("triclinic, under one cutoff", TILTED, 7.0, particles=12),
        _cell("strongly tilted", [[6, 0, 0], [13, 5, 0], [-20, 11, 5]], 1.7),
        _cell("left-handed", TILTED[[1, 0, 2]], 1.7),
        _cell("turned in space", TILTED @ turn, 1.7),
        _cell("slab", CUBE, 1.7, periodic=SLAB),
        _cell("slab, tilted", LEVEL, 1.7, periodic=SLAB),
        _cell("slab, thinner than the cutoff", CUBE / 3, 3.0, particles=60, periodic=SLAB),
        _cell("wire", CUBE / 2, 4.0, particles=60, periodic=WIRE),
        Trap(
            "slab, third vector of zeros", "Cells",
            lambda: replace(_uniform(CUBE, 1.7, periodic=SLAB), vectors=np.array([sheet])),
        ),
        Trap(
            "open, vectors of zeros", "Cells",
            lambda: replace(_uniform(CUBE, 1.7, periodic=OPEN), vectors=np.zeros((1, 3, 3))),
        ),
        Trap(
            "open, beyond its vectors", "Cells",
            lambda: _spaced(_uniform(CUBE, 1.7).positions, CUBE / 4, 1.7, OPEN),
        ),
        Trap(
            "vectors in a plane", "Cells",
            _points(np.ones((5, 3)), 1.7, [[6, 0, 0], [0, 6, 0], [6, 6, 0]]), refused=True,
        ),
    ]  # fmt: skip


def _extents() -> list[Trap]:
    group, rng = "Extent and precision", np.random.default_rng(6)
    cloud = rng.random((200, 3)) * 6
    two = np.concatenate((cloud, cloud[:100] + 1e5))
    return [
        Trap("far from the origin", group, _far(2.0**20, 1.0, "float32")),
        Trap("far from the origin, periodic", group, _far(2.0**20, 1.0, "float32", ALL)),
        Trap("merged by float32", group, _far(2.0**30, 1.0, "float64")),
        Trap("merged by float32, periodic", group, _far(2.0**30, 1.0, "float64", ALL)),
        Trap("an outlier", group, lambda: _spaced([*cloud, [1e6, 0, 0]], CUBE, 1.7, OPEN)),
        Trap("an outlier at 10^12", group, lambda: _spaced([*cloud, [1e12] * 3], CUBE, 1.7, OPEN)),
        Trap("two clusters", group, lambda: _spaced(two, CUBE, 1.7, OPEN)),
        Trap("lengths of 10^-10", group, _far(0.0, 2.0**-33, "float64", ALL)),
        Trap("lengths of 10^-24", group, _far(0.0, 2.0**-80, "float64", ALL)),
        Trap("lengths of 10^21", group, _far(0.0, 2.0**70, "float64", ALL)),
    ]


def _numbers() -> list[Trap]:
    group, many = "Numbers", 2**24 + 1
    # All within the cutoff of each other.
    dense = _points(np.random.default_rng(4).random((701, 3)) * 0.9, periodic=OPEN)
    uneven = np.random.default_rng(7).random((2500, 3)) * 60
    uneven[:500] /= 60
    return [
        Trap("no particle", group, _points([])),
        Trap("no particle, open", group, _points([], periodic=OPEN)),
        Trap("one particle", group, _points([1, 2, 3])),
        Trap("one particle, open", group, _points([1, 2, 3], periodic=OPEN)),
        Trap("one particle and its images", group, _points([1, 2, 3], 2.3, np.eye(3))),
        Trap("700 neighbours", group, dense, "default"),
        Trap(
            "many neighbours of few", group,
            lambda: _spaced(uneven, 10 * CUBE, 1.7, OPEN), "default",
        ),
        Trap(
            "2^24 + 1 particles", group, lambda: _of_many(many), limit=LONG, crowded=(0, many - 1)
        ),
        Trap(
            "more than 2^31 pairs, counted", group, _points(np.ones((50_000, 3)), periodic=OPEN),
            "count", limit=LONG,
        ),
    ]  # fmt: skip


def _values() -> list[Trap]:
    group, whole = "Values", partial(_uniform, CUBE, 1.7)
    open_ = partial(_uniform, CUBE, 1.7, periodic=OPEN)
    return [
        Trap("NaN", group, lambda: _with_one(whole(), (7, 1), np.nan)),
        Trap("NaN, open", group, lambda: _with_one(open_(), (7, 1), np.nan)),
        Trap("infinity", group, lambda: _with_one(whole(), (7, 1), np.inf)),
        Trap("infinity, open", group, lambda: _with_one(open_(), (7, 1), np.inf)),
        Trap("a cutoff of 0", group, lambda: replace(whole(), cutoff=0.0)),
        Trap("a cutoff of NaN", group, lambda: replace(whole(), cutoff=np.nan)),
        Trap("a negative cutoff", group, lambda: replace(whole(), cutoff=-1.0)),
    ]


def _arrays() -> list[Trap]:
    # Halves of whole numbers, which all types hold; other values for integers.
    at = np.random.default_rng(9).integers(0, 12, (120, 3)) / 2
    halves, wholes = (_points(x, 1.2, periodic=OPEN) for x in (at, np.floor(at)))
    group = "Arrays"
    given: dict[str, Callable[[Any], Any]] = {
        "float32": _cast("float32"),
        "float64": _cast("float64"),
        "float16": _cast("float16"),
        "big-endian": _of_numpy(lambda array: array.astype(array.dtype.newbyteorder(">"))),
        "every second row": lambda array: array[np.repeat(np.arange(len(array)), 2)][::2],
        "backwards": _of_numpy(lambda array: array[::-1].copy()[::-1]),
        "three columns of four": _widened,
        "column by column": lambda array: array[:, [0, 1, 2]].T[[0, 1, 2]].T,
        "read-only": _of_numpy(_read_only),
    }
    made = [Trap(name, group, halves, given=how) for name, how in given.items()]
    return [*made, Trap("integers", group, wholes, given=_cast("int64"))]


def _uses() -> list[Trap]:
    group, box, wide = "Use", 1.1 * CUBE, partial(_uniform, 2 * CUBE, 1.7, 400, periodic=OPEN)
    make = partial(_uniform, CUBE, 1.7, periodic=OPEN)
    return [
        Trap("the same input twice", group, make, "again"),
        Trap(
            "a changed box", group, partial(_uniform, CUBE, 1.7), "changed",
            then=partial(_uniform, box, 1.7, 300, seed=2),
        ),
        Trap("two threads", group, make, "threads", then=wide),
        Trap("another stream", group, make, "stream"),
        Trap("a graph", group, make, "graph"),
        Trap("gradients", group, make, "gradient"),
    ]  # fmt: skip


@cache
def traps() -> dict[str, Trap]:
    """Return all traps by name."""
    groups = _placed, _cells, _extents, _numbers, _values, _arrays, _uses
    return {trap.name: trap for group in groups for trap in group()}
