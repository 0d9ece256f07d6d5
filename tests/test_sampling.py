import itertools
from collections import Counter

import numpy as np
import pytest
from fakes import FakeDevice

from gpubench.measure.sampling import MIN_SCRATCH_BYTES, SAMPLE_MS, Budget, Task, sample
from gpubench.measure.statistics import summarise

# Never narrow, never out of time: every task takes max_samples.
FIXED = Budget(seconds_per_task=1e9, min_samples=8, max_samples=8, max_batch=64)


def segments(log):
    """Split a log at records: what was queued before, between and after pairs of events."""
    return [list(g) for is_record, g in itertools.groupby(log, "record".__eq__) if not is_record]


def noisy(rng, scale):
    return lambda: scale * rng.lognormal(0.0, 0.3)


def test_results_come_in_the_order_of_the_tasks():
    device = FakeDevice()
    tasks = [Task(str(ms), device.work(str(ms), ms), "hot") for ms in (3.0, 1.0, 2.0)]
    medians = [s.summary.median_ms for s in sample(device, tasks, FIXED, seed=0)]
    assert medians == pytest.approx([3.0, 1.0, 2.0])


def test_each_round_samples_every_open_task_once_in_an_order_that_varies():
    device = FakeDevice()
    names = "abcd"
    tasks = [Task(name, device.work(name, 1.0), "hot") for name in names]
    budget = Budget(1e-3, min_samples=8, max_samples=8)  # shortest warm-up
    sample(device, tasks, budget, seed=1)
    # From the end: 8 rounds of 4 samples, each of a lead-in and the timed launch.
    timed = [part[0] for part in segments(device.log)][-8 * 4 * 2 :][1::2]
    rounds = [tuple(timed[i : i + 4]) for i in range(0, len(timed), 4)]
    assert all(sorted(turn) == sorted(names) for turn in rounds)
    assert len(set(rounds)) > 1


def test_the_order_depends_on_the_seed_alone():
    def log(seed):
        device = FakeDevice()
        tasks = [Task(name, device.work(name, 1.0), "hot") for name in "abcd"]
        sample(device, tasks, FIXED, seed)
        return device.log

    assert log(1) == log(1)
    assert log(1) != log(2)


@pytest.mark.parametrize("mode", ["cold", "hot", "graph"])
def test_times_are_of_one_of_the_launches_that_a_task_queues(mode):
    device = FakeDevice()
    task = Task("a", device.work("a", 1.0), mode, launches=2)
    (result,) = sample(device, [task], FIXED, seed=0)
    assert result.samples_ms == [0.5] * 8 and result.summary.median_ms == 0.5
    assert result.batch == 2


@pytest.mark.parametrize("mode", ["hot", "graph"])
@pytest.mark.parametrize("cost_ms", [0.001, 0.01, 0.05, 0.19, 0.5])
def test_short_work_is_batched_until_a_sample_is_long_enough(mode, cost_ms):
    device = FakeDevice()
    budget = Budget(1e9, 8, 8, max_batch=1000)
    (result,) = sample(device, [Task("a", device.work("a", cost_ms), mode)], budget, seed=0)
    assert result.batch * cost_ms >= SAMPLE_MS
    assert (result.batch - 1) * cost_ms <= 1.25 * SAMPLE_MS
    assert result.samples_ms == pytest.approx([cost_ms] * 8)


def test_the_batch_follows_work_that_gets_faster_while_it_warms_up():
    device = FakeDevice()
    costs = itertools.chain([5.0, 5.0, 0.1], itertools.repeat(0.01))
    (result,) = sample(device, [Task("a", device.work("a", costs), "hot")], FIXED, seed=0)
    assert result.batch * 0.01 >= SAMPLE_MS


@pytest.mark.parametrize("mode", ["hot", "graph"])
def test_the_batch_has_an_upper_bound_even_for_work_that_takes_no_time(mode):
    device = FakeDevice()
    (result,) = sample(device, [Task("a", device.work("a", 0.0), mode)], FIXED, seed=0)
    assert result.batch == FIXED.max_batch
    assert result.samples_ms == [0.0] * 8


def test_cold_samples_are_single_and_follow_a_flush_outside_the_timed_region():
    device = FakeDevice(cache_bytes=MIN_SCRATCH_BYTES)
    (result,) = sample(device, [Task("a", device.work("a", 0.01), "cold")], FIXED, seed=0)
    assert result.batch == 1
    assert result.samples_ms == pytest.approx([0.01] * 8)
    assert set(device.filled_bytes) == {2 * MIN_SCRATCH_BYTES}
    # First launch and synchronize, then always: record, fill, record, launch, record.
    assert segments(device.log)[1:] == [["fill"], ["a"]] * len(device.filled_bytes)


def test_cold_tasks_share_one_scratch_buffer_and_hot_tasks_need_none():
    device = FakeDevice()
    made = []
    device.empty = lambda shape, dtype: made.append(shape) or np.empty(shape, dtype)
    tasks = [Task(name, device.work(name, 1.0), "cold") for name in "ab"]
    sample(device, tasks, FIXED, seed=0)
    assert len(made) == 1
    sample(device, [Task("a", device.work("a", 1.0), "hot")], FIXED, seed=0)
    assert len(made) == 1


