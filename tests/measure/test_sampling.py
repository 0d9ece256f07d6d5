import itertools

import numpy as np
import pytest
from fakes import FakeDevice

from gpubench.measure.sampling import (
    BLOCK_MS,
    SAMPLE_MS,
    Budget,
    Task,
    overhead,
    sample,
    take_samples,
)
from gpubench.measure.statistics import summarise

# Never narrow, never out of time: every task takes max_samples.
FIXED = Budget(seconds_per_task=1e9, min_samples=8, max_samples=8, max_batch=64)


def task(label, work, mode, **more):
    return Task(label, [work], mode, **more)


def segments(log):
    """Split a log at records: what was queued before, between and after pairs of events."""
    return [list(g) for is_record, g in itertools.groupby(log, "record".__eq__) if not is_record]


def noisy(rng, scale):
    return lambda: scale * rng.lognormal(0.0, 0.3)


def test_each_round_samples_every_open_task_once_in_an_order_that_varies():
    device = FakeDevice()
    names = "abcd"
    tasks = [task(name, device.work(name, 1.0), "hot") for name in names]
    budget = Budget(1e-3, min_samples=8, max_samples=8)  # shortest warm-up
    sample(device, tasks, budget, seed=1)
    # From the end: 8 rounds of 4 samples, each of a lead-in and the timed launch.
    timed = [part[0] for part in segments(device.log)][-8 * 4 * 2 :][1::2]
    rounds = [tuple(timed[i : i + 4]) for i in range(0, len(timed), 4)]
    assert all(sorted(turn) == sorted(names) for turn in rounds)
    assert len(set(rounds)) > 1


@pytest.mark.parametrize("mode", ["cold", "hot", "graph"])
def test_times_are_per_launch_of_a_task(mode):
    device = FakeDevice()
    one = task("a", device.work("a", 1.0), mode, launches=2)
    (result,) = sample(device, [one], FIXED, seed=0)
    assert result.samples_ms == [0.5] * 8 and result.summary.median_ms == 0.5
    assert result.batch == 2


@pytest.mark.parametrize("mode", ["hot", "graph"])
@pytest.mark.parametrize("cost_ms", [0.001, 0.01, 0.05, 0.19, 0.5])
def test_short_work_is_batched_until_a_sample_is_long_enough(mode, cost_ms):
    device = FakeDevice()
    budget = Budget(1e9, 8, 8, max_batch=1000)
    (result,) = sample(device, [task("a", device.work("a", cost_ms), mode)], budget, seed=0)
    assert result.batch * cost_ms >= SAMPLE_MS
    assert (result.batch - 1) * cost_ms <= 1.25 * SAMPLE_MS
    assert result.samples_ms == pytest.approx([cost_ms] * 8)


def test_the_batch_follows_work_that_gets_faster_while_it_warms_up():
    device = FakeDevice()
    costs = itertools.chain([5.0, 5.0, 0.1], itertools.repeat(0.01))
    (result,) = sample(device, [task("a", device.work("a", costs), "hot")], FIXED, seed=0)
    assert result.batch * 0.01 >= SAMPLE_MS


@pytest.mark.parametrize("mode", ["hot", "graph"])
def test_the_batch_has_an_upper_bound_even_for_work_that_takes_no_time(mode):
    device = FakeDevice()
    (result,) = sample(device, [task("a", device.work("a", 0.0), mode)], FIXED, seed=0)
    assert result.batch == FIXED.max_batch
    assert result.samples_ms == [0.0] * 8


def test_cold_samples_are_single_and_follow_a_flush_outside_the_timed_region():
    device = FakeDevice()
    (result,) = sample(device, [task("a", device.work("a", 0.01), "cold")], FIXED, seed=0)
    assert result.batch == 1
    assert result.samples_ms == pytest.approx([0.01] * 8)
    assert set(device.filled_bytes) == {2 * FakeDevice.cache_bytes}
    # Record, first launch, record, then always: record, fill, record, launch, record.
    assert segments(device.log)[1:] == [["fill"], ["a"]] * len(device.filled_bytes)


def test_a_graph_is_captured_before_sampling_and_replayed_for_each_sample():
    device = FakeDevice()
    (result,) = sample(device, [task("a", device.work("a", 0.05), "graph")], FIXED, seed=0)
    last_capture = len(device.log) - device.log[::-1].index("capture")
    launches = [part for part in segments(device.log[last_capture:]) if part]
    assert all(part == ["replay", *["a"] * result.batch] for part in launches)
    assert device.log.count("capture") == 2  # one launch to see how long it takes, then the batch


def test_a_noisy_task_is_sampled_until_its_ratio_is_known():
    device = FakeDevice()
    rng = np.random.default_rng(0)
    tasks = [
        task("steady", device.work("steady", 1.0), "hot"),
        task("noisy", device.work("noisy", noisy(rng, 2.0)), "hot"),
    ]
    budget = Budget(1e9, 11, 10_000, relative_half_width=0.05)
    steady, restless = sample(device, tasks, budget, seed=0)
    assert 11 < len(restless.samples_ms) < 10_000
    assert restless.summary.half_width_ms <= 0.05 * restless.summary.median_ms
    assert summarise(restless.samples_ms[:-1]).half_width_ms > 0.05 * restless.summary.median_ms
    assert len(steady.samples_ms) == len(
        restless.samples_ms
    )  # it is what the other is held against
    assert (steady.stopped, restless.stopped) == ("narrow", "narrow")


