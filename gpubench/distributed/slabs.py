"""Divide a box into slabs of whole planes of cells, one per rank; move rows when cuts change.

A plane is all cells with one z, the slowest axis, so a slab's particles are contiguous rows. Bounds
are `ranks + 1` plane numbers: rank r has planes bounds[r] to bounds[r + 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError


def cut(counts: NDArray[np.integer], ranks: int, least: int = 1) -> NDArray[np.int64]:
    """Return the slab bounds that minimise the particles of the largest slab.

    Of the optimal cuts, returns the one in which each slab, from the first on, is nearest to an
    equal share of what is left. Then slabs of fewer than `least` planes take some from the next.

    counts: particles of each plane, of shape (planes,). ranks: number of slabs, at least 1.
    Raises UserError for fewer planes than ranks.
    """
    planes = len(counts)
    if planes < ranks * least:
        raise UserError(
            f"{ranks} ranks need at least {ranks * least} planes of cells along z, and the box has"
            f" {planes}: start fewer ranks, or make the box longer"
        )
    start = _starts(counts)
    limit = _smallest_limit(start, ranks)
    # The first plane from which the slabs of the remaining ranks can hold all within the limit.
    earliest = np.full(ranks + 1, planes, np.int64)
    for rank in reversed(range(ranks)):
        reach = np.searchsorted(start, start[earliest[rank + 1]] - limit)
        earliest[rank] = max(int(reach), rank)
    bounds = np.zeros(ranks + 1, np.int64)
    bounds[ranks] = planes
    for rank in range(1, ranks):
        before = bounds[rank - 1]
        low = max(earliest[rank], before + 1)
        full = np.searchsorted(start, start[before] + limit, side="right") - 1
        high = min(full, planes - (ranks - rank))
        share = (start[-1] - start[before]) / (ranks - rank + 1)
        bounds[rank] = low + np.abs(start[low : high + 1] - start[before] - share).argmin()
    for rank in range(1, ranks):
        bounds[rank] = max(bounds[rank], bounds[rank - 1] + least)
    for rank in reversed(range(1, ranks)):
        bounds[rank] = min(bounds[rank], bounds[rank + 1] - least)
    return bounds


def is_unbalanced(
    counts: NDArray[np.integer], bounds: NDArray[np.integer], tolerance: float
) -> bool:
    """Return whether a new cut would shrink the largest slab by more than a tolerance.

    counts: current particles of each plane. tolerance: 0.1 lets the largest slab have 10 % more
    particles than the largest slab of the best cut.
    """
    start = _starts(counts)
    largest = int(np.diff(start[bounds]).max())
    return largest > (1 + tolerance) * _smallest_limit(start, len(bounds) - 1)


def excess(counts: NDArray[np.integer], bounds: NDArray[np.integer]) -> int:
    """Return by how many particles the largest slab exceeds that of the best cut."""
    start = _starts(counts)
    return int(np.diff(start[bounds]).max()) - _smallest_limit(start, len(bounds) - 1)


@dataclass(frozen=True)
class Move:
    """A range of planes that passes from one rank to another, as rows of both.

    low, high: its first plane, and the end of its planes. rows: number of its particles. first: its
    first row at the sender, by the old bounds. to: its first row at the receiver, by the new ones.
    """

    sender: int
    receiver: int
    low: int
    high: int
    rows: int
    first: int
    to: int


def moves(
    old_bounds: NDArray[np.integer], new_bounds: NDArray[np.integer], counts: NDArray[np.integer]
) -> list[Move]:
    """Return the moves from slabs by the old bounds to those by the new, in order of planes.

    Each plane is in one move. Rows that a rank keeps are a move to itself, since their position
    may change. Moves without rows are left out.

    counts: particles of each plane; a rank's rows are in the order of its planes.
    """
    start = _starts(counts)
    edges = np.union1d(old_bounds, new_bounds)
    found = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        sender = int(np.searchsorted(old_bounds, low, side="right")) - 1
        receiver = int(np.searchsorted(new_bounds, low, side="right")) - 1
        rows = int(start[high] - start[low])
        first = int(start[low] - start[old_bounds[sender]])
        to = int(start[low] - start[new_bounds[receiver]])
        if rows:
            found.append(Move(sender, receiver, low, high, rows, first, to))
    return found


def _starts(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the number of particles before each plane, and the total; (planes + 1,)."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _smallest_limit(start: NDArray[np.int64], ranks: int) -> int:
    """Return the minimum size of the largest of `ranks` slabs, by bisection."""
    low = max(-(-int(start[-1]) // ranks), int(np.diff(start).max()))
    high = int(start[-1])
    while low < high:
        limit = (low + high) // 2
        if _slabs_needed(start, limit) <= ranks:
            high = limit
        else:
            low = limit + 1
    return low


def _slabs_needed(start: NDArray[np.int64], limit: int) -> int:
    """Return the number of slabs needed if each holds at most `limit`; no single plane has more."""
    slabs, plane = 0, 0
    while plane < len(start) - 1:
        plane = int(np.searchsorted(start, start[plane] + limit, side="right")) - 1
        slabs += 1
    return slabs
