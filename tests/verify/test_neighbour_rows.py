"""Lists that are compared by sums of their rows: every mistake that is planted is still caught."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import problems
from gpubench.core.grid import Grid
from gpubench.problems.neighbours import oracle as oracles
from gpubench.problems.neighbours import pairs
from gpubench.problems.neighbours import rows as row_checks
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.oracle import SearchOracle
from gpubench.problems.neighbours.pairs import NeighbourOracle, SampledNeighbourOracle
from gpubench.problems.particles.inputs import make, move

BOX = Grid((5, 4, 3), (-2.0, 0.0, 10.0), (5.0, 4.0, 3.0))
PARTICLES = 500


def near_pairs(positions: np.ndarray) -> np.ndarray:
    """Return which pairs are nearer than 1, bool, shape (particles, particles)."""
    apart = positions[:, None, :3].astype(float) - positions[None, :, :3]
    near = (apart**2).sum(axis=2) < 1
    np.fill_diagonal(near, False)
    return near


def rows(near: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts, offsets and neighbours of a matrix of pairs."""
    counts = near.sum(axis=1, dtype=np.int32)
    offsets = np.append(0, np.cumsum(counts, dtype=np.int64))
    return counts, offsets, np.nonzero(near)[1].astype(np.int32)


@pytest.fixture
def parts(monkeypatch):
    """Cut lists into several parts, and let samples be small."""
    monkeypatch.setattr(row_checks, "ENTRIES", 500)
    monkeypatch.setattr(pairs, "SAMPLES", 20)


@settings(max_examples=25)
@given(st.lists(st.integers(0, 20), max_size=40), st.integers(1, 30))
def test_sums_are_those_of_the_rows(counts, entries):
    offsets = np.append(0, np.cumsum(counts, dtype=np.int64)).astype(np.int64)
    rng = np.random.default_rng(len(counts))
    weights = rng.integers(0, 2**64, 50, np.uint64)
    neighbours = rng.integers(0, 50, offsets[-1], np.int32)
    before, row_checks.ENTRIES = row_checks.ENTRIES, entries
    try:
        found = row_checks.row_sums(offsets, neighbours, weights)
    finally:
        row_checks.ENTRIES = before
    pieces = np.split(neighbours, offsets[1:-1]) if counts else []
    expected = [sum(int(weights[j]) for j in piece) % 2**64 for piece in pieces]
    assert found.tolist() == expected


@pytest.fixture(params=[NeighbourOracle, SampledNeighbourOracle])
def drawn(request, parts):
    """Return an oracle that a list has passed, and that list."""
    positions = make(PARTICLES, BOX, seed=3).positions
    right = rows(near_pairs(positions))
    oracle = request.param(positions, BOX, 1.0)
    assert oracle.check_counts(right[0]) is None
    assert oracle.check_list(*right) is None
    return oracle, right


@pytest.mark.parametrize("value", ["another", "a neighbour of it", "itself", "-1", "poison", "n"])
def test_one_wrong_entry_anywhere_is_caught_after_a_right_list(drawn, value):
    oracle, (counts, offsets, neighbours) = drawn
    owner = np.repeat(np.arange(PARTICLES), counts)
    for k in range(0, len(neighbours), 211):
        i = owner[k]
        inside = neighbours[offsets[i] : offsets[i + 1]]
        others = inside[inside != neighbours[k]]
        wrong = neighbours.copy()
        wrong[k] = {
            "another": np.setdiff1d(np.arange(PARTICLES), [*inside, i])[k % 7],
            "a neighbour of it": others[0] if len(others) else i,
            "itself": i,
            "-1": -1,
            "poison": np.int32(-2139062144),
            "n": PARTICLES,
        }[value]
        assert oracle.check_list(counts, offsets, wrong) is not None, k
    assert oracle.check_list(counts, offsets, neighbours) is None


