"""The answers of algorithms, as dataclasses of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

NULL = -1  # ends a linked list, marks an empty cell: the paper's "/" (rozen2008, Figure 1)


@dataclass(frozen=True)
class LinkedCells:
    """Linked lists of the particles in each cell (rozen2008, Listing 1).

    head: int32, shape (cells,), the first particle of each cell, or -1.
    next: int32, shape (particles,), the particle after this one in its cell, or -1.
    empty_byte: what fills the arrays of a list without particles.
    """

    empty_byte: ClassVar[int] = 0xFF

    head: Any
    next: Any


@dataclass(frozen=True)
class SortedCells:
    """Particles in order of their cells.

    start: int32, shape (cells + 1,); cell c holds order[start[c]:start[c + 1]].
    order: int32, shape (particles,), a permutation of the particles.
    positions: float32, shape (particles, 4), positions[order], whose fourth number means nothing,
        or None where the form does not reorder.
    empty_byte: as in LinkedCells.
    """

    empty_byte: ClassVar[int] = 0x00

    start: Any
    order: Any
    positions: Any = None


@dataclass(frozen=True)
class LimitedCells:
    """Cells of limited capacity; a cell loses the particles beyond it.

    count: int32, shape (cells,), how many particles lie in each cell, kept or not.
    slots: int32, shape (cells, capacity); the first min(count[c], capacity) of slots[c] are
        particles of cell c, the rest is undefined.
    lost: int32, shape (1,), how many particles are in no slot.
    allow_overflow: whether an answer that lost particles is right.
    empty_byte: as in LinkedCells.
    """

    empty_byte: ClassVar[int] = 0x00

    count: Any
    slots: Any
    lost: Any
    allow_overflow: bool = False


@dataclass(frozen=True)
class HashedCells:
    """Particles in order of the buckets of a hash table (silva2012, section 5, Figure 4).

    bounds: int32, shape (buckets, 2); bucket b holds order[bounds[b, 0]:bounds[b, 1]], and both
        bounds are -1 where it is empty. A bucket may hold particles of several cells.
    order: int32, shape (particles,), a permutation of the particles.
    positions: float32, shape (particles, 4), positions[order].
    corner: int32, shape (3,), the coordinates of the cell that is hashed as (0, 0, 0).
    empty_byte: as in LinkedCells.
    """

    empty_byte: ClassVar[int] = 0x00

    bounds: Any
    order: Any
    positions: Any
    corner: Any


@dataclass(frozen=True)
class Neighbours:
    """Neighbours strictly nearer than the cutoff, each pair from both sides, no self-pairs.

    counts: int32, shape (particles,), by particle id.
    offsets: int64, shape (particles + 1,), exclusive sum of the counts, or None.
    neighbours: int32, shape (offsets[-1],), particle ids, or None; unordered within a row.
    """

    counts: Any
    offsets: Any = None
    neighbours: Any = None


@dataclass(frozen=True)
class Noise:
    """Random numbers for pairs of particles, uniform from -1 to 1.

    values: float32, shape (steps, pairs), those of successive steps.
    """

    values: Any