def test_a_drift_that_all_share_leaves_the_ratio_narrow():
    budget = Budget(1e9, 11, 300, relative_half_width=0.01)

    def drifting(factor):
        return (factor * 1.01**i for i in itertools.count())

    def found(names):
        device = FakeDevice()
        tasks = [task(name, device.work(name, drifting(k)), "hot") for name, k in names]
        return sample(device, tasks, budget, seed=0)

    assert [len(each.samples_ms) for each in found([("a", 1), ("b", 2)])] == [11, 11]
    assert [len(each.samples_ms) for each in found([("b", 2)])] == [300]


def test_only_tasks_that_are_compared_wait_for_each_other():
    device = FakeDevice()
    rng = np.random.default_rng(0)
    tasks = [
        task("noisy", device.work("noisy", noisy(rng, 2.0)), "hot", compared_with="hot"),
        task("fast", device.work("fast", 1.0), "hot", compared_with="hot"),
        task("other", device.work("other", 0.5), "hot", compared_with="another question"),
    ]
    restless, fast, other = sample(device, tasks, Budget(1e9, 11, 10_000, 0.05), seed=0)
    assert len(fast.samples_ms) == len(restless.samples_ms) > 11
    assert len(other.samples_ms) == 11


def test_the_fastest_never_takes_more_samples_than_there_may_be():
    device = FakeDevice()
    rng = np.random.default_rng(0)
    tasks = [
        task("a", device.work("a", 1.0), "hot"),
        task("b", device.work("b", noisy(rng, 2.0)), "hot"),
    ]
    found = sample(device, tasks, Budget(1e9, 6, 30, 0.001), seed=0)
    assert [len(each.samples_ms) for each in found] == [30, 30]
    assert {each.stopped for each in found} == {"samples"}


@pytest.mark.parametrize("mode", ["hot", "graph"])
def test_inputs_take_turns_in_every_sample(mode):
    device = FakeDevice()
    works = [device.work(name, 0.01) for name in "abc"]
    (result,) = sample(device, [Task("abc", works, mode)], FIXED, seed=0)
    assert result.batch % 3 == 0
    timed = [part for part in segments(device.log) if len(part) >= result.batch][-8:]
    for part in timed:
        launched = [entry for entry in part if entry in "abc"]
        assert launched == list("abc") * (result.batch // 3)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("hot", ["b", "a", "b", "poison", "a", "b"]),
        ("cold", ["fill", "a", "poison", "a", "b"]),
        ("graph", ["replay", "a", "b", "poison", "replay", "a", "b"]),
    ],
)
def test_answers_are_overwritten_right_before_the_last_launches(mode, expected):
    device = FakeDevice()
    works = [device.work(name, 1.0) for name in "ab"]
    (run,) = take_samples(device, [Task("ab", works, mode)], FIXED, seed=0)
    device.log.clear()
    run.once_more(lambda: device.log.append("poison"))
    assert device.log == expected


@pytest.mark.parametrize("mode", ["hot", "graph"])
@pytest.mark.parametrize("cost_ms", [0.003, 0.5])
def test_extra_work_is_slower_by_just_so_much(mode, cost_ms):
    device = FakeDevice()
    plain = task("a", device.work("a", cost_ms), mode, grain=20)
    slower = task("b", device.work("b", cost_ms), mode, grain=20, extra=3)
    first, second = sample(device, [plain, slower], FIXED, seed=0)
    assert first.batch % 20 == second.batch % 20 == 0
    assert second.summary.median_ms / first.summary.median_ms == pytest.approx(1.15)


class Throttling(FakeDevice):
    """Throttled between two moments of its clock."""

    limits = (0.0, 0.0)

    def throttled_by(self, state):
        low, high = self.limits
        return ("power cap",) if low <= state["clock_ms"] < high else ()


def test_samples_of_a_throttled_block_are_set_aside():
    device = Throttling()
    device.limits = (3 * BLOCK_MS, 7 * BLOCK_MS)
    slowed = lambda: 2.0 if device.throttled_by({"clock_ms": device.clock_ms}) else 1.0  # noqa: E731
    budget = Budget(0.5, min_samples=200, max_samples=1000)
    (result,) = sample(device, [task("a", device.work("a", slowed), "hot")], budget, seed=0)
    assert set(result.samples_ms) == {1.0} and len(result.samples_ms) >= 200
    assert 2.0 in result.throttled_ms
    assert result.throttled_by == ["power cap"]


def test_where_all_samples_were_throttled_there_is_no_time_but_a_reason():
    device = Throttling()
    device.limits = (0.0, 1e12)
    budget = Budget(0.05, min_samples=6, max_samples=1000)
    (result,) = sample(device, [task("a", device.work("a", 1.0), "hot")], budget, seed=0)
    assert (result.samples_ms, result.summary) == ([], None)
    assert 50 < len(result.throttled_ms) < 1000  # it waited, but not for ever
    assert "power cap" in result.nothing_left


