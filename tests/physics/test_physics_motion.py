"""What the checks of a step look at: rows by id, a cube of particles, and its parts."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.physics import motion
from gpubench.physics.box import Box
from gpubench.physics.motion import octants, region, rows_of, wrong_ids
from gpubench.physics.pairs import ordered_pairs


def ids(numbers: Sequence[int]) -> np.ndarray:
    return np.asarray(numbers, np.uint32)


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([], None),
        ([0], None),
        ([2, 0, 1], None),
        ([1], "there is a particle 1, and ids go up to 0"),
        ([0, 2**32 - 1, 1], "there is a particle 4294967295, and ids go up to 2"),
        ([0, 2, 2], "particle 1 is there 0 times, and should be there once"),
        ([0, 0, 1], "particle 0 is there 2 times, and should be there once"),
    ],
)
def test_ids_that_are_not_each_there_once_are_told(numbers, problem):
    assert wrong_ids(ids(numbers), rows_of(ids(numbers))) == problem


@pytest.mark.parametrize("lost", [0, 2**16 - 1, 2**16, 2**17])
def test_one_of_many_ids_twice_is_told_wherever_it_is(lost):
    there = np.random.default_rng(1).permutation(2**17 + 1).astype(np.uint32)
    assert wrong_ids(there, rows_of(there)) is None
    assert (there[rows_of(there)] == np.arange(len(there))).all()
    there[there == lost] = 5
    assert wrong_ids(there, rows_of(there)) == (
        f"particle {min(5, lost)} is there {2 if lost > 5 else 0} times, and should be there once"
    )


@given(
    particles=st.integers(1, 400),
    share=st.floats(0.01, 2),
    edges=st.tuples(*[st.floats(2.0, 6.0)] * 3),
    periodic=st.tuples(*[st.booleans()] * 3),
    seed=st.integers(0, 9),
)
def test_octants_of_a_region_see_every_pair_of_it(particles, share, edges, periodic, seed):
    box = Box(edges, periodic)
    rng = np.random.default_rng(seed)
    places = np.zeros((particles, 4), np.uint32)
    for axis in range(3):
        places[:, axis] = rng.integers(0, box.units[axis], particles)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(motion, "SAMPLE", share * particles)
        drawn = (places, box, box.volume, 1.0)
        rows, inside = region(*drawn, np.random.default_rng(seed))
        parts = octants(*drawn, np.random.default_rng(seed))
    chosen = np.concatenate([near[mine] for near, mine in parts])
    assert sorted(chosen) == sorted(rows[inside])
    positions = box.to_positions(places)
    neighbours: dict[int, set[int]] = {row: set() for row in range(particles)}
    for pairs in ordered_pairs(positions, box, 1.0):
        for i, j in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
            neighbours[i].add(j)
    for near, mine in parts:
        assert all(neighbours[row] <= set(near.tolist()) for row in near[mine].tolist())
