"""One time for each measurement: which timings count, how they are pooled, how far they go."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_pages import record, results

from gpubench.evidence import declared
from gpubench.evidence.pooling import Regimes, Timing, current, pool
from gpubench.evidence.records import as_json

EARLIER, LATER = "2000-01-01T00:00:00+00:00", "2001-01-01T00:00:00+00:00"


def only(*found, **newer):
    """Return the one measurement of some results."""
    [measured] = pool(found)
    return measured.record.status, measured.record.median_ms


def test_timings_of_one_code_are_pooled_whatever_their_sweep_seed_or_file():
    first = results([record(median=1.0), record(median=4.0, sweep="order")])
    again = results([record(median=4.0, seed=8)], started=LATER)
    [measured] = pool([again, first])
    assert measured.record.median_ms == pytest.approx(16 ** (1 / 3))
    assert len(measured.timings) == 3 and measured.replaced == 0


def test_the_newest_code_counts():
    older = results([record(median=1.0)])
    newer = results([record(median=2.0)], started=LATER, code_hash="newer")
    [measured] = pool([newer, older])
    assert (measured.record.median_ms, measured.replaced) == (2.0, 1)


def test_what_the_newest_code_did_not_measure_stays():
    older = results([record(median=1.0), record(per_cell=1, median=3.0)])
    newer = results([record(median=2.0)], started=LATER, code_hash="newer")
    assert {m.record.median_ms for m in pool([older, newer])} == {2.0, 3.0}


@pytest.mark.parametrize(
    ("statuses", "counts"),
    [
        (("ok", "wrong"), "wrong"),
        (("wrong", "ok"), "wrong"),
        (("failed", "ok"), "ok"),
        (("skipped", "ok"), "ok"),
        (("skipped", "failed"), "failed"),
    ],
)
def test_the_worst_that_is_an_answer_counts(statuses, counts):
    made = [
        record(sweep=str(n), status=status, **({} if status == "ok" else {"reason": "why"}))
        for n, status in zip("ab", statuses, strict=True)
    ]
    assert only(results(made))[0] == counts


def test_a_failed_attempt_gives_way_to_its_repetition():
    assert only(results([record(status="failed", reason="lost"), record(median=2.0)])) == ("ok", 2)


def test_what_is_timed_has_a_version_whatever_else_of_the_code_changes():
    older = results([record(median=1.0, version="1.v1")])
    newer = results([record(median=4.0, version="1.v1")], started=LATER, code_hash="newer")
    [measured] = pool([newer, older])
    assert (measured.record.median_ms, len(measured.timings)) == (pytest.approx(2.0), 2)
    newer = results([record(median=4.0, version="1.v2")], started=LATER, code_hash="newer")
    [measured] = pool([newer, older])
    assert (measured.record.median_ms, measured.replaced) == (4.0, 1)


def test_a_version_by_todays_rule_counts_before_the_one_that_a_record_was_made_with(monkeypatch):
    [one] = results([record("bitonic-search", version="1.old", device="cuda")]).records
    known = {"versions": {"0123456": {"cuda bitonic-search": "1.new"}}}
    monkeypatch.setattr(declared, "legacy", lambda: known)
    made = {"commit": "0123456789", "dirty": False, "code_hash": "all"}
    assert declared.version_of(one, made) == "1.new"
    for other in ({"commit": "89abcde"}, {"commit": None}, {"dirty": True}):
        assert declared.version_of(one, made | other) == "1.old"


def test_times_with_two_versions_of_a_library_are_never_pooled():
    made = [record(median=ms, version="1.v", library=f"lib {ms}") for ms in (1.0, 2.0)]
    files = [results([made[0]]), results([made[1]], started=LATER)]
    assert [m.record.median_ms for m in pool(files)] == [2.0]


@pytest.mark.parametrize(
    ("earlier", "version", "counts"),
    [
        ({"library": "lib 1"}, "1.v", ("ok", 1.0)),
        ({"library": "lib 1"}, "1.w", ("skipped", None)),
        ({"status": "wrong", "reason": "why"}, "1.v", ("wrong", None)),
        ({"status": "wrong", "reason": "why", "library": "lib 1"}, "1.v", ("wrong", None)),
    ],
)
def test_a_run_without_a_library_takes_away_none_of_its_answers(earlier, version, counts):
    first = results([record(version="1.v", library="lib 1")], started="2000-01-01T00:00:00+00:00")
    then = results([record(version="1.v", **earlier)], started="2000-06-01T00:00:00+00:00")
    last = record(status="skipped", reason="lib is not installed", version=version)
    assert only(first, then, results([last], started=LATER)) == counts


def test_a_lacking_library_is_the_reason_only_where_no_run_has_another():
    reasons = ["no graph holds it", "it allocates", "lib is not installed: pip install lib"]
    made = [
        results(
            [record(status="skipped", reason=reason)], started=f"200{year}-01-01T00:00:00+00:00"
        )
        for year, reason in enumerate(reasons)
    ]
    assert pool(made)[0].record.reason == "it allocates"
    assert pool(made[2:])[0].record.reason == reasons[2]


def test_a_version_that_the_study_has_a_newer_one_of_is_older():
    older = results([record(median=1.0, version="1.v1"), record(per_cell=1, version="1.v1")])
    newer = results([record(median=2.0, version="1.v2")], started=LATER)
    found = {m.record.at("per_cell"): m.is_older for m in pool([older, newer])}
    assert found == {4: False, 1: True}
    other = results([record(median=2.0, version="1.v2", study="another")], started=LATER)
    assert not any(m.is_older for m in pool([older, other]))


@pytest.mark.parametrize(("again", "shown"), [(1, [1, 1, 2]), (2, [2, 2])])
def test_older_code_stays_until_most_inputs_are_timed_by_newer(again, shown):
    """Of three inputs; one input alone tells of no other."""
    made = []
    for version, many, started in (("1.v1", 3, EARLIER), ("1.v2", again, LATER)):
        own = [record(per_cell=n, version=version) for n in range(1, 1 + many)]
        more = {"form": "reorder", "version": "1.b"}
        other = [record("radix-grid", per_cell=n, **more) for n in range(1, 4)]
        made.append(results([*own, *other], started=started))
    found = [m.version for m in current(pool(made)) if m.version != "1.b"]
    assert sorted(int(version[-1]) for version in found) == shown


def repeated(ratio, count, first=0):
    """Return records of inputs that were timed twice, the second time a ratio slower."""
    return [
        record(particles=size, median=ms, width=0.0, sweep=sweep)
        for size in range(first + 4, first + count + 4)
        for sweep, ms in (("map", 1.0), ("again", ratio))
    ]


def test_the_spread_between_timings_widens_what_was_timed_once():
    once = record(particles=1000, median=1.0, width=0.0)
    found = pool([results([*repeated(1.1, 12), once])])
    [measured] = [m for m in found if len(m.timings) == 1]
    # Two timings that are each off by the spread differ as those that were repeated do.
    assert measured.spread == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert measured.record.ci95_low_ms == pytest.approx(math.exp(-measured.spread))
    assert measured.record.ci95_high_ms == pytest.approx(math.exp(measured.spread))


def test_timing_twice_is_not_punished():
    found = pool([results([*repeated(1.1, 12), record(particles=1000, median=1.0, width=0.0)])])
    twice, once = (next(m for m in found if len(m.timings) == n) for n in (2, 1))
    assert twice.spread == pytest.approx(once.spread / math.sqrt(2))


def test_without_repetitions_intervals_stay_as_they_are():
    [measured] = pool([results([record(median=1.0, width=0.25)])])
    assert (measured.record.ci95_low_ms, measured.record.ci95_high_ms) == (0.75, 1.25)


def test_long_times_modes_and_studies_have_spreads_of_their_own():
    short = [
        record(
            particles=r.at("particles") + 2**19,
            sweep=r.sweep,
            median=0.1 * r.median_ms,
            width=0.0,
        )
        for r in repeated(1.5, 12)
    ]
    other = [record(study="another", particles=2**21, median=1.0, width=0.0)]
    timings = [
        [Timing(r, results([])) for r in pair]
        for pair in zip(*[iter([*short, *repeated(1.01, 12)])] * 2, strict=True)
    ]
    found = Regimes([*timings, [Timing(other[0], results([]))]]).spreads
    by_length = {regime.is_short: spread for regime, spread in found.items() if regime.of}
    assert by_length[True] == pytest.approx(math.log(1.5))
    assert by_length[False] == pytest.approx(math.log(1.01))
    everything = pool([results([*short, *repeated(1.01, 12), *other])])
    [borrowed] = [m for m in everything if m.record.study == "another"]
    assert borrowed.spread == pytest.approx(by_length[False] / math.sqrt(2))


def test_between_runs_the_inputs_that_the_most_runs_timed_speak_for_all_algorithms():
    """An algorithm that two runs timed, and restless, widens its own intervals alone."""
    steady = runs(3, 0.005, 1)
    restless = [
        results(
            [
                record(
                    "bucket-sort",
                    "host-loop",
                    particles=n + 8,
                    median=ms,
                    width=1e-4,
                    version="1.v",
                )
                for n, ms in enumerate(np.exp(np.random.default_rng(day).normal(0, 0.3, 20)))
            ],
            started=f"2001-01-{day:02}T00:00:00+00:00",
        )
        for day in (1, 2)
    ]
    once = results([record(study="once", median=1.0, width=1e-4)])
    spreads = {m.record.algorithm: m.spread for m in pool([*steady, *restless, once])}
    assert 0.005 < spreads["atomic-list"] < 0.03
    assert spreads["bucket-sort"] > 0.3


def runs(count, spread, seed, measured=40, noise=0.002, together=0.0):
    """Return results of runs on as many days, each off by its own in every measurement.

    together: the spread of what all measurements of a run are off by.
    """
    random = np.random.default_rng(seed)
    truth = random.uniform(0.5, 1, measured)
    found = []
    for day, off in enumerate(np.random.default_rng([seed, 1]).normal(0, together, count), 1):
        times = truth * np.exp(random.normal(0, spread, measured) + off)
        made = [
            record(particles=2**20 + n, median=float(ms), width=noise * float(ms), version="1.v")
            for n, ms in enumerate(times)
        ]
        found.append(results(made, started=f"2001-01-{day:02}T00:00:00+00:00"))
    return found


@pytest.mark.parametrize("spread", [0.005, 0.05])
@pytest.mark.parametrize("earlier", [2, 3, 6])
def test_a_later_run_falls_inside_the_intervals_of_earlier_ones(earlier, spread):
    inside = []
    for seed in range(10):
        *before, later = runs(earlier + 1, spread, seed)
        intervals = {m.record.at("particles"): m.record for m in pool(before)}
        for each in later.records:
            interval = intervals[each.at("particles")]
            inside.append(interval.ci95_low_ms <= each.median_ms <= interval.ci95_high_ms)
    # Of few runs, intervals are wider, since their times may be off together.
    assert 0.93 <= np.mean(inside) <= (0.985 if earlier > 3 else 1)


@pytest.mark.parametrize("earlier", [2, 3, 6])
def test_a_run_whose_times_are_all_off_together_mostly_falls_inside(earlier):
    """Each of its times is off by the same, and by as much again that is its own."""
    inside = []
    for seed in range(60):
        *before, later = runs(earlier + 1, 0.01, seed, measured=10, noise=1e-4, together=0.01)
        intervals = {m.record.at("particles"): m.record for m in pool(before)}
        for each in later.records:
            interval = intervals[each.at("particles")]
            inside.append(interval.ci95_low_ms <= each.median_ms <= interval.ci95_high_ms)
    assert np.mean(inside) >= 0.9


def test_intervals_of_one_run_alone_do_not_know_how_far_another_may_be():
    [first, later] = runs(2, 0.05, 1)
    intervals = {m.record.at("particles"): m.record for m in pool([first])}
    records = [(each.median_ms, intervals[each.at("particles")]) for each in later.records]
    assert np.mean([low.ci95_low_ms <= ms <= low.ci95_high_ms for ms, low in records]) < 0.5


def test_intervals_of_new_code_know_how_far_runs_of_older_code_are_apart():
    older, [later] = runs(3, 0.05, 1), runs(1, 0.05, 2)
    made = [_plain(each) | {"version": "1.w"} for each in later.records]
    new = results(made, started="2001-02-01T00:00:00+00:00")
    assert {m.is_known for m in pool([new])} == {False}
    found = pool([*older, new])
    assert {(m.version, m.replaced, m.is_known) for m in found} == {("1.w", 3, True)}
    assert min(m.spread for m in found) > 0.05


def test_two_runs_of_one_day_on_one_device_say_nothing_of_another_day():
    same = [results(list(map(_plain, run.records))) for run in runs(2, 0.05, 1)]
    [spread] = {m.spread for m in pool(same)}
    apart = {m.spread for m in pool(runs(2, 0.05, 1))}
    assert max(apart) > spread
    assert not any(at.between for at in Regimes([m.timings for m in pool(same)]).spreads)


def _plain(found):
    return as_json(found)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=5), st.floats(0.0, 0.9))
def test_a_pooled_time_lies_within_its_interval_and_that_narrows(times, width):
    made = [record(median=ms, width=width, sweep=str(n)) for n, ms in enumerate(times)]
    [measured] = pool([results(made)])
    low, ms, high = (
        getattr(measured.record, f"{name}_ms") for name in ("ci95_low", "median", "ci95_high")
    )
    assert low <= ms * (1 + 1e-12) and ms <= high * (1 + 1e-12)
    widest = max(math.log(r.ci95_high_ms / r.ci95_low_ms) for r in made)
    assert math.log(high / low) <= widest * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    ("hot", "graph", "short"),
    [(0.15, 0.14, False), (0.15, 0.02, True), (0.15, None, True), (0.25, None, False)],
)
def test_work_is_short_by_its_device_time_and_else_as_launched(hot, graph, short):
    made = [record(median=hot)] + ([record(median=graph, mode="graph")] if graph else [])
    assert {m.is_short for m in pool([results(made)])} == {short}


def test_what_two_studies_timed_alike_says_how_far_apart_they_are():
    """They draw other particles, and have other work in turns."""
    made = [
        record(study=study, particles=n, median=ms, width=1e-4, version="1.v", seed=seed)
        for n in range(8, 28)
        for study, ms, seed in (("one", 1.0, 1), ("other", 1.06, 2))
    ]
    lone = record("bucket-sort", "host-loop", study="one", width=1e-4, version="1.v")
    found = pool([results([*made, lone])])
    assert {round(m.spread, 4) for m in found} == {round(math.log(1.06), 4)}
    assert not any(m.is_known for m in found), "one run says nothing of the next"
