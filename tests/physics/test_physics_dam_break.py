"""The front of a collapsing column, and the experiments."""

from __future__ import annotations

import numpy as np
import pytest

from gpubench.base.errors import UserError
from gpubench.physics.dam_break import (
    EXPERIMENTS,
    LATE_SLOPE,
    LATE_SLOPE_ERROR,
    deviations,
    front_position,
    late_slope,
    scaled_time,
)

SPACING, DEPTH = 0.5, 4.0


def lattice(x: float, z: float, seed: int = 1) -> np.ndarray:
    """A fluid of that extent, its particles strayed by a tenth of their spacing."""
    axes = [np.arange(SPACING / 2, edge, SPACING) for edge in (x, DEPTH, z)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return points + np.random.default_rng(seed).normal(scale=0.1 * SPACING, size=points.shape)


def front(positions: np.ndarray) -> float:
    return front_position(positions, SPACING, DEPTH)


class TestFront:
    @pytest.mark.parametrize("height", [SPACING, 1.5, 10.0])
    def test_is_where_a_fluid_ends(self, height: float) -> None:
        assert front(lattice(12.0, height)) == pytest.approx(12.0, abs=0.5 * SPACING)

    def test_spray_ahead_is_no_front(self) -> None:
        spray = np.random.default_rng(2).random((30, 3)) * (20.0, DEPTH, 1.0)
        spray += np.array([12.5, 0.0, 0.0])
        found = front(np.concatenate((lattice(12.0, 3.0), spray)))
        assert found == pytest.approx(12.0, abs=SPACING)

    def test_fluid_in_the_air_is_no_front(self) -> None:
        above = lattice(30.0, 2.0) + np.array([0.0, 0.0, 4 * SPACING])
        found = front(np.concatenate((lattice(12.0, 3.0), above)))
        assert found == pytest.approx(12.0, abs=0.5 * SPACING)

    def test_a_drop_that_has_come_off_is_no_front(self) -> None:
        drop = lattice(2.0, 1.0) + np.array([15.0, 0.0, 0.0])
        found = front(np.concatenate((lattice(12.0, 3.0), drop)))
        assert found == pytest.approx(12.0, abs=0.5 * SPACING)

    def test_without_fluid_there_is_none(self) -> None:
        with pytest.raises(UserError, match="near the floor"):
            front(np.array([[1.0, 1.0, 9.0]]))


class TestExperiments:
    def test_the_late_slope_is_that_of_the_second_set(self) -> None:
        set_2 = EXPERIMENTS["martin-moyce-2"]
        late = set_2.times > 4.4
        times, fronts = set_2.times[late], set_2.fronts[late]
        end_to_end = (fronts[-1] - fronts[0]) / (times[-1] - times[0])
        assert end_to_end == pytest.approx(LATE_SLOPE, abs=0.005)
        assert abs(late_slope(times, fronts).value - LATE_SLOPE) < LATE_SLOPE_ERROR / 4

    def test_an_experiment_does_not_deviate_from_itself(self) -> None:
        for name, experiment in EXPERIMENTS.items():
            assert deviations(experiment.times, experiment.fronts)[name] == 0

    def test_a_deviation_has_its_size_and_sign(self) -> None:
        set_1 = EXPERIMENTS["martin-moyce-1"]
        slow = set_1.fronts.copy()
        slow[3] *= 0.8
        assert deviations(set_1.times, slow)["martin-moyce-1"] == pytest.approx(-0.2)

    def test_the_sets_are_within_tolerance_of_each_other_early_on(self) -> None:
        set_1, set_2 = (EXPERIMENTS[f"martin-moyce-{k}"] for k in (1, 2))
        early = set_2.times < 4.1
        off = deviations(set_2.times[early], set_2.fronts[early])
        assert abs(off["martin-moyce-1"]) < 0.1
        assert abs(off["koshizuka-oka"]) < 0.1
        assert set_1.times[0] > set_2.times[0]

    def test_what_a_run_does_not_reach_is_left_out(self) -> None:
        found = deviations(np.array([0.0, 0.5]), np.array([1.0, 1.1]))
        assert set(found) == {"koshizuka-oka"}

    def test_time_is_scaled(self) -> None:
        assert scaled_time(3.0, width=8.0, gravity=0.25) == pytest.approx(0.75)

    def test_a_short_run_has_no_late_slope(self) -> None:
        with pytest.raises(UserError, match="samples lie between"):
            late_slope(np.linspace(0, 4, 50), np.ones(50))
