"""Intervals of interpolated times hold what another run measures there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from searches import record, results

from gpubench.choose.chooser import Chooser
from gpubench.choose.question import Question
from gpubench.evidence.pooling import pool

SIZES = [2**k for k in range(10, 23, 2)]
OCCUPANCIES = [1, 2, 4, 8, 16, 32]
DEVICE = {"backend": "opencl", "name": "A device"}


def law(n, p):
    """A launch, then work, which slows down where a cache overflows."""
    return 0.01 + 1e-6 * n * p**0.3 * (1 + 0.3 / (1 + (2**17 / n) ** 2))


def measured(count, sigma, rng):
    """Return runs of one law; each measurement of each run is off by sigma, as a logarithm."""
    return [
        results(
            *(
                record("a", law(n, p) * math.exp(sigma * rng.normal()), n, p)
                for n in SIZES
                for p in OCCUPANCIES
            ),
            started=f"2026-02-0{day}T00:00:00Z",
            device=DEVICE,
        )
        for day in range(1, count + 1)
    ]


@pytest.mark.parametrize(("count", "sigma"), [(2, 0.3), (2, 0.02), (3, 0.1), (5, 0.1)])
def test_another_run_lies_within_the_interval(count, sigma):
    rng = np.random.default_rng(7)
    held = []
    for _ in range(5):
        chooser = Chooser(measured(count, sigma, rng))
        for _ in range(40):
            n, p = (round(2 ** rng.uniform(10, 22)), 2 ** rng.uniform(0, 5))
            best = chooser.choose(Question(n, p), with_changes=False).best
            again = law(n, p) * math.exp(sigma * rng.normal())
            held.append(best.low_ms <= again <= best.high_ms)
    assert np.mean(held) >= 0.85


def test_errors_of_interpolation_are_added_to_the_pooled_interval():
    found = measured(3, 0.1, np.random.default_rng(8))
    pooled = [math.log(each.record.ci95_high_ms / each.record.median_ms) for each in pool(found)]
    assert min(pooled) > 0.05  # what the spread between runs adds to 0.1 % of each
    chooser = Chooser(found)
    on_it, between = (
        math.log(best.high_ms / best.ms)
        for best in (chooser.choose(Question(n, 4)).best for n in (2**16, 2**17))
    )
    assert on_it == pytest.approx(pooled[0], rel=0.1)
    assert between > on_it + 0.01
