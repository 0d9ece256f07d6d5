"""Sampling: time several tasks, interleaved, until their times are precise enough to compare.

The tasks of one call take turns in random order, so that a drift of clocks or temperature affects
all of them alike. Times come from device events only, never from the host's clock.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpubench.measure.budget import Budget as Budget
from gpubench.measure.budget import Mode as Mode
from gpubench.measure.statistics import Summary, remarks_on, six_digits, summarise

if TYPE_CHECKING:
    from gpubench.devices.base import Device

Work = Callable[[], None]

SAMPLE_MS = 0.2  # a sample lasts at least this long: about 400 times the resolution of an event
RESOLUTION_MS = 1e-6  # lower bound on times used as divisors
BATCH_MARGIN = 1.25  # target batch time / SAMPLE_MS; despite jitter, batches must last SAMPLE_MS
WARM_UP_SHARE = 0.1  # fraction of the time budget spent before the first sample
MIN_SCRATCH_BYTES = 32 << 20  # for devices that do not report their cache size
BLOCK_MS = 50.0  # device time between readings of clocks and throttling
TIME_PATIENCE = 4.0  # factor by which a task may exceed its time to get unthrottled samples


@dataclass(frozen=True)
class Task:
    """A task to time.

    label: its display name.
    works: functions that queue the timed launches, and nothing else. They do the same work on
        separate inputs and take turns, so that none finds its own data in the cache.
    mode: `cold`: caches are overwritten before each sample; `hot`: the same kind of work runs just
        before it; `graph`: like `hot`, but replayed from a recorded graph without launch gaps.
    launches: number of launches queued by one call of a work; times are per launch.
    compared_with: label of a comparison; tasks with equal labels are compared with each other.
    grain, extra: a batch has a multiple of `grain` counted calls, and for each `grain` of them,
        `extra` uncounted calls: an artificial slow-down by extra / grain.
    """

    label: str
    works: Sequence[Work]
    mode: Mode
    launches: int = 1
    compared_with: str = ""
    grain: int = 1
    extra: int = 0


@dataclass(frozen=True)
class Sampled:
    """The times of one task.

    samples_ms: time per launch, averaged over a batch, for each sample; 6 significant digits.
    batch: launches per sample.
    summary: median and interval of samples_ms; None if the device was throttled throughout.
    throttled_ms: samples taken while the device was throttled, which are ignored.
    throttled_by: the reasons for throttling, in words.
    remarks: unusual features of the samples, in words: drift, bimodal.
    stopped: why sampling stopped: "narrow" interval, "time" budget spent, or maximum number of
        "samples" reached.
    state_before, state_after: clocks and other state after the warm-up and after the last sample,
        or None if the device does not report it.
    clocks_sm_mhz: lowest and highest clock read around blocks of samples, or None.
    """

    samples_ms: list[float]
    batch: int
    summary: Summary | None
    throttled_ms: list[float]
    throttled_by: list[str]
    remarks: list[str]
    stopped: str
    state_before: dict[str, Any] | None
    state_after: dict[str, Any] | None
    clocks_sm_mhz: list[int] | None

    @property
    def nothing_left(self) -> str:
        """A message that explains why there are no valid samples, with a remedy."""
        return (
            f"all {len(self.throttled_ms)} samples were taken while the device was throttled"
            f" ({', '.join(self.throttled_by)}): let it cool down, or lock its clocks lower"
        )


def sample(
    device: Device,
    tasks: Sequence[Task],
    budget: Budget,
    seed: int,
    on_progress: Callable[[int], None] | None = None,
) -> list[Sampled]:
    """Time the tasks by `take_samples`; return their measurements in the same order."""
    return [run.sampled() for run in take_samples(device, tasks, budget, seed, on_progress)]


def take_samples(
    device: Device,
    tasks: Sequence[Task],
    budget: Budget,
    seed: int,
    on_progress: Callable[[int], None] | None = None,
) -> list[Run]:
    """Time the tasks; return a Run with the samples of each task, in the same order.

    Tasks that are too slow (see Budget) are left out: their runs have no samples. The others are
    warmed up. Then each round takes one sample of every unfinished task, in random order from
    `seed`. A task finishes when it has `max_samples`; or when it has `min_samples` and either its
    time is spent or the interval of its ratio to the fastest task of its comparison is narrow
    enough. That fastest task continues until all others of the comparison have finished. For a task
    that is compared with no other, the interval is that of its own median.

    Clocks and throttling are read before and after each block of rounds; if the device was
    throttled, the samples of that block are set aside, and the device rests before the next.

    on_progress: called with 1 for each task that finishes.

    Exceptions of a work propagate. Mode `graph` needs the device feature "graphs".
    """
    rng = np.random.default_rng(seed)
    scratch = scratch_for(device, tasks)
    runs = [Run(device, task, scratch) for task in tasks]
    for run in runs:
        run.launch_first()
    for run in runs:
        if run.seems_too_slow(budget, runs):
            run.launch_first()  # other work may have disturbed the caches
    compared = [run for run in runs if not run.seems_too_slow(budget, runs)]
    for run in compared:
        run.warm_up(budget)
    block = Rounds(device)
    for run in compared:
        run.states.append(block.state)
    still_open = compared
    while still_open:
        for turn in rng.permutation(len(still_open)):
            block.spent_ms += still_open[turn].take_sample()
        if block.spent_ms < BLOCK_MS and not _closing(still_open, compared, budget):
            continue
        throttled_by = block.end()
        for run in still_open:
            run.end_block(throttled_by, block.state)
        for run, why in _closing(still_open, compared, budget):
            run.stopped = why
            if on_progress is not None:
                on_progress(1)
        still_open = [run for run in still_open if not run.stopped]
    return runs


def overhead(device: Device, samples: int) -> dict[Mode, Summary]:
    """Time empty samples in each mode of the device, to measure the overhead of a sample.

    samples: number of samples per mode, each a single call that launches nothing.
    """
    modes: tuple[Mode, ...] = ("cold", "hot")
    if "graphs" in device.features:
        modes += ("graph",)
    budget = Budget(0.01, samples, samples, max_batch=1)
    tasks = [Task(f"nothing {mode}", [lambda: None], mode) for mode in modes]
    found = sample(device, tasks, budget, seed=0)
    return {mode: each.summary for mode, each in zip(modes, found, strict=True) if each.summary}


def scratch_for(device: Device, tasks: Sequence[Task]) -> Any:
    """Allocate the array that is overwritten before a cold sample; None if no task is cold.

    The array is twice as large as the cache, to evict everything else.
    """
    if not any(task.mode == "cold" for task in tasks):
        return None
    return device.empty(max(2 * device.cache_bytes, MIN_SCRATCH_BYTES), np.uint8)


def _closing(
    still_open: Sequence[Run], runs: Sequence[Run], budget: Budget
) -> list[tuple[Run, str]]:
    """Return the tasks that need no more samples, each with the reason.

    The fastest task of a comparison continues until the others have finished.
    """
    closing: list[tuple[Run, str]] = []
    for name in {run.task.compared_with for run in still_open}:
        compared = [run for run in runs if run.task.compared_with == name]
        fastest = min(compared, key=Run.median_ms)
        others = [run for run in compared if run is not fastest]
        reasons = [(run, run.stopped or run.enough(budget, fastest)) for run in others]
        closing += [(run, why) for run, why in reasons if why and not run.stopped]
        if fastest.stopped:
            continue
        why = fastest.enough(budget, None)
        if others and why != "samples":
            missing = [why for _, why in reasons if why != "narrow"]
            why = missing[0] if missing else "narrow"
        if why:
            closing.append((fastest, why))
    return closing


class Rounds:
    """A block of rounds between two readings of the device's clocks and throttling."""

    def __init__(self, device: Device) -> None:
        self.state = device.state()
        self.spent_ms = 0.0
        self._device = device

    def end(self) -> list[str]:
        """End this block and start the next; return the reasons for throttling, if any."""
        before, self.state = self.state, self._device.state()
        by = {*self._device.throttled_by(before), *self._device.throttled_by(self.state)}
        if by:  # rest for as long as the block took: a power cap is on the mean of some seconds
            time.sleep(1e-3 * self.spent_ms)
            self.state = self._device.state()
        self.spent_ms = 0.0
        return sorted(by)


