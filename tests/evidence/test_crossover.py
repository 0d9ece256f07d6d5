"""Ratios with their intervals, and crossings of curves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.evidence.crossover import FIRST, SECOND, Ratio, Timed, crossings


def test_the_intervals_of_independent_times_add_up_as_squares_do() -> None:
    ratio = Timed(3.0, 2.0, 4.0).over(Timed(1.5, 1.0, 2.0))
    assert ratio.value == 2
    assert math.log(2 / ratio.low) ** 2 == pytest.approx(math.log(1.5) ** 2 + math.log(4 / 3) ** 2)
    assert math.log(ratio.high / 2) ** 2 == pytest.approx(math.log(4 / 3) ** 2 + math.log(1.5) ** 2)
    assert not ratio.is_open and Timed(3.0, 2.0, 4.0).over(Timed(3.0, 3.0, 3.0)).is_open
    assert not Timed(3.0, 2.9, 3.1).over(Timed(1.5, 1.4, 1.6)).is_open


@given(
    constants=st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)),
    powers=st.tuples(st.floats(0.2, 0.9), st.floats(1.0, 1.5)),
    width=st.floats(1e-3, 0.1),
)
def test_crossing_of_two_power_laws_is_the_closed_form(
    constants: tuple[float, float], powers: tuple[float, float], width: float
) -> None:
    places = [float(x) for x in range(-80, 81, 4)]  # logarithms of the particles to base two

    def time(which: int, place: float) -> Timed:
        median = constants[which] * 2 ** (powers[which] * place)
        return Timed(median, median * (1 - width), median * (1 + width))

    # The second grows faster: it is below before, the first after the crossing.
    exact = math.log2(constants[0] / constants[1]) / (powers[1] - powers[0])
    widths = math.hypot(math.log2(1 + width), math.log2(1 - width))
    half = widths / (powers[1] - powers[0])
    found = crossings(places, [time(0, x).over(time(1, x)) for x in places])
    if places[0] < exact - half and exact + half < places[-1]:
        [crossing] = found
        assert crossing.at == pytest.approx(exact, abs=1e-6)
        assert crossing.low == pytest.approx(exact - half, abs=1e-6)
        assert crossing.high == pytest.approx(exact + half, abs=1e-6)
        assert crossing.faster_before == SECOND


@pytest.mark.parametrize(
    "ratios",
    [
        [Ratio(0.5, 0.4, 0.6), Ratio(0.9, 0.8, 0.95)],
        [Ratio(2.0, 1.8, 2.2), Ratio(1.2, 1.1, 1.3)],
        [Ratio(0.99, 0.9, 1.1), Ratio(1.01, 0.9, 1.1)],
        [Ratio(0.5, 0.4, 0.6), Ratio(0.99, 0.9, 1.1)],
    ],
)
def test_what_is_faster_everywhere_or_nowhere_does_not_cross(ratios: list[Ratio]) -> None:
    assert not crossings([1.0, 2.0], ratios)


def test_a_crossing_that_is_inconclusive_at_the_end_is_open_there() -> None:
    [crossing] = crossings([0.0, 1.0], [Ratio(0.5, 0.45, 0.55), Ratio(1.1, 0.9, 1.3)])
    assert crossing.low is not None
    assert crossing.high is None
    assert crossing.faster_before == FIRST


def test_curves_that_touch_do_not_cross() -> None:
    ratios = [Ratio(0.5, 0.45, 0.55), Ratio(0.99, 0.9, 1.1), Ratio(0.5, 0.45, 0.55)]
    assert not crossings([0.0, 1.0, 2.0], ratios)


def test_intervals_without_width_cross_in_a_point() -> None:
    ratios = [Ratio(r, r, r) for r in (0.5, 2.0, 0.25)]
    first, second = crossings([0.0, 1.0, 2.0], ratios)
    assert (first.low, first.at, first.high) == (0.5, 0.5, 0.5)
    assert second.at == pytest.approx(1 + 1 / 3)
    assert second.faster_before == SECOND


points = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)
