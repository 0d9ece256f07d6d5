"""Coverage of synthetic runs whose spread is known."""

from __future__ import annotations

import numpy as np
import pytest
from report_pages import record, results

from gpubench.evidence.coverage import coverage


def runs(count: int, spread: float, **changes: object) -> list:
    """Return results of runs on as many days; each time is off by its own."""
    random = np.random.default_rng(3)
    truth = random.uniform(0.5, 1, 200)
    found = []
    for day in range(1, count + 1):
        times = truth * np.exp(random.normal(0, spread, len(truth)))
        made = [
            record(particles=2**20 + n, median=float(ms), width=1e-4 * ms, version="v")
            for n, ms in enumerate(times)
        ]
        found.append(results(made, started=f"2001-01-{day:02}T00:00:00+00:00", **changes))
    return found


def test_intervals_that_know_the_spread_hold_95_of_100_and_those_of_one_run_do_not() -> None:
    alone, two, three = coverage(runs(4, 0.03))
    assert [(each.runs, len(each.tests)) for each in (alone, two, three)] == [
        (1, 200), (2, 200), (3, 200)
    ]  # fmt: skip
    assert alone.inside < 20
    assert two.inside / 200 >= 0.93  # of few runs, intervals are wider
    assert 0.93 <= three.inside / 200 <= 0.995
    assert 1.05 < max(two.worst.ratio, 1 / two.worst.ratio) < 1.3


def test_a_run_that_is_off_as_a_whole_is_seen() -> None:
    found = runs(3, 0.001)
    late = [
        record(particles=r.at("particles"), median=1.1 * r.median_ms, width=1e-4, version="v")
        for r in found[-1].records
    ]
    [_, two] = coverage([*found[:2], results(late, started="2001-01-09T00:00:00+00:00")])
    assert two.inside == 0
    assert two.worst.ratio == pytest.approx(1.1, abs=0.01)


def test_another_version_is_another_measurement() -> None:
    one, other = runs(2, 0.01)
    changed = [
        record(particles=r.at("particles"), median=r.median_ms, version="w") for r in other.records
    ]
    assert coverage([one, results(changed, started="2001-01-09T00:00:00+00:00")]) == []


def test_two_runs_of_one_day_on_one_card_are_one() -> None:
    one = runs(1, 0.01)
    assert coverage([*one, *runs(1, 0.01)]) == []
