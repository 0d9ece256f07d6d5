"""The oracle: right answers pass, and every way to be wrong that we know of is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpubench import problems
from gpubench.base import threads
from gpubench.core.grid import Grid
from gpubench.problems.cells.contract import LinkedCells, SortedCells
from gpubench.problems.cells.oracle import check_cell_ids, check_hashed, check_linked, check_sorted
from gpubench.problems.neighbours import pairs as oracle_module
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.pairs import NeighbourOracle, SampledNeighbourOracle
from gpubench.problems.particles.inputs import from_positions, make
from gpubench.problems.stream_filter.inputs import make_records

CELLS = 6
# Cell 0 holds 0 2 5, cell 1 holds 3, cell 2 nothing, cell 3 holds 1 4 6 7, cells 4 and 5 nothing.
CELL_OF = np.array([0, 3, 0, 1, 3, 0, 3, 3], np.int32)


def sorted_cells(cell_of: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(cell_of, kind="stable").astype(np.int32)
    start = np.searchsorted(cell_of[order], np.arange(cells + 1)).astype(np.int32)
    return start, order


def linked_cells(cell_of: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    head, next = np.full(cells, -1, np.int32), np.full(len(cell_of), -1, np.int32)
    for particle, cell in enumerate(cell_of):
        next[particle], head[cell] = head[cell], particle
    return head, next


cell_lists = st.integers(1, 20).flatmap(
    lambda cells: st.tuples(
        st.just(cells),
        hnp.arrays(np.int32, st.integers(0, 60), elements=st.integers(0, cells - 1)),
    )
)


@given(cell_lists)
def test_right_cell_lists_pass(case: tuple[int, np.ndarray]) -> None:
    cells, cell_of = case
    assert check_cell_ids(cell_of, cell_of.copy()) is None
    assert check_linked(cell_of, cells, *linked_cells(cell_of, cells)) is None
    assert check_sorted(cell_of, cells, *sorted_cells(cell_of, cells)) is None


def test_any_order_within_a_cell_passes() -> None:
    start, order = sorted_cells(CELL_OF, CELLS)
    order[0:3] = order[[2, 0, 1]]
    assert check_sorted(CELL_OF, CELLS, start, order) is None
    head, next = np.full(CELLS, -1, np.int32), np.full(8, -1, np.int32)
    head[[0, 1, 3]] = 2, 3, 7
    next[[2, 0, 7, 1, 6]] = 0, 5, 1, 6, 4
    assert check_linked(CELL_OF, CELLS, head, next) is None


@settings(max_examples=300)
@given(cell_lists, st.data())
def test_any_other_value_anywhere_in_a_cell_list_is_caught(case, data: st.DataObject) -> None:
    """Change one value: no single change turns one right cell list into another."""
    cells, cell_of = case
    for answer, check in ((linked_cells, check_linked), (sorted_cells, check_sorted)):
        arrays = answer(cell_of, cells)
        changed = data.draw(st.sampled_from([a for a in arrays if len(a)]))
        index = data.draw(st.integers(0, len(changed) - 1))
        near = st.integers(-2, len(cell_of) + 1)
        value = data.draw((near | st.integers(-(2**31), 2**31 - 1)).filter(changed[index].__ne__))
        changed[index] = value
        assert check(cell_of, cells, *arrays) is not None


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (CELL_OF[:-1], r"shape \(7,\), expected \(8,\)"),
        (CELL_OF.astype(np.int64), "type int64, expected int32"),
        (
            np.where(np.arange(8) == 4, 2, CELL_OF).astype(np.int32),
            "particle 4 is in cell 3, found 2",
        ),
    ],
)
def test_wrong_cell_ids_are_caught(found: np.ndarray, message: str) -> None:
    assert_says(check_cell_ids(CELL_OF, found), message)


# The right lists: head = 5, 3, -, 7, -, -; next: 5 to 2 to 0, and 7 to 6 to 4 to 1.
LINKED_MISTAKES: dict[str, tuple[dict[int, int], dict[int, int], str]] = {
    "empty cell with a particle": ({2: 3}, {}, "cell 2 starts with particle 3 of cell 1"),
    "heads swapped": ({0: 7, 3: 5}, {}, "cell 0 starts with particle 7 of cell 3"),
    "lost head": ({1: -1}, {}, "particle 3 of cell 1 is in the lists 0 times"),
    "lost list": ({3: -1}, {}, "particle 7 of cell 3 is in the lists 0 times"),
    "lost first": ({0: 2}, {}, "particle 2 of cell 0 is in the lists 2 times"),
    "lost last": ({}, {4: -1}, "particle 1 of cell 3 is in the lists 0 times"),
    "skipped": ({}, {5: 0}, "particle 0 of cell 0 is in the lists 2 times"),
    "lists joined": ({}, {0: 3}, "particle 3 of cell 1 is linked after particle 0 of cell 0"),
    "tails swapped": (
        {},
        {2: 1, 4: 0},
        "particle 1 of cell 3 is linked after particle 2 of cell 0",
    ),
    "cycle through all": ({}, {0: 5}, "particle 5 of cell 0 is in the lists 2 times"),
    "cycle at the end": ({}, {1: 4}, "particle 4 of cell 3 is in the lists 2 times"),
    "own successor": ({}, {3: 3}, "particle 3 of cell 1 is in the lists 2 times"),
    "ring beside the list": ({}, {7: 1, 4: 6}, "particle 4 .*not reached.* cell 3: .*a ring"),
    "ring of one": ({}, {7: 4, 6: 6}, "particle 6 is not reached from the head of cell 3"),
    "ring without a head": ({0: -1}, {0: 5}, "particle 0 is not reached from the head of cell 0"),
    "head past the end": ({4: 8}, {}, r"head\[4\] is 8, expected -1 to 7"),
    "head garbage": ({4: -(2**31)}, {}, r"head\[4\] is -2147483648"),
    "next past the end": ({}, {3: 2**31 - 1}, r"next\[3\] is 2147483647, expected -1 to 7"),
    "next below -1": ({}, {3: -2}, r"next\[3\] is -2"),
}


@pytest.mark.parametrize("mistake", LINKED_MISTAKES)
def test_wrong_linked_cells_are_caught(mistake: str) -> None:
    heads, nexts, message = LINKED_MISTAKES[mistake]
    head, next = linked_cells(CELL_OF, CELLS)
    for array, changes in ((head, heads), (next, nexts)):
        for index, value in changes.items():
            array[index] = value
    assert_says(check_linked(CELL_OF, CELLS, head, next), message)


def test_linked_cells_of_the_wrong_shape_or_type_are_caught() -> None:
    head, next = linked_cells(CELL_OF, CELLS)
    assert_says(check_linked(CELL_OF, CELLS, head[:-1], next), r"head has shape \(5,\)")
    assert_says(check_linked(CELL_OF, CELLS, head, np.append(next, next)), "next has shape")
    assert_says(check_linked(CELL_OF, CELLS, head.view(np.uint32), next), "head has type uint32")
    assert_says(check_linked(CELL_OF, CELLS, head, next.astype(np.float32)), "next has type")


# The right arrays: start = 0 3 4 4 8 8 8, order = 0 2 5 | 3 | | 1 4 6 7 | |.
SORTED_MISTAKES: dict[str, tuple[list[int] | None, list[int] | None, str]] = {
    "first start": ([1, 3, 4, 4, 8, 8, 8], None, r"start\[0\] is 1 for cell 0, expected 0"),
    "last start": ([0, 3, 4, 4, 8, 8, 7], None, r"start\[6\] is 7 at the end, expected 8"),
    "off by one": ([0, 3, 4, 5, 8, 8, 8], None, r"start\[3\] is 5 for cell 3, expected 4"),
    "inclusive sum": ([3, 4, 4, 8, 8, 8, 8], None, r"start\[0\] is 3"),
    "empty cells at 0": ([0, 3, 0, 4, 8, 8, 8], None, r"start\[2\] is 0 for cell 2, expected 4"),
    "stale tail of start": ([0, 3, 4, 4, 8, 0, 0], None, r"start\[5\] is 0"),
    "lost and doubled": (None, [0, 2, 2, 3, 1, 4, 6, 7], "particle 2 .* in the order 2 times"),
    "one lost": (None, [0, 2, 5, 3, 1, 4, 6, 6], "particle 6 of cell 3 is in the order 2 times"),
    "swapped between cells": (
        None,
        [0, 2, 3, 5, 1, 4, 6, 7],
        r"order\[2\], in the range of cell 0, is particle 3 of cell 1",
    ),
    "not sorted": (None, [0, 1, 2, 3, 4, 5, 6, 7], r"order\[1\].* is particle 1 of cell 3"),
    "-1 inside": (None, [0, 2, 5, -1, 1, 4, 6, 7], r"order\[3\] is -1, expected 0 to 7"),
    "stale tail of order": (None, [0, 2, 5, 3, 1, 4, 6, 2**30], r"order\[7\] is 1073741824"),
    "past the end": (None, [0, 2, 5, 3, 1, 4, 6, 8], r"order\[7\] is 8, expected 0 to 7"),
}


@pytest.mark.parametrize("mistake", SORTED_MISTAKES)
def test_wrong_sorted_cells_are_caught(mistake: str) -> None:
    wrong_start, wrong_order, message = SORTED_MISTAKES[mistake]
    start, order = sorted_cells(CELL_OF, CELLS)
    start = start if wrong_start is None else np.array(wrong_start, np.int32)
    order = order if wrong_order is None else np.array(wrong_order, np.int32)
    assert_says(check_sorted(CELL_OF, CELLS, start, order), message)


def test_sorted_cells_of_the_wrong_shape_or_type_are_caught() -> None:
    start, order = sorted_cells(CELL_OF, CELLS)
    assert_says(check_sorted(CELL_OF, CELLS, start[:-1], order), r"start has shape \(6,\)")
    assert_says(check_sorted(CELL_OF, CELLS, start, order[:-1]), r"order has shape \(7,\)")
    assert_says(check_sorted(CELL_OF, CELLS, start, order.astype(np.int64)), "order has type")


def test_reordered_positions_are_compared_bit_for_bit() -> None:
    start, order = sorted_cells(CELL_OF, CELLS)
    positions = np.random.default_rng(0).random((8, 4), np.float32)
    positions[3, 3], positions[4, 3] = np.nan, 0.0
    right = positions[order]

    def says(reordered: np.ndarray) -> str | None:
        return check_sorted(CELL_OF, CELLS, start, order, positions, reordered)

    assert says(right) is None
    assert says(np.asfortranarray(right)) is None
    assert_says(says(positions), r"positions\[1\] is .*, expected .* of particle 2")
    assert_says(says(right[[0, 1, 2, 3, 4, 5, 7, 6]]), r"positions\[6\]")
    for row, column, value in ((0, 0, np.nextafter(right[0, 0], np.float32(9))), (5, 3, -0.0)):
        wrong = right.copy()
        wrong[row, column] = value
        assert_says(says(wrong), rf"positions\[{row}\]")
    assert_says(says(right[:, :3]), r"positions has shape \(8, 3\)")
    assert_says(says(right.astype(np.float64)), "positions has type float64")


@pytest.mark.parametrize("cell", [0, 123, 199])
def test_a_ring_beside_many_lists_is_caught(cell: int) -> None:
    cell_of = np.repeat(np.arange(200, dtype=np.int32), 3)
    head, next = linked_cells(cell_of, 200)
    assert check_linked(cell_of, 200, head, next) is None
    first, second, third = 3 * cell + 2, 3 * cell + 1, 3 * cell
    next[first], next[third] = -1, second
    assert_says(check_linked(cell_of, 200, head, next), f"particle {third} is not reached")


def test_many_particles_in_one_list_are_walked_to_the_end() -> None:
    particles = 2**20
    cell_of = np.zeros(particles, np.int32)
    head = np.zeros(1, np.int32)
    next = np.append(np.arange(1, particles), -1).astype(np.int32)
    assert check_linked(cell_of, 1, head, next) is None
    next[particles // 2 - 1], next[-1] = -1, particles // 2
    assert_says(check_linked(cell_of, 1, head, next), f"particle {particles // 2} is not reached")


BOX = Grid((5, 4, 3), (-2.0, 0.0, 10.0), (5.0, 4.0, 3.0))
TORUS = Grid(BOX.cells, BOX.low, BOX.size, (True, True, True))


def brute_force(positions: np.ndarray, grid: Grid, cutoff: float) -> np.ndarray:
    """Return which pairs are neighbours, bool, shape (particles, particles), in float64."""
    apart = positions[:, None, :3].astype(float) - positions[None, :, :3]
    apart -= np.where(grid.periodic, grid.size * np.rint(apart / grid.size), 0)
    near = (apart**2).sum(axis=2) < cutoff**2
    np.fill_diagonal(near, False)
    return near


def rows(near: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts, offsets and neighbours of a matrix of pairs."""
    counts = near.sum(axis=1, dtype=np.int32)
    offsets = np.append(0, np.cumsum(counts, dtype=np.int64))
    return counts, offsets, np.nonzero(near)[1].astype(np.int32)


