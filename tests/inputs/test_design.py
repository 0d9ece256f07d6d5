"""Designed sweeps: different points, all of a seed, every value about equally often."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fake_algorithms import ALGORITHMS
from hypothesis import given
from hypothesis import strategies as st
from study_texts import study_text

from gpubench import registry
from gpubench.studies.design import spread_points
from gpubench.studies.plan import plan
from gpubench.studies.selection import Selection
from gpubench.studies.study import StudyError, parse_study

LEVELS, SCALES = (6, 4, 3, 3), (True, True, False, False)

STUDY = study_text(
    "right-sort",
    name="spread", points=14, particles=[64, 128, 256, 512], per_cell=[0.5, 1, 2],
    distribution=["uniform", "clusters", "free-surface"], order=["random", "morton"],
    modes=["hot"], quick={"particles": [64, 128], "points": 9},
)  # fmt: skip


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    monkeypatch.setattr(registry, "algorithms", lambda: ALGORITHMS)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=4),
    st.floats(0, 1),
    st.integers(0, 2**32),
)
def test_points_are_different_sorted_and_of_the_product(axes, share, seed) -> None:
    levels, scales = zip(*axes, strict=True)
    product = list(itertools.product(*map(range, levels)))
    points = max(1, round(share * len(product)))
    found = spread_points(levels, scales, points, seed)
    assert len(found) == points == len(set(found))
    assert found == sorted(found) and set(found) <= set(product)


@pytest.mark.parametrize("points", [20, 36, 40, 100])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_value_and_every_pair_comes_about_equally_often(points: int, seed: int) -> None:
    found = np.array(spread_points(LEVELS, SCALES, points, seed))
    for axis, n in enumerate(LEVELS):
        counts = np.bincount(found[:, axis], minlength=n)
        assert counts.max() - counts.min() <= 2
    for a, b in itertools.combinations(range(len(LEVELS)), 2):
        counts = np.bincount(found[:, a] * LEVELS[b] + found[:, b])
        assert counts.max() <= -(-points // (LEVELS[a] * LEVELS[b])) + 2


def test_the_corners_of_scales_are_there() -> None:
    found = {point[:2] for point in spread_points(LEVELS, SCALES, 20, 1)}
    assert {(0, 0), (0, 3), (5, 0), (5, 3)} <= found
    # Of an axis of names the first and the last are like any other.
    assert len(spread_points((9,), (False,), 2, 1)) == 2
    assert spread_points((9,), (True,), 2, 1) == [(0,), (8,)]


def test_a_seed_has_one_design() -> None:
    designs = [spread_points(LEVELS, SCALES, 40, seed) for seed in (1, 1, 2)]
    assert designs[0] == designs[1] != designs[2]


def test_a_sweep_of_points_is_planned_by_size() -> None:
    recipes = [group.recipe for group in plan(parse_study("s", STUDY))]
    assert len(recipes) == len(set(recipes)) == 14
    sizes = [recipe.particles for recipe in recipes]
    assert sizes == sorted(sizes)
    assert {(64, 0.5), (64, 2), (512, 0.5), (512, 2)} <= {
        (r.particles, r.per_cell) for r in recipes
    }
    again = [group.recipe for group in plan(parse_study("s", STUDY))]
    other = [group.recipe for group in plan(parse_study("s", STUDY.replace("= 7", "= 8")))]
    assert again == recipes != other


def test_quick_replaces_points_and_sizes_by_hand_take_what_is_there() -> None:
    study = parse_study("s", STUDY)
    assert len(plan(study, Selection(quick=True))) == 9
    assert len(plan(study, Selection(quick=True, particles=(32,), per_cell=(1,)))) == 6
    everything = parse_study("s", STUDY.replace("points = 14\n", "").replace(", points = 9", ""))
    assert len(plan(everything)) == 72


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("points = 14", "points = 73", "its axes have 72 combinations, .* not 73"),
        ("points = 9", "points = 37", "its axes with --quick have 36 combinations, .* not 37"),
        ("points = 14", "points = 0", "points"),
    ],
)
def test_more_points_than_combinations_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(StudyError, match=message) as raised:
        parse_study("s", STUDY.replace(old, new))
    assert "\n" not in str(raised.value)