def test_rows_of_each_other_are_caught_after_a_right_list(drawn):
    """Counts and offsets are right, and so is the list as a whole."""
    oracle, (counts, offsets, neighbours) = drawn
    for count in np.unique(counts[counts > 0]):
        alike = np.flatnonzero(counts == count)
        if len(alike) < 2:
            continue
        first, second = (slice(offsets[i], offsets[i + 1]) for i in alike[:2])
        wrong = neighbours.copy()
        wrong[first], wrong[second] = neighbours[second], neighbours[first]
        assert oracle.check_list(counts, offsets, wrong) is not None


def test_a_count_or_an_offset_that_is_wrong_is_caught_after_a_right_list(drawn):
    oracle, (counts, offsets, neighbours) = drawn
    for array in (counts, offsets):
        for index in (0, PARTICLES // 2, len(array) - 1):
            array[index] += 1
            assert oracle.check_list(counts, offsets, neighbours) is not None
            array[index] -= 1
    assert oracle.check_list(counts, offsets, neighbours[:-1]) is not None


def test_a_wrong_list_that_passed_first_is_caught_once_another_differs(parts):
    """No sample is there: only a recount tells which of two lists is wrong."""
    positions = make(PARTICLES, BOX, seed=3).positions
    near = near_pairs(positions)
    oracle = SampledNeighbourOracle(positions, BOX, 1.0)
    inside = {int(i) for sample in oracle._samples for i in sample.queries}
    right = rows(near)
    i, j = next((i, j) for i, j in np.argwhere(near) if not {int(i), int(j)} & inside)
    near[i, j] = near[j, i] = False
    wrong = rows(near)
    assert oracle.check_list(*wrong) is None
    assert oracle.check_list(*right) is None
    assert f"particle {i} has" in oracle.check_list(*wrong)
    assert oracle.check_list(*right) is None


class Lists:
    """Says which of its arrays were downloaded."""

    name, task, cutoff = "lists", "list", 1.0

    def __init__(self, counts, offsets, neighbours):
        self.answer = Neighbours(counts, offsets, neighbours)
        self.downloaded = []

    def download(self, array):
        self.downloaded.append(array)
        return array.copy()


def test_a_list_with_wrong_counts_stays_on_the_device():
    inputs = make(60, BOX, seed=1)
    counts, offsets, neighbours = rows(near_pairs(inputs.positions))
    oracle = problems.problems()["neighbour-search"].oracle(inputs, False)
    search = Lists(counts, offsets, neighbours)
    assert oracle.check(search) is None and len(search.downloaded) == 3
    poisoned = Lists(np.full_like(counts, -2139062144), offsets, neighbours)
    assert oracle.check(poisoned) is not None and len(poisoned.downloaded) == 1


def test_states_that_inputs_begin_from_have_one_oracle(monkeypatch):
    made = []

    class Counted(SearchOracle):
        def __init__(self, state, exact=False):
            made.append(state)
            super().__init__(state, exact)

    monkeypatch.setattr(oracles, "SearchOracle", Counted)
    monkeypatch.setattr(oracles, "_kept", {})
    oracle = problems.problems()["neighbour-search"].oracle
    first, second = (move(make(60, BOX, seed=1), moved, "next", seed=1) for moved in (5, 40))
    one, two = oracle(first, False), oracle(second, False)
    assert one.states[0] is two.states[0] and one.states[1] is not two.states[1]
    other = move(make(60, BOX, seed=2), 5, "next", seed=1)
    assert oracle(other, False).states[0] is not one.states[0]
    assert len(made) == 5
    # What is kept tells a wrong answer of the second input as well.
    counts = near_pairs(first.before.positions).sum(axis=1, dtype=np.int32)
    search = SimpleNamespace(name="x", cutoff=1.0, download=np.array, answer=Neighbours(counts))
    assert two.states[0].check(search) is None
    search.answer = Neighbours(counts + 1)
    assert two.states[0].check(search) is not None
