"""Cut a box into slabs of whole planes of cells, one a rank, and move rows when cuts move.

A plane is all cells with one z, the slowest axis, so the particles of a slab are one stretch of
rows. Bounds are `ranks + 1` plane numbers: rank r has planes bounds[r] to bounds[r + 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError


def cut(counts: NDArray[np.integer], ranks: int) -> NDArray[np.int64]:
    """Return the bounds of slabs whose largest has as few particles as whole planes allow.

    Each slab has at least one plane. Of the cuts with the smallest largest slab, this is the one
    that comes nearest to equal shares from the first slab on, and always the same.

    counts: particles of each plane, of shape (planes,). ranks: how many slabs, at least 1.
    Raises UserError for fewer planes than ranks.
    """
    planes = len(counts)
    if planes < ranks:
        raise UserError(
            "a slab must be at least one kernel radius thick: the box has"
            f" {planes} plane(s) of cells along z for {ranks} ranks; start at most {planes} ranks,"
            " or make the scene longer"
        )
    start = _starts(counts)
    limit = _smallest_limit(start, ranks)
    # The first plane from which on the slabs of the last ranks keep the limit.
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
    return bounds


def is_unbalanced(
    counts: NDArray[np.integer], bounds: NDArray[np.integer], tolerance: float
) -> bool:
    """Tell whether a new cut would make the largest slab smaller by more than a tolerance.

    counts: particles of each plane now. tolerance: 0.1 lets the largest slab have 10 % more
    particles than that of the best cut.
    """
    start = _starts(counts)
    largest = int(np.diff(start[bounds]).max())
    return largest > (1 + tolerance) * _smallest_limit(start, len(bounds) - 1)


@dataclass(frozen=True)
class Move:
    """A stretch of planes that passes from one rank to another, as rows of both.

    low, high: its planes. rows: its particles. first: where they begin among the sender's rows,
    by the old bounds. to: where they begin among the receiver's, by the new ones.
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
    """Return what makes slabs by the new bounds out of those by the old, in order of planes.

    Each plane is in one move. What a rank keeps is one too, with itself as sender and receiver,
    since its rows may begin elsewhere afterwards. Moves without rows are left out.

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
    """Return how many particles lie before each plane, and before the end; (planes + 1,)."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _smallest_limit(start: NDArray[np.int64], ranks: int) -> int:
    """Return the fewest particles that the largest of `ranks` slabs can have, by bisection."""
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
    """Return how many slabs it takes where each is filled up to a limit no plane exceeds."""
    slabs, plane = 0, 0
    while plane < len(start) - 1:
        plane = int(np.searchsorted(start, start[plane] + limit, side="right")) - 1
        slabs += 1
    return slabs