@given(
    st.integers(0, 80),
    st.sampled_from([BOX, TORUS]),
    st.sampled_from(["uniform", "clusters"]),
    st.integers(0, 10**6),
)
def test_right_neighbours_pass(particles, grid, distribution, seed) -> None:
    positions = make(particles, grid, distribution, seed=seed).positions
    counts, offsets, neighbours = rows(brute_force(positions, grid, 1.0))
    oracle = NeighbourOracle(positions, grid, 1.0)
    assert oracle.check_counts(counts) is None
    assert oracle.check_list(counts, offsets, neighbours) is None
    assert oracle.check_list(counts, offsets, reverse_rows(offsets, neighbours)) is None


def reverse_rows(offsets: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    pieces = [piece[::-1] for piece in np.split(neighbours, offsets[1:-1])]
    return np.concatenate(pieces) if pieces else neighbours


@settings(max_examples=50)
@given(st.integers(2, 60), st.sampled_from([BOX, TORUS]), st.integers(0, 10**6), st.data())
def test_any_pair_too_few_or_too_many_is_caught(particles, grid, seed, data) -> None:
    positions = make(particles, grid, seed=seed).positions
    near = brute_force(positions, grid, 1.0)
    oracle = NeighbourOracle(positions, grid, 1.0)
    i = data.draw(st.integers(0, particles - 1))
    j = data.draw(st.integers(0, particles - 1).filter(i.__ne__))
    near[i, j] ^= True
    counts, offsets, neighbours = rows(near)
    assert oracle.check_counts(counts) is not None
    assert oracle.check_list(counts, offsets, neighbours) is not None
    near[j, i] ^= True
    counts, offsets, neighbours = rows(near)
    assert oracle.check_counts(counts) is not None
    assert oracle.check_list(counts, offsets, neighbours) is not None


# Along x, one cutoff apart but for the last two: 0 and 1 at one point, 2 at the cutoff, 3 nearer.
LINE = np.zeros((5, 4), np.float32)
LINE[:, :3] = [[-1, 2, 11], [-1, 2, 11], [0, 2, 11], [0.5, 2, 11], [2.75, 2, 11]]


def line_neighbours(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    near = np.zeros((5, 5), bool)
    for i, j in pairs:
        near[i, j] = True
    return rows(near)


BOTH_SIDES = [(0, 1), (1, 0), (2, 3), (3, 2)]


def test_the_cutoff_is_strict_and_coincident_particles_are_neighbours() -> None:
    oracle = NeighbourOracle(LINE, BOX, 1.0, exact=True)
    assert oracle.check_list(*line_neighbours(*BOTH_SIDES)) is None
    at_the_cutoff = line_neighbours(*BOTH_SIDES, (0, 2), (2, 0))
    assert_says(oracle.check_list(*at_the_cutoff), "particle 0: neighbour 2 at distance 1 .*not be")
    assert_says(oracle.check_counts(at_the_cutoff[0]), "particle 0 has 2 neighbours, expected 1")


def test_periodic_images_are_met_across_the_wall() -> None:
    oracle = NeighbourOracle(LINE, TORUS, 1.5, exact=True)  # 4 to 0 and 1 is 1.25 across
    pairs = [*BOTH_SIDES, (0, 2), (2, 0), (1, 2), (2, 1), (0, 4), (4, 0), (1, 4), (4, 1)]
    assert oracle.check_list(*line_neighbours(*pairs)) is None


def test_within_rounding_of_the_cutoff_both_answers_pass_but_not_one_sided() -> None:
    oracle = NeighbourOracle(LINE, BOX, 1.0)
    without = line_neighbours(*BOTH_SIDES)
    with_pair = line_neighbours(*BOTH_SIDES, (0, 2), (2, 0))
    one_sided = line_neighbours(*BOTH_SIDES, (2, 0))
    for counts, offsets, neighbours in (without, with_pair):
        assert oracle.check_counts(counts) is None
        assert oracle.check_list(counts, offsets, neighbours) is None
    assert_says(
        oracle.check_list(*one_sided), "particle 2 has neighbour 0, but particle 0 does not"
    )
    assert_says(oracle.check_counts(one_sided[0]), "add up to 5, expected an even number")


def test_the_tolerance_is_rounding_and_no_more() -> None:
    oracle = NeighbourOracle(LINE, BOX, 1.0)
    assert 0 < oracle.tolerance < 2e-5
    assert NeighbourOracle(LINE, BOX, 1.0, exact=True).tolerance == 0
    nearer, farther = LINE.copy(), LINE.copy()
    nearer[2, 0], farther[2, 0] = -3e-5, 3e-5
    with_pairs = line_neighbours(*BOTH_SIDES, (0, 2), (2, 0), (1, 2), (2, 1))
    assert NeighbourOracle(nearer, BOX, 1.0).check_list(*with_pairs) is None
    assert_says(
        NeighbourOracle(nearer, BOX, 1.0).check_list(*line_neighbours(*BOTH_SIDES)),
        "particle 0: neighbour 2 at distance 0.99997.* is missing",
    )
    assert_says(
        NeighbourOracle(farther, BOX, 1.0).check_list(*with_pairs), "distance 1.0000.*should not"
    )


Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def changed(which: int, index: int, value: int) -> Callable[[Rows], Rows]:
    def change(arrays: Rows) -> Rows:
        copies = tuple(array.copy() for array in arrays)
        copies[which][index] = value
        return copies

    return change


# The right rows: counts = 1 1 1 1 0, offsets = 0 1 2 3 4 4, neighbours = 1 0 3 2.
ROW_MISTAKES: dict[str, tuple[Callable[[Rows], Rows], str]] = {
    "missing pair": (lambda _: line_neighbours((0, 1), (1, 0)), "2: neighbour 3 .* is missing"),
    "missing side": (lambda _: line_neighbours(*BOTH_SIDES[:3]), "3: neighbour 2 .* is missing"),
    "extra pair": (
        lambda _: line_neighbours(*BOTH_SIDES, (3, 4), (4, 3)),
        "3: neighbour 4 at distance 2.25 .* should not be listed",
    ),
    "own neighbour": (changed(2, 3, 3), "particle 3 is listed as its own neighbour"),
    "other neighbour": (changed(2, 0, 4), "0: neighbour 1 .* is missing"),
    "-1 in a row": (changed(2, 2, -1), r"neighbours\[2\] is -1, expected 0 to 4"),
    "garbage in a row": (changed(2, 2, 5), r"neighbours\[2\] is 5, expected 0 to 4"),
    "wrong count": (changed(0, 1, 2), r"offsets\[2\] is 2, expected 3"),
    "negative count": (changed(0, 1, -1), r"counts\[1\] is -1"),
    "huge count": (changed(0, 1, 2**31 - 1), r"counts\[1\] is 2147483647"),
    "wrong first offset": (changed(1, 0, 1), r"offsets\[0\] is 1, expected 0"),
    "wrong last offset": (changed(1, 5, 5), r"offsets\[5\] is 5, expected 4"),
    "offsets too narrow": (lambda r: (r[0], r[1].astype(np.int32), r[2]), "type int32, expected"),
    "offsets too short": (lambda r: (r[0], r[1][:-1], r[2]), r"offsets has shape \(5,\)"),
    "counts too short": (lambda r: (r[0][:-1], r[1], r[2]), r"counts has shape \(4,\)"),
    "truncated": (
        lambda r: (r[0], r[1], r[2][:-1]),
        r"neighbours has shape \(3,\), expected \(4,\)",
    ),
    "too long": (lambda r: (r[0], r[1], np.append(r[2], r[2])), r"shape \(8,\), expected \(4,\)"),
    "rows cut short": (
        lambda r: (
            np.array([1, 1, 0, 0, 0], np.int32),
            np.array([0, 1, 2, 2, 2, 2]),
            r[2][:2],
        ),
        "2: neighbour 3 .* is missing",
    ),
}


@pytest.mark.parametrize("mistake", ROW_MISTAKES)
def test_wrong_rows_are_caught(mistake: str) -> None:
    change, message = ROW_MISTAKES[mistake]
    oracle = NeighbourOracle(LINE, BOX, 1.0, exact=True)
    assert_says(oracle.check_list(*change(line_neighbours(*BOTH_SIDES))), message)


def test_a_neighbour_listed_twice_is_caught() -> None:
    positions = np.tile(np.float32([1, 1, 11, 0]), (3, 1))
    counts, offsets, neighbours = rows(~np.eye(3, dtype=bool))
    neighbours[:2] = 1, 1
    oracle = NeighbourOracle(positions, BOX, 1.0)
    assert_says(oracle.check_list(counts, offsets, neighbours), "particle 0 has neighbour 1 twice")


# Four particles in buckets 2, 0, 2, 2 of four.
BUCKET_OF = np.array([2, 0, 2, 2], np.int32)
BOUNDS = np.array([[0, 1], [-1, -1], [1, 4], [-1, -1]], np.int32)
ORDER = np.array([1, 3, 0, 2], np.int32)
HASHED = np.arange(16, dtype=np.float32).reshape(4, 4)


def hashed_problem(**given: np.ndarray) -> str | None:
    arrays = {"bounds": BOUNDS, "order": ORDER, "reordered": HASHED[ORDER], **given}
    return check_hashed(BUCKET_OF, 4, positions=HASHED, **arrays)


def test_right_buckets_pass_in_any_order_within_them() -> None:
    assert hashed_problem() is None
    order = np.array([1, 0, 2, 3], np.int32)
    assert hashed_problem(order=order, reordered=HASHED[order]) is None


@pytest.mark.parametrize(
    ("which", "place", "value", "message"),
    [
        ("bounds", (1, slice(None)), 1, r"bounds\[1\] is \[1, 1\], expected \[-1, -1\]"),
        ("bounds", (2, 1), 3, r"bounds\[2\] is \[1, 3\], expected \[1, 4\]"),
        ("bounds", (0, 0), 7, r"bounds\[0\] is \[7, 1\], expected \[0, 1\]"),
        ("order", 1, 0, "particle 0 of bucket 2 is in the order 2 times, expected once"),
        ("order", slice(0, 2), [3, 1], r"order\[0\], in the range of bucket 0, is particle 3"),
        ("order", 3, 4, r"order\[3\] is 4, expected 0 to 3"),
        ("reordered", (2, 3), 9, r"positions\[2\] is .* of particle 0"),
    ],
)
def test_wrong_buckets_are_caught(which: str, place: Any, value: Any, message: str) -> None:
    array = {"bounds": BOUNDS, "order": ORDER, "reordered": HASHED[ORDER]}[which].copy()
    array[place] = value
    assert_says(hashed_problem(**{which: array}), message)


def test_buckets_of_the_wrong_shape_are_caught() -> None:
    assert_says(hashed_problem(bounds=BOUNDS[:3]), r"bounds has shape \(3, 2\)")
    assert_says(hashed_problem(order=ORDER[:3]), r"order has shape \(3,\)")
    assert_says(hashed_problem(reordered=HASHED[:3]), r"positions has shape \(3, 4\)")


def test_without_a_box_only_the_cutoff_sets_the_tolerance() -> None:
    """Far away, where a box would forgive anything, a pair is still told from none."""
    positions = np.zeros((3, 4), np.float32)
    positions[:, 0] = 1e6, 1e6 + 0.75, 1e6 + 1.5
    oracle = NeighbourOracle(positions, None, 1.0)
    assert oracle.tolerance < 1e-5
    assert oracle.check_counts(np.array([1, 2, 1], np.int32)) is None
    assert_says(oracle.check_counts(np.array([1, 1, 0], np.int32)), "particle 1 has 1 neighbours")


def algorithm(answer: object, reorders: bool = False, **attributes: object) -> SimpleNamespace:
    """Return what a family looks at: how to download, an answer, a form."""
    return SimpleNamespace(
        name="fake",
        download=np.array,
        answer=answer,
        form="only",
        forms={"only": SimpleNamespace(reorders=reorders)},
        **attributes,
    )


def test_the_cell_list_family_checks_cell_ids_lists_and_positions() -> None:
    inputs = make(200, BOX)
    cell_of, cells = inputs.cell_of, BOX.count
    start, order = sorted_cells(cell_of, cells)
    oracle = problems.problems()["cell-list"].oracle(inputs, False)

    linked = LinkedCells(*linked_cells(cell_of, cells))
    ordered = SortedCells(start, order, inputs.positions[order])
    unsorted = SortedCells(start, np.arange(200, dtype=np.int32))
    assert oracle.check(algorithm(linked, cell_of=cell_of)) is None
    assert oracle.check(algorithm(ordered, reorders=True, cell_of=cell_of)) is None
    assert_says(oracle.check(algorithm(linked, cell_of=cell_of[::-1])), "is in cell")
    assert_says(oracle.check(algorithm(unsorted, cell_of=cell_of)), "in the range of cell")
    without = SortedCells(start, order)
    assert oracle.check(algorithm(without, cell_of=cell_of)) is None
    assert_says(oracle.check(algorithm(without, reorders=True, cell_of=cell_of)), "no positions")
    misplaced = SortedCells(start, order, inputs.positions)
    assert_says(oracle.check(algorithm(misplaced, cell_of=cell_of)), r"positions\[")
    with pytest.raises(TypeError, match="not a cell list"):
        oracle.check(algorithm(Neighbours(order), cell_of=cell_of))


def test_an_algorithm_cannot_change_its_reference() -> None:
    for name in ("cell-list", "neighbour-query"):
        inputs = from_positions(make(50, BOX).positions, BOX)
        oracle = problems.problems()[name].oracle(inputs, False)
        expected = inputs.positions.copy()
        inputs.positions[:] = 0
        assert np.array_equal(oracle.positions, expected)

    records = make_records(50, 1, 4, "predicate")
    kept = problems.problems()["stream-filter"].oracle(records, False)
    expected = records.records.view(np.uint32).copy()
    records.records[:] = 0
    assert np.array_equal(kept.kept.view(np.uint32), expected)


def test_the_neighbour_family_checks_counts_or_lists_and_finds_pairs_once(monkeypatch) -> None:
    inputs = from_positions(LINE, BOX)
    counts, offsets, neighbours = line_neighbours(*BOTH_SIDES)
    family = problems.problems()["neighbour-query"]
    oracle = family.oracle(inputs, True)
    right = algorithm(Neighbours(counts, offsets, neighbours), cutoff=1.0)
    assert oracle.check(right) is None
    assert family.check(right, inputs, exact=True) is None

    monkeypatch.setattr("gpubench.problems.neighbours.pairs.cKDTree", None)
    assert oracle.check(algorithm(Neighbours(counts), cutoff=1.0)) is None
    assert_says(oracle.check(algorithm(Neighbours(counts + 1), cutoff=1.0)), "expected 1")
    cut = algorithm(Neighbours(counts, offsets, neighbours[:-1]), cutoff=1.0)
    assert_says(oracle.check(cut), "neighbours has shape")
    with pytest.raises(TypeError, match="not Neighbours"):
        oracle.check(algorithm(LinkedCells(counts, counts), cutoff=1.0))


def assert_says(sentence: str | None, pattern: str) -> None:
    assert sentence is not None, "the mistake was not caught"
    assert "\n" not in sentence
    assert re.search(pattern, sentence), sentence


# Neighbours of inputs so large that they are checked in samples.

SAMPLED_GRIDS = {"open": BOX, "periodic": TORUS}


def sampled(positions: np.ndarray, grid: Grid, cutoff: float = 1.0) -> SampledNeighbourOracle:
    return SampledNeighbourOracle(positions, grid, cutoff)


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small input be checked in samples, few particles be a sample, and threads share it."""
    monkeypatch.setattr(oracle_module, "FULL_PARTICLES", 100)
    monkeypatch.setattr(oracle_module, "SAMPLES", 40)
    monkeypatch.setattr(threads, "ROWS", 150)


@pytest.mark.parametrize(
    ("particles", "candidates", "expected"),
    [(300, 2**21, NeighbourOracle), (299, 2**21, NeighbourOracle), (300, 10, None), (301, 9, None)],
)
def test_many_particles_or_candidates_are_checked_in_samples(
    monkeypatch: pytest.MonkeyPatch, particles: int, candidates: int, expected: type | None
) -> None:
    monkeypatch.setattr(oracle_module, "FULL_PARTICLES", 300)
    monkeypatch.setattr(oracle_module, "FULL_CANDIDATES", candidates)
    positions = make(particles, BOX).positions
    chosen = oracle_module.neighbour_oracle(positions, BOX, 1.0)
    assert isinstance(chosen, expected or SampledNeighbourOracle)
    monkeypatch.setattr(oracle_module, "FULL_PARTICLES", particles - 1)
    assert isinstance(oracle_module.neighbour_oracle(positions, BOX, 1.0), SampledNeighbourOracle)


def test_particles_of_other_images_are_near(few_samples: None) -> None:
    """Coordinates along a periodic axis may lie any number of boxes away."""
    positions = make(500, TORUS, seed=3).positions
    away = positions.copy()
    away[::2, :3] += np.float32(3) * np.float32(TORUS.size)
    away[1::3, :3] -= np.float32(TORUS.size)
    for place in positions[:10, :3]:
        near, _ = sampled(positions, TORUS)._near(place, 0.5)
        assert set(near) <= set(sampled(away, TORUS)._near(place, 0.5)[0])


@pytest.mark.parametrize("distribution", ["uniform", "clusters", "one-cell", "lattice"])
@pytest.mark.parametrize("grid", SAMPLED_GRIDS)
class TestSampled:
    """Mistakes in one place: in a sample, and where none is."""

    @pytest.fixture
    def drawn(
        self, few_samples: None, grid: str, distribution: str
    ) -> tuple[SampledNeighbourOracle, np.ndarray, set[int]]:
        box = SAMPLED_GRIDS[grid]
        positions = make(500, box, distribution, seed=3).positions
        oracle = sampled(positions, box)
        assert len(oracle._samples) == oracle_module.REGIONS
        inside = {int(i) for sample in oracle._samples for i in sample.queries}
        return oracle, brute_force(positions, box, 1.0), inside

    def test_who_is_near_a_place(self, drawn, grid: str) -> None:
        """Also where that is across an edge."""
        oracle, _, _ = drawn
        box, positions = SAMPLED_GRIDS[grid], oracle._positions
        corners = [np.float32(box.low), np.float32(box.low) + np.float32(box.size)]
        for place in [*corners, *positions[:20, :3]]:
            for half in (0.0, 0.3, 100.0):
                apart = np.abs(positions[:, :3] - place)
                wrapped = np.minimum(apart, np.float32(box.size) - apart)
                apart = np.where(box.periodic, wrapped, apart).max(axis=1)
                near, inside = oracle._near(place, half)
                reach = half + 1.001 * (oracle.cutoff + oracle.tolerance)
                assert near.tolist() == np.flatnonzero(apart < reach).tolist()
                assert near[inside].tolist() == np.flatnonzero(apart < half).tolist()

    def test_right_answers_pass(self, drawn) -> None:
        oracle, near, _ = drawn
        counts, offsets, neighbours = rows(near)
        assert oracle.check_counts(counts) is None
        assert oracle.check_list(counts, offsets, neighbours) is None
        assert oracle.check_list(counts, offsets, reverse_rows(offsets, neighbours)) is None

    def test_a_missing_pair_of_a_sample(self, drawn) -> None:
        oracle, near, inside = drawn
        for i in sorted(inside):
            for j in np.flatnonzero(near[i])[:1]:
                wrong = near.copy()
                wrong[i, j] = wrong[j, i] = False
                counts, offsets, neighbours = rows(wrong)
                assert_says(oracle.check_counts(counts), "has .* neighbours, expected")
                assert_says(oracle.check_list(counts, offsets, neighbours), "has .* expected")
                return
        assert not near[sorted(inside)].any()

    def test_one_neighbour_for_another_of_a_sample(self, drawn) -> None:
        """The counts are right, the lists are not: they have a stranger, or a neighbour twice."""
        oracle, near, inside = drawn
        counts, offsets, neighbours = rows(near)
        for i in [i for i in sorted(inside) if 0 < counts[i] < 499][:1]:
            wrong = neighbours.copy()
            wrong[offsets[i]] = np.flatnonzero(~near[i] & (np.arange(500) != i))[0]
            said = oracle.check_list(counts, offsets, wrong)
            assert_says(said, "is missing|should not be listed")
        for i in [i for i in sorted(inside) if counts[i] > 1][:1]:
            wrong = neighbours.copy()
            wrong[offsets[i]] = wrong[offsets[i] + 1]
            said = oracle.check_list(counts, offsets, wrong)
            assert_says(said, f"particle {i} has neighbour .* twice")

    def test_a_one_sided_pair_anywhere(self, drawn) -> None:
        oracle, near, inside = drawn
        outside = sorted(set(range(500)) - inside)
        i = next((i for i in outside if 0 < near[i].sum() < 499), None)
        if i is None:
            return
        # Another neighbour in its place: the counts stay as they were.
        counts, offsets, neighbours = rows(near)
        wrong = neighbours.copy()
        wrong[offsets[i]] = np.flatnonzero(~near[i] & (np.arange(500) != i))[0]
        assert_says(oracle.check_list(counts, offsets, wrong), "neighbour that does not have it")
        # Or no particle in its place: their sum is odd.
        near[i, np.flatnonzero(near[i])[0]] = False
        counts, offsets, neighbours = rows(near)
        assert_says(oracle.check_counts(counts), "expected an even number")
        assert_says(oracle.check_list(counts, offsets, neighbours), "expected an even number")

    def test_where_no_sample_is_a_recount_tells_which_of_two_answers_is_wrong(self, drawn) -> None:
        oracle, near, inside = drawn
        outside = [i for i in range(500) if i not in inside and near[i].any()]
        pairs = [(i, j) for i in outside for j in np.flatnonzero(near[i]) if j in set(outside)]
        if not pairs:
            return
        right = rows(near)
        i, j = pairs[-1]
        near[i, j] = near[j, i] = False
        wrong = rows(near)
        # Undecided: there are no samples there.
        assert oracle.check_counts(wrong[0]) is None
        assert oracle.check_list(*right) is None
        says = f"particle ({i}|{j}) has .* neighbours, expected"
        assert_says(oracle.check_counts(wrong[0]), says)
        assert_says(oracle.check_list(*wrong), says)
        assert oracle.check_counts(right[0]) is None


@given(
    st.integers(101, 400),
    st.sampled_from(list(SAMPLED_GRIDS)),
    st.sampled_from(["uniform", "clusters"]),
    st.integers(0, 10**6),
    st.data(),
)
@settings(max_examples=40)
@pytest.mark.long
def test_samples_agree_with_all_pairs(particles, name, distribution, seed, data) -> None:
    """With samples of everything, one oracle says what the other says."""
    grid = SAMPLED_GRIDS[name]
    positions = make(particles, grid, distribution, seed=seed).positions
    near = brute_force(positions, grid, 1.0)
    full, samples = NeighbourOracle(positions, grid, 1.0), sampled(positions, grid)
    if data.draw(st.booleans()):
        i = data.draw(st.integers(0, particles - 1))
        j = data.draw(st.integers(0, particles - 1).filter(i.__ne__))
        near[i, j] ^= True
        near[j, i] ^= data.draw(st.booleans())
    counts, offsets, neighbours = rows(near)
    covered = {int(i) for sample in samples._samples for i in sample.queries}
    found = full.check_list(counts, offsets, neighbours)
    said = samples.check_list(counts, offsets, neighbours)
    if found is None:
        assert said is None
    elif len(covered) == particles:
        assert said is not None