def test_a_hot_sample_follows_the_same_work_untimed():
    device = FakeDevice()
    tasks = [Task(name, device.work(name, 1.0), "hot") for name in "ab"]
    sample(device, tasks, FIXED, seed=3)
    parts = segments([entry for entry in device.log if entry != "synchronize"])
    lead_ins, timed = (parts[-8 * 2 * 2 :][first::2] for first in (0, 1))
    assert lead_ins == timed
    assert Counter(map(tuple, timed)) == {("a",): 8, ("b",): 8}


def test_a_graph_is_captured_before_sampling_and_replayed_for_each_sample():
    device = FakeDevice()
    (result,) = sample(device, [Task("a", device.work("a", 0.05), "graph")], FIXED, seed=0)
    last_capture = len(device.log) - device.log[::-1].index("capture")
    launches = [part for part in segments(device.log[last_capture:]) if part]
    assert all(part == ["replay", *["a"] * result.batch] for part in launches)
    assert device.log.count("capture") == 2  # one launch to see how long it takes, then the batch


def test_a_steady_task_closes_with_the_least_samples():
    device = FakeDevice()
    (result,) = sample(device, [Task("a", device.work("a", 1.0), "hot")], Budget(), seed=0)
    assert len(result.samples_ms) == Budget().min_samples


def test_a_noisy_task_goes_on_until_its_median_is_known():
    device = FakeDevice()
    rng = np.random.default_rng(0)
    tasks = [
        Task("steady", device.work("steady", 1.0), "hot"),
        Task("noisy", device.work("noisy", noisy(rng, 1.0)), "hot"),
    ]
    budget = Budget(1e9, 11, 10_000, relative_half_width=0.05)
    steady, restless = sample(device, tasks, budget, seed=0)
    assert len(steady.samples_ms) == 11 < len(restless.samples_ms) < 10_000
    assert restless.summary.half_width_ms <= 0.05 * restless.summary.median_ms
    assert summarise(restless.samples_ms[:-1]).half_width_ms > 0.05 * restless.summary.median_ms


def test_the_time_budget_closes_a_task_that_stays_noisy():
    device = FakeDevice()
    rng = np.random.default_rng(0)
    budget = Budget(seconds_per_task=0.1, min_samples=6, max_samples=10_000)
    task = Task("a", device.work("a", noisy(rng, 1.0)), "hot")
    (result,) = sample(device, [task], budget, seed=0)
    # 100 ms, of which each sample takes about 1 ms and its lead-in another.
    assert 30 < len(result.samples_ms) < 70


def test_the_flush_counts_as_time_spent():
    device = FakeDevice(bandwidth_gb_s=MIN_SCRATCH_BYTES / 1e6 / 9)  # a flush takes 9 ms
    budget = Budget(seconds_per_task=0.1, min_samples=6, max_samples=10_000)
    costs = itertools.cycle([0.5, 1.5])
    (result,) = sample(device, [Task("a", device.work("a", costs), "cold")], budget, seed=0)
    assert 10 <= len(result.samples_ms) <= 11


def test_the_least_number_of_samples_is_taken_whatever_it_costs():
    device = FakeDevice()
    costs = itertools.cycle([50.0, 100.0, 75.0])
    budget = Budget(seconds_per_task=0.01, min_samples=7, max_samples=50)
    (result,) = sample(device, [Task("a", device.work("a", costs), "hot")], budget, seed=0)
    assert len(result.samples_ms) == 7


def test_the_summary_is_of_the_samples_kept_and_those_have_six_digits():
    device = FakeDevice()
    rng = np.random.default_rng(0)
    (result,) = sample(device, [Task("a", device.work("a", noisy(rng, 1)), "hot")], FIXED, seed=0)
    assert result.summary == summarise(result.samples_ms)
    assert result.samples_ms == [float(f"{v:.6g}") for v in result.samples_ms]
    assert len(set(result.samples_ms)) == 8


def test_the_state_is_read_after_the_warm_up_and_after_the_last_sample():
    device = FakeDevice()
    short = Task("short", device.work("short", 1.0), "hot")
    (result,) = sample(device, [short], FIXED, seed=0)
    assert 0 < result.state_before["clock_ms"] < result.state_after["clock_ms"]
    assert result.state_after["clock_ms"] == device.clock_ms


def test_progress_counts_each_task_once():
    device = FakeDevice()
    tasks = [Task(name, device.work(name, 1.0), "hot") for name in "abc"]
    steps = []
    sample(device, tasks, FIXED, seed=0, on_progress=steps.append)
    assert steps == [1, 1, 1]


def test_no_tasks_give_no_results():
    assert sample(FakeDevice(), [], FIXED, seed=0) == []


@pytest.mark.parametrize("launches_before", [0, 1, 50])
def test_what_work_raises_is_raised(launches_before):
    device = FakeDevice()
    calls = Counter()

    def work():
        if calls["a"] == launches_before:
            raise RuntimeError("out of resources")
        calls["a"] += 1
        device.clock_ms += 1.0

    budget = Budget(1e9, 100, 100)
    with pytest.raises(RuntimeError, match="out of resources"):
        sample(device, [Task("a", work, "hot")], budget, seed=0)


@pytest.mark.parametrize("limits", [{"min_samples": 0}, {"max_samples": 5}, {"max_batch": 0}])
def test_a_budget_that_cannot_be_kept_is_refused(limits):
    with pytest.raises(ValueError):
        Budget(**limits)
