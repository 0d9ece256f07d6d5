"""Oracles of cell lists, updates and hash grids.

Each check returns None for a correct answer, else a description of the first error. Answers
are not trusted: shapes, types and ranges are checked before any value is used as an index. Time
and memory grow linearly with the number of particles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.threads import over
from gpubench.core.arrays import Ints, check_array, check_range, exclusive_sum, first_true
from gpubench.core.grid import UnboundedGrid, hash_buckets
from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.cells.contract import (
    NULL,
    HashedCells,
    LimitedCells,
    LinkedCells,
    SortedCells,
)
from gpubench.problems.particles.inputs import ParticleSet

FEW_LISTS = 64  # up to this number, lists are followed one by one, not all at once by NumPy


def check_cell_ids(expected: NDArray[np.int32], found: Ints) -> str | None:
    """Compare cell ids, int32, shape (particles,), with those computed by NumPy."""
    if problem := check_array("cell_of", found, expected.shape, np.int32):
        return problem
    if (i := first_true(found != expected)) is not None:
        return f"particle {i} is in cell {expected[i]}, found {found[i]}"
    return None


def check_linked(cell_of: NDArray[np.int32], cells: int, head: Ints, next: Ints) -> str | None:
    """Check linked lists: each particle is exactly once in its own cell's list; all lists end.

    cell_of: int32, shape (particles,), each in [0, cells); the right cell of each particle.
    head: int32, shape (cells,), and next: int32, shape (particles,), as in LinkedCells.
    """
    particles = len(cell_of)
    problem = (
        check_array("head", head, (cells,), np.int32)
        or check_array("next", next, (particles,), np.int32)
        or check_range("head", head, NULL, particles)
        or check_range("next", next, NULL, particles)
    )
    if problem:
        return problem
    filled, linked = np.flatnonzero(head != NULL), np.flatnonzero(next != NULL)
    first, after = head[filled], next[linked]

    if (k := first_true(cell_of[first] != filled)) is not None:
        return f"cell {filled[k]} starts with particle {first[k]} of cell {cell_of[first[k]]}"
    if (k := first_true(cell_of[after] != cell_of[linked])) is not None:
        i, j = linked[k], after[k]
        return (
            f"particle {j} of cell {cell_of[j]} is linked after particle {i} of cell {cell_of[i]}"
        )
    seen = np.bincount(first, minlength=particles) + np.bincount(after, minlength=particles)
    if (i := first_true(seen != 1)) is not None:
        return f"particle {i} of cell {cell_of[i]} is in the lists {seen[i]} times, expected once"

    # At this point each particle has one predecessor, in its own cell. The only remaining error is
    # a cycle that no head leads to.
    if (i := first_true(~_reached(first, next))) is not None:
        return f"particle {i} is not reached from the head of cell {cell_of[i]}: its list is a ring"
    return None


def _reached(at: Ints, next: Ints) -> NDArray[np.bool_]:
    """Return which particles are reached by following disjoint lists from the particles `at`."""
    reached = np.zeros(len(next), np.bool_)
    while len(at) > FEW_LISTS:  # all lists at once
        reached[at] = True
        at = next[at]
        at = at[at != NULL]
    if len(at):  # one list after another
        links, marks = next.data, reached.data
        for i in at.tolist():
            while i != NULL:
                marks[i] = True
                i = links[i]
    return reached


def check_sorted(
    cell_of: NDArray[np.int32],
    cells: int,
    start: Ints,
    order: Ints,
    positions: NDArray[np.float32] | None = None,
    reordered: NDArray[np.float32] | None = None,
) -> str | None:
    """Check particles in cell order: each is exactly once between its cell's bounds.

    cell_of: int32, shape (particles,), each in [0, cells); the right cell of each particle.
    start: int32, shape (cells + 1,), and order: int32, shape (particles,), as in SortedCells.
    positions, reordered: float32, shape (particles, 4); if both are given, reordered must equal
        positions[order] bit for bit.
    """
    particles = len(cell_of)
    problem = (
        check_array("start", start, (cells + 1,), np.int32)
        or check_array("order", order, (particles,), np.int32)
        or check_range("order", order, 0, particles)
    )
    if problem:
        return problem
    per_cell = np.bincount(cell_of, minlength=cells)
    expected = exclusive_sum(per_cell)
    if (c := first_true(start != expected)) is not None:
        where = f"for cell {c}" if c < cells else "at the end"
        return f"start[{c}] is {start[c]} {where}, expected {expected[c]}"
    problem = _check_order("cell", cell_of, per_cell, order)
    if problem or positions is None or reordered is None:
        return problem
    return _check_reordered(positions, order, reordered)


def check_hashed(
    bucket_of: NDArray[np.int32],
    buckets: int,
    bounds: Ints,
    order: Ints,
    positions: NDArray[np.float32],
    reordered: NDArray[np.float32],
) -> str | None:
    """Check particles in bucket order: each is exactly once between its bucket's bounds.

    bucket_of: int32, shape (particles,), each in [0, buckets); the right bucket of each particle.
    bounds: int32, shape (buckets, 2), order: int32, shape (particles,), and reordered, as in
        HashedCells; the bounds of empty buckets must be -1.
    positions: float32, shape (particles, 4), the hashed positions.
    """
    particles = len(bucket_of)
    problem = (
        check_array("bounds", bounds, (buckets, 2), np.int32)
        or check_array("order", order, (particles,), np.int32)
        or check_range("order", order, 0, particles)
    )
    if problem:
        return problem
    per_bucket = np.bincount(bucket_of, minlength=buckets)
    start = exclusive_sum(per_bucket)
    expected = np.stack((start[:-1], start[1:]), axis=1)
    expected[per_bucket == 0] = NULL
    if (b := first_true((bounds != expected).any(axis=1))) is not None:
        return f"bounds[{b}] is {bounds[b].tolist()}, expected {expected[b].tolist()}"
    return _check_order("bucket", bucket_of, per_bucket, order) or _check_reordered(
        positions, order, reordered
    )


def _check_order(
    kind: str, group_of: NDArray[np.int32], per_group: Ints, order: Ints
) -> str | None:
    """Check that `order` holds each particle once, within its own cell or bucket."""
    seen = np.bincount(order, minlength=len(group_of))
    if (i := first_true(seen != 1)) is not None:
        return (
            f"particle {i} of {kind} {group_of[i]} is in the order {seen[i]} times, expected once"
        )
    owner = np.repeat(np.arange(len(per_group), dtype=np.int32), per_group)
    k = _first_row(len(order), lambda rows: group_of[order[rows]] != owner[rows])
    if k is not None:
        return (
            f"order[{k}], in the range of {kind} {owner[k]}, is particle {order[k]}"
            f" of {kind} {group_of[order[k]]}"
        )
    return None


def _first_row(rows: int, wrong: Callable[[slice], NDArray[np.bool_]]) -> int | None:
    """Return the first wrong row, or None; threads check parts of the rows."""

    def first(begin: int, end: int) -> int | None:
        k = first_true(wrong(slice(begin, end)))
        return None if k is None else begin + k

    return next((k for k in over(rows, first) if k is not None), None)


def _check_reordered(
    positions: NDArray[np.float32], order: Ints, reordered: NDArray[np.float32]
) -> str | None:
    """Check that `reordered` is positions[order], bit for bit."""
    if problem := check_array("positions", reordered, positions.shape, positions.dtype):
        return problem
    # Compare bits, so that a NaN equals itself and -0.0 differs from 0.0. Rows are one
    # 16-byte item here, because NumPy handles that faster than four floats.
    given, found = (np.ascontiguousarray(a).view("c16")[:, 0] for a in (positions, reordered))

    def differs(rows: slice) -> NDArray[np.bool_]:
        halves = given[order[rows]].view(np.uint64) != found[rows].view(np.uint64)
        wrong: NDArray[np.bool_] = halves[::2] | halves[1::2]
        return wrong

    if (k := _first_row(len(order), differs)) is not None:
        return (
            f"positions[{k}] is {reordered[k].tolist()}, expected"
            f" {positions[order[k]].tolist()} of particle {order[k]}"
        )
    return None


def check_limited(
    cell_of: NDArray[np.int32],
    cells: int,
    count: Ints,
    slots: Ints,
    lost: Ints,
    allow_overflow: bool,
) -> str | None:
    """Check cells of limited capacity: each must hold as many of its particles as fit, once each.

    cell_of: int32, shape (particles,), each in [0, cells); the right cell of each particle.
    count, slots, lost, allow_overflow: as in LimitedCells.
    """
    particles, capacity = len(cell_of), slots.shape[-1]
    problem = (
        check_array("count", count, (cells,), np.int32)
        or check_array("slots", slots, (cells, capacity), np.int32)
        or check_array("lost", lost, (1,), np.int32)
    )
    if problem:
        return problem
    per_cell = np.bincount(cell_of, minlength=cells)
    if (c := first_true(count != per_cell)) is not None:
        return f"cell {c} counts {count[c]} particles, expected {per_cell[c]}"
    kept_per_cell = np.minimum(per_cell, capacity)
    kept = slots[np.arange(capacity) < kept_per_cell[:, None]]
    owner = np.repeat(np.arange(cells), kept_per_cell)
    if (k := first_true((kept < 0) | (kept >= particles))) is not None:
        return f"cell {owner[k]} holds {kept[k]}, expected particles 0 to {particles - 1}"
    if (k := first_true(cell_of[kept] != owner)) is not None:
        return f"cell {owner[k]} holds particle {kept[k]} of cell {cell_of[kept[k]]}"
    seen = np.bincount(kept, minlength=particles)
    if (i := first_true(seen > 1)) is not None:
        return f"particle {i} of cell {cell_of[i]} is kept {seen[i]} times, expected once"
    if lost[0] != particles - len(kept):
        return f"{lost[0]} particles are reported as lost, but {particles - len(kept)} are"
    if lost[0] and not allow_overflow:
        return (
            f"{lost[0]} of {particles} particles are lost: up to {per_cell.max()} lie in a cell"
            f" of capacity {capacity}"
        )
    return None


class CellListOracle(Oracle):
    """Check cell ids and cell lists: linked, sorted, or of limited capacity."""

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.cells = inputs.grid.count
        self.positions = inputs.positions.copy()
        self.cell_of = inputs.cell_of.copy()

    def check(self, algorithm: Any) -> str | None:
        """Check the cell list, and the reordered positions if the form makes them."""
        download, answer = algorithm.download, algorithm.answer
        if problem := check_cell_ids(self.cell_of, download(algorithm.cell_of)):
            return problem
        match answer:
            case LinkedCells(head, next):
                return check_linked(self.cell_of, self.cells, download(head), download(next))
            case SortedCells(start, order, positions):
                if algorithm.forms[algorithm.form].reorders and positions is None:
                    return f"form {algorithm.form} reorders, but gives no positions"
                reordered = None if positions is None else download(positions)
                return check_sorted(
                    self.cell_of,
                    self.cells,
                    download(start),
                    download(order),
                    self.positions,
                    reordered,
                )
            case LimitedCells(count, slots, lost, allow_overflow):
                return check_limited(
                    self.cell_of,
                    self.cells,
                    download(count),
                    download(slots),
                    download(lost),
                    allow_overflow,
                )
        raise TypeError(f"{algorithm.name} answers with {type(answer).__name__}, not a cell list")


class CellListUpdateOracle(Oracle):
    """Check the cell list in every state of an input, each updated from the previous list."""

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.states = [CellListOracle(state) for state in inputs.history]
        oldest, newest = self.states[0], self.states[-1]
        self.tells_idle = not np.array_equal(oldest.cell_of, newest.cell_of)

    def check(self, algorithm: Any) -> str | None:
        """Check the list after a launch, then update it through all states and back."""
        if problem := self.states[0].check(algorithm):
            return problem
        newest = len(self.states) - 1
        for state in [*range(1, newest + 1), 0]:
            algorithm.move_to(*algorithm.states[state])
            if problem := self.states[state].check(algorithm):
                return f"re-sorted to state {state} of {newest}: {problem}"
        return None


class HashGridOracle(Oracle):
    """Check the buckets of particles in an unbounded world.

    An algorithm has two attributes: `buckets`, the number of buckets, and `limits`, whether it
    hashes cell coordinates relative to the lowest coordinate along each axis.
    """

    def __init__(self, inputs: ParticleSet, exact: bool = False) -> None:
        self.positions = inputs.positions.copy()
        self.cells = UnboundedGrid(inputs.grid.cell_size).coordinates(self.positions)

    def check(self, algorithm: Any) -> str | None:
        """Check the corner (see `HashedCells`), the bounds, the order and the new positions."""
        download, answer = algorithm.download, self.answer_of(algorithm, HashedCells)
        corner = np.zeros(3, np.int32)
        if algorithm.limits and len(self.cells):
            corner = self.cells.min(axis=0)
        found = download(answer.corner)
        if len(self.cells) and not np.array_equal(found, corner):
            return f"the corner is {found.tolist()}, expected {corner.tolist()}"
        return check_hashed(
            hash_buckets(self.cells - corner, algorithm.buckets),
            algorithm.buckets,
            download(answer.bounds),
            download(answer.order),
            self.positions,
            download(answer.positions),
        )