class Capped(FakeDevice):
    """At its power cap when it has worked for two seconds without a rest as long as a sample."""

    rested_at_ms = 0.0

    def throttled_by(self, state):
        return ("power cap",) if state["clock_ms"] - self.rested_at_ms > 2e3 else ()

    def rest(self, seconds):
        if seconds >= 1.2:
            self.rested_at_ms = self.clock_ms


def test_after_a_throttled_block_the_device_rests_for_as_long(monkeypatch):
    device = Capped()
    monkeypatch.setattr("gpubench.measure.sampling.time.sleep", device.rest)
    budget = Budget(0.1, min_samples=11, max_samples=100)
    # One sample, with its lead-in, takes 1.2 s: more than the budget's patience of 0.4 s.
    (result,) = sample(device, [task("a", device.work("a", 600.0), "hot")], budget, seed=0)
    assert len(result.samples_ms) + len(result.throttled_ms) == 11
    assert len(result.samples_ms) >= 5 and result.summary.median_ms == 600.0


def test_the_clocks_of_all_blocks_are_reported():
    device = FakeDevice()
    clocks = itertools.chain([1200, 1980, 1500], itertools.repeat(1700))
    device.state = lambda: {"clocks_sm_mhz": next(clocks)}
    budget = Budget(1e9, min_samples=200, max_samples=200)
    (result,) = sample(device, [task("a", device.work("a", 1.0), "hot")], budget, seed=0)
    assert result.clocks_sm_mhz == [1200, 1980]


def test_an_empty_sample_is_measured_in_every_mode():
    device = FakeDevice(bandwidth_gb_s=1e9)
    plain = device.record

    def slow_record():
        device.clock_ms += 0.25
        return plain()

    device.record = slow_record
    found = overhead(device, 7)
    assert {mode: summary.median_ms for mode, summary in found.items()} == {
        "cold": 0.25, "hot": 0.25, "graph": 0.25
    }  # fmt: skip
    assert overhead(FakeDevice(features=frozenset({"opencl"})), 7).keys() == {"cold", "hot"}


def test_the_time_budget_closes_a_task_that_stays_noisy():
    device = FakeDevice()
    rng = np.random.default_rng(0)
    budget = Budget(seconds_per_task=0.1, min_samples=6, max_samples=10_000)
    one = task("a", device.work("a", noisy(rng, 1.0)), "hot")
    (result,) = sample(device, [one], budget, seed=0)
    # 100 ms, of which each sample takes about 1 ms and its lead-in another.
    assert 30 < len(result.samples_ms) < 70


def test_the_flush_counts_as_time_spent():
    flush = 2 * FakeDevice.cache_bytes
    device = FakeDevice(bandwidth_gb_s=flush / 1e6 / 9)  # a flush takes 9 ms
    budget = Budget(seconds_per_task=0.1, min_samples=6, max_samples=10_000)
    costs = itertools.cycle([0.5, 1.5])
    (result,) = sample(device, [task("a", device.work("a", costs), "cold")], budget, seed=0)
    assert 10 <= len(result.samples_ms) <= 11


def test_the_state_is_read_after_the_warm_up_and_after_the_last_sample():
    device = FakeDevice()
    short = task("short", device.work("short", 1.0), "hot")
    (result,) = sample(device, [short], FIXED, seed=0)
    assert 0 < result.state_before["clock_ms"] < result.state_after["clock_ms"]
    assert result.state_after["clock_ms"] == device.clock_ms


def test_progress_counts_each_task_once():
    device = FakeDevice()
    tasks = [task(name, device.work(name, 1.0), "hot") for name in "abc"]
    steps = []
    sample(device, tasks, FIXED, seed=0, on_progress=steps.append)
    assert steps == [1, 1, 1]


@pytest.mark.parametrize("limits", [{"min_samples": 0}, {"max_samples": 5}, {"max_batch": 0}])
def test_a_budget_that_cannot_be_kept_is_refused(limits):
    with pytest.raises(ValueError):
        Budget(**limits)


def test_what_is_far_slower_than_the_fastest_is_left_out_where_that_is_asked_for():
    """By its better launch of two; what is slower by less, or soon done, is sampled."""
    device, disturbed = FakeDevice(), itertools.chain([90.0], itertools.repeat(1.0))
    costs = {"fast": 1.0, "slower": 3.0, "slow": 50.0, "disturbed": disturbed}
    tasks = [task(name, device.work(name, cost), "hot") for name, cost in costs.items()]
    budget = Budget(0.1, 8, 8, max_batch=1, most_over_fastest=4.0)
    runs = take_samples(device, tasks, budget, seed=0)
    assert {run.task.label: len(run.times_ms) for run in runs} == {
        "fast": 8, "slower": 8, "slow": 0, "disturbed": 8
    }  # fmt: skip
    assert runs[2].left_out.startswith("a launch took 50 ms, 50 times as long as that of the")
    assert all(run.times_ms for run in take_samples(device, tasks, FIXED, seed=0))