class Run:
    """The state of a task during sampling, from its warm-up to its last sample.

    times_ms: all samples so far; throttled: whether the device was throttled during each.
    throttled_by: the reasons for throttling.
    states: states of the device, before the first block and after each block.
    batch: counted calls of the works in a sample.
    stopped: why sampling stopped; empty while it continues.
    left_out: why the task was left out, with no samples at all; empty if it was not.
    launch_batch: queues what a sample times.
    """

    def __init__(self, device: Device, task: Task, scratch: Any = None) -> None:
        self.task = task
        self.times_ms: list[float] = []
        self.throttled: list[bool] = []
        self.throttled_by: set[str] = set()
        self.states: list[dict[str, Any] | None] = []
        self.stopped = self.left_out = ""
        self._first_ms = math.inf
        self._device = device
        self._scratch = scratch
        self._spent_ms = 0.0
        self._judged = 0
        self._turns = itertools.cycle(task.works)
        self.batch = 1
        self.launch_batch: Work = task.works[0]

    def launch_first(self) -> None:
        """Launch each work once to trigger lazy initialization; record the mean duration."""
        start = self._device.record()
        for work in self.task.works:
            work()
        self._device.synchronize()
        elapsed = self._device.elapsed_ms(start, self._device.record()) / len(self.task.works)
        self._first_ms = min(self._first_ms, elapsed)

    def seems_too_slow(self, budget: Budget, runs: Sequence[Run]) -> bool:
        """Whether this task is too slow to be worth sampling; sets `left_out` to the reason."""
        together = (run for run in runs if run.task.compared_with == self.task.compared_with)
        over = self._first_ms / max(min(run._first_ms for run in together), RESOLUTION_MS)
        # Twice: each sample is preceded by a lead-in launch.
        least_ms = 2 * budget.min_samples * self._first_ms
        is_long = least_ms > TIME_PATIENCE * 1e3 * budget.seconds_per_task
        self.left_out = ""
        if is_long and over > budget.most_over_fastest:
            took = f"{self._first_ms:.3g} ms, {over:.3g} times as long as that of the fastest"
            self.left_out = f"a launch took {took}: it was not timed further"
        return bool(self.left_out)

    def warm_up(self, budget: Budget) -> None:
        """Launch until the warm-up's part of the budget is spent; choose the batch size."""
        self._set_batch(1)
        # The number of rounds is bounded for work that takes no measurable time.
        for _ in range(budget.max_samples):
            elapsed = self._time_batch()
            # A cold batch holds one call: a second one would find the caches filled by the first.
            is_short = self.task.mode != "cold" and elapsed < SAMPLE_MS
            if is_short and self.batch < budget.max_batch:
                per_launch = max(elapsed, RESOLUTION_MS) / self.batch
                longer = max(self.batch + 1, math.ceil(BATCH_MARGIN * SAMPLE_MS / per_launch))
                self._set_batch(min(budget.max_batch, longer))
            elif self._spent_ms >= WARM_UP_SHARE * budget.seconds_per_task * 1e3:
                break
        self._spent_ms = 0.0

    def take_sample(self) -> float:
        """Add one sample; return its cost in ms of device time, including the lead-in."""
        spent_ms = self._spent_ms
        self.times_ms.append(six_digits(self._time_batch() / self.launches))
        self.throttled.append(False)
        return self._spent_ms - spent_ms

    def once_more(self, poison: Work) -> None:
        """Run the timed launches again, untimed, after `poison` has overwritten the answers.

        In mode `graph`, the timed graph itself is replayed, after a lead-in replay. In other modes,
        a whole sample is repeated first, then the answers are overwritten and each work runs once.
        """
        self._lead_in()
        if self.task.mode == "graph":
            poison()
            self.launch_batch()
            return
        self.launch_batch()
        poison()
        for work in self.task.works:
            work()

    def end_block(self, throttled_by: Sequence[str], state: dict[str, Any] | None) -> None:
        """Record the device's state after a block; if throttled, mark the block's samples."""
        self.states.append(state)
        if throttled_by:
            self.throttled_by.update(throttled_by)
            for index in range(self._judged, len(self.throttled)):
                self.throttled[index] = True
        self._judged = len(self.throttled)

    @property
    def launches(self) -> int:
        """Number of counted launches in a sample."""
        return self.batch * self.task.launches

    @property
    def samples_ms(self) -> list[float]:
        """The valid samples: those without throttling."""
        return [t for t, is_out in zip(self.times_ms, self.throttled, strict=True) if not is_out]

    def median_ms(self) -> float:
        """Return the median of the valid samples; infinity if there are none yet."""
        samples_ms = self.samples_ms
        return statistics.median(samples_ms) if samples_ms else math.inf

    def enough(self, budget: Budget, fastest: Run | None) -> str:
        """Return the reason to stop sampling, or an empty string to continue.

        fastest: the fastest task of the comparison; None if this task is the fastest.
        """
        if len(self.times_ms) >= budget.max_samples:
            return "samples"
        counted, patience = len(self.samples_ms), 1.0
        if counted < budget.min_samples:
            if len(self.times_ms) < budget.min_samples or counted == len(self.times_ms):
                return ""
            patience = TIME_PATIENCE
        if self._spent_ms >= patience * budget.seconds_per_task * 1e3:
            return "time"
        if counted < budget.min_samples:
            return ""
        ratios = self._ratios(fastest) if fastest is not None else []
        summary = summarise(ratios if len(ratios) >= budget.min_samples else self.samples_ms)
        is_narrow = summary.half_width_ms <= budget.relative_half_width * summary.median_ms
        return "narrow" if is_narrow else ""

    def sampled(self) -> Sampled:
        """Return the measurement."""
        samples_ms = self.samples_ms
        clocks = [s["clocks_sm_mhz"] for s in self.states if s and s.get("clocks_sm_mhz")]
        return Sampled(
            samples_ms=samples_ms,
            batch=self.launches,
            summary=summarise(samples_ms) if samples_ms else None,
            throttled_ms=[
                t for t, is_out in zip(self.times_ms, self.throttled, strict=True) if is_out
            ],
            throttled_by=sorted(self.throttled_by),
            remarks=remarks_on(samples_ms),
            stopped=self.stopped,
            state_before=self.states[0],
            state_after=self.states[-1],
            clocks_sm_mhz=[min(clocks), max(clocks)] if clocks else None,
        )

    def _ratios(self, fastest: Run) -> list[float]:
        """Return the ratios of our samples to those of `fastest`, where both are valid."""
        rounds = zip(
            self.times_ms, self.throttled, fastest.times_ms, fastest.throttled, strict=False
        )
        return [
            mine / its
            for mine, mine_is_out, its, its_is_out in rounds
            if not mine_is_out and not its_is_out and its > 0
        ]

    def _set_batch(self, least: int) -> None:
        """Set the batch to `least` calls, rounded up to a multiple of `grain` and len(works).

        A cold sample always has one call; successive samples cycle through the works.
        """
        task = self.task
        if task.mode == "cold":
            self.batch = 1
            self.launch_batch = lambda: next(self._turns)()
            return
        multiple = math.lcm(len(task.works), task.grain)
        self.batch = multiple * math.ceil(least / multiple)
        calls = self.batch + self.batch // task.grain * task.extra
        queue = [work for work, _ in zip(itertools.cycle(task.works), range(calls), strict=False)]

        def launch_batch() -> None:
            for work in queue:
                work()

        if task.mode == "graph":
            self.launch_batch = self._device.capture(launch_batch).launch
        else:
            self.launch_batch = launch_batch

    def _time_batch(self) -> float:
        """Return the device time of one batch in milliseconds, and charge it to the budget."""
        device = self._device
        before = device.record()
        self._lead_in()
        start = device.record()
        self.launch_batch()
        end = device.record()
        elapsed = device.elapsed_ms(start, end)
        self._spent_ms += device.elapsed_ms(before, end)
        return elapsed

    def _lead_in(self) -> None:
        """Queue untimed work before a sample.

        This work puts the caches into the state that the mode requires, whichever task ran before.
        It also keeps the device busy while the host queues the sample, so that the latency of the
        first launch is not timed.
        """
        if self.task.mode == "cold":
            self._device.fill(self._scratch, 0xFF)
        elif self.task.mode == "hot":
            self.task.works[-1]()
        else:
            self.launch_batch()
