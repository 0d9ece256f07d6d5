import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import quantile_test

from gpubench.measure.statistics import Summary, remarks_on, summarise

samples = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=60)


def test_median_of_odd_and_even_counts():
    assert summarise([3.0, 1.0, 2.0]).median_ms == 2.0
    assert summarise([4.0, 1.0, 2.0, 3.0]).median_ms == 2.5


@pytest.mark.parametrize("count", range(1, 6))
def test_too_few_samples_for_an_interval_give_their_range(count):
    values = [float(v) for v in range(count)]
    assert summarise(values) == Summary(np.median(values), 0.0, count - 1.0)


@given(samples)
def test_interval_agrees_with_scipy(values):
    interval = quantile_test(values, p=0.5).confidence_interval(0.95)
    expected = (
        (min(values), max(values)) if math.isnan(interval.low) else (interval.low, interval.high)
    )
    summary = summarise(values)
    assert (summary.ci95_low_ms, summary.ci95_high_ms) == expected


def test_less_confidence_gives_a_narrower_interval():
    values = [float(v) for v in range(50)]
    assert summarise(values, 0.5).half_width_ms < summarise(values, 0.95).half_width_ms


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_what_has_no_median_is_refused(values):
    with pytest.raises(ValueError, match="finite"):
        summarise(values)


STEADY = {
    "normal": lambda rng, count: rng.normal(1, 0.05, count),
    "skewed": lambda rng, count: rng.lognormal(0, 0.3, count),
    "flat": lambda rng, count: rng.uniform(0.9, 1.1, count),
    "long tail": lambda rng, count: 1 + 0.1 * np.abs(rng.standard_t(2, count)),
    "coarse clock": lambda rng, count: np.round(rng.normal(100, 2, count)),
}


@pytest.mark.parametrize("count", [11, 31, 200])
@pytest.mark.parametrize("name", STEADY)
def test_steady_noise_hardly_ever_gets_a_remark(name, count):
    rng = np.random.default_rng(5)
    told = sum(bool(remarks_on(STEADY[name](rng, count).tolist())) for _ in range(100))
    assert told <= 1


@pytest.mark.parametrize(("slope", "word"), [(0.06, "slower"), (-0.06, "faster")])
def test_a_drift_is_reported_with_its_size(slope, word):
    rng = np.random.default_rng(5)
    samples = (1 + np.linspace(0, slope, 40)) * rng.lognormal(0, 0.005, 40)
    (remark,) = remarks_on(samples.tolist())
    assert remark.startswith(f"drift: {word} by ")
    assert float(remark.split()[3].rstrip("%")) == pytest.approx(6, abs=0.9)


def test_bimodal_samples_are_reported_with_their_places():
    rng = np.random.default_rng(5)
    samples = np.where(rng.random(60) < 0.3, 1.05, 1.0) * rng.lognormal(0, 0.004, 60)
    (remark,) = remarks_on(samples.tolist())
    low, high = (float(word) for word in (remark.split()[2], remark.split()[4]))
    assert (low, high) == pytest.approx((1.0, 1.05), rel=0.003)


def test_modes_too_near_to_matter_get_no_remark():
    rng = np.random.default_rng(5)
    samples = np.where(rng.random(60) < 0.5, 1.01, 1.0) * rng.lognormal(0, 0.001, 60)
    assert remarks_on(samples.tolist()) == []


@pytest.mark.parametrize("samples", [[1.0] * 50, [0.0] * 50, [1.0, 2.0], [0.0] * 40 + [1.0] * 2])
def test_equal_or_few_samples_get_no_remark(samples):
    assert remarks_on(samples) == []
