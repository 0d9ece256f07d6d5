"""Coverage of synthetic runs whose spread is known."""

from __future__ import annotations

from collections import Counter

import numpy as np
from report_pages import record, results

from gpubench.evidence import coverage as module
from gpubench.evidence.coverage import coverage


def runs(count: int, spread: float, **changes: object) -> list:
    """Return results of runs on as many days; each time is off by its own."""
    random = np.random.default_rng(3)
    truth = random.uniform(0.5, 1, 200)
    found = []
    for day in range(1, count + 1):
        times = truth * np.exp(random.normal(0, spread, len(truth)))
        made = [
            record(particles=2**20 + n, median=float(ms), width=1e-4 * ms, version="1.v")
            for n, ms in enumerate(times)
        ]
        found.append(results(made, started=f"2001-01-{day:02}T00:00:00+00:00", **changes))
    return found


def before(test: module.Test) -> int:
    """Return how many runs there were before."""
    return len({timing.run for timing in test.before.timings})


def inside(tests: list[module.Test], runs: int) -> float:
    """Return which share of the tests after so many runs fell inside."""
    return float(np.mean([test.is_inside for test in tests if before(test) == runs]))


def test_intervals_that_know_the_spread_hold_95_of_100_and_those_of_one_run_do_not() -> None:
    tests = coverage(runs(4, 0.03))
    assert Counter(map(before, tests)) == {1: 200, 2: 200, 3: 200}
    assert {(before(test) > 1) == test.before.is_known for test in tests} == {True}
    assert inside(tests, 1) < 0.1
    assert inside(tests, 2) >= 0.93  # of few runs, intervals are wider
    assert 0.93 <= inside(tests, 3) <= 0.995


def test_a_run_that_is_off_as_a_whole_is_seen() -> None:
    found = runs(3, 0.001)
    late = [
        record(particles=r.at("particles"), median=1.1 * r.median_ms, width=1e-4, version="1.v")
        for r in found[-1].records
    ]
    tests = coverage([*found[:2], results(late, started="2001-01-09T00:00:00+00:00")])
    assert inside(tests, 2) == 0
    assert {round(test.ratio, 2) for test in tests if before(test) == 2} == {1.1}


def test_another_version_is_another_measurement() -> None:
    one, other = runs(2, 0.01)
    changed = [
        record(particles=r.at("particles"), median=r.median_ms, version="1.w")
        for r in other.records
    ]
    assert coverage([one, results(changed, started="2001-01-09T00:00:00+00:00")]) == []


def test_two_runs_of_one_day_on_one_card_are_one() -> None:
    one = runs(1, 0.01)
    assert coverage([*one, *runs(1, 0.01)]) == []
