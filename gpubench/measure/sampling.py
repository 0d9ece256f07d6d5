"""Sampling: take the times of tasks that are compared, interleaved, until they are known.

The tasks of one call take turns in random order, so that a drift of clocks or temperature
falls on all of them alike. Only device events measure; the host's clock is not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpubench.measure.statistics import Summary, summarise

if TYPE_CHECKING:
    from gpubench.devices.base import Device

Mode = Literal["cold", "hot", "graph"]

SAMPLE_MS = 0.2  # a sample lasts at least this long: some 400 times the resolution of an event
BATCH_MARGIN = 1.25  # aim that much longer, so that jitter does not fall below it
WARM_UP_SHARE = 0.1  # of the budget, spent before the first sample
MIN_SCRATCH_BYTES = 32 << 20  # where a device does not tell the size of its cache


@dataclass(frozen=True)
class Task:
    """Something to time.

    label: a name for people.
    work: queues the launches that are timed, and nothing else.
    mode: `cold`, caches overwritten before each sample; `hot`, the same work just before;
        `graph`, as hot, replayed from a recorded graph without launch gaps.
    launches: how many launches one call of `work` queues; times are of one.
    """

    label: str
    work: Callable[[], None]
    mode: Mode
    launches: int = 1


@dataclass(frozen=True)
class Budget:
    """When to stop sampling a task.

    seconds_per_task: device time, including what makes each sample cold or hot.
    min_samples: taken in any case, also where that costs more time. From 6 on, the interval
        of the median is a true 95 % interval.
    max_samples: never exceeded.
    relative_half_width: narrow enough, as a share of the median.
    max_batch: the most calls of the work in one sample.
    """

    seconds_per_task: float = 0.25
    min_samples: int = 11
    max_samples: int = 200
    relative_half_width: float = 0.01
    max_batch: int = 256

    def __post_init__(self) -> None:
        if not 1 <= self.min_samples <= self.max_samples:
            raise ValueError(f"need 1 <= min_samples <= max_samples: {self}")
        if self.max_batch < 1:
            raise ValueError(f"a batch holds at least one launch: {self}")


@dataclass(frozen=True)
class Sampled:
    """The times of one task.

    samples_ms: time of one launch, each sample its mean over the batch; 6 significant digits.
    batch: launches per sample.
    summary: of exactly these samples.
    state_before, state_after: clocks and the like after the warm-up and after the last
        sample, or None where the device cannot tell.
    """

    samples_ms: list[float]
    batch: int
    summary: Summary
    state_before: dict[str, Any] | None
    state_after: dict[str, Any] | None


def sample(
    device: Device,
    tasks: Sequence[Task],
    budget: Budget,
    seed: int,
    on_progress: Callable[[int], None] | None = None,
) -> list[Sampled]:
    """Time the tasks and return what was measured, in the order of the tasks.

    All are warmed up first. Then each round takes one sample of every task that is still open,
    in an order drawn from `seed`. A task closes when it has `max_samples`; or when it has
    `min_samples` and either the interval of its median is narrow enough or its time is spent.

    on_progress: called with 1 for each task that closes.

    What `work` raises is raised here. Mode `graph` needs the device feature "graphs".
    """
    rng = np.random.default_rng(seed)
    scratch = _scratch(device) if any(task.mode == "cold" for task in tasks) else None
    runs = [_Run(device, task, scratch) for task in tasks]
    for run in runs:
        run.warm_up(budget)
    state_before = device.state()
    still_open = list(runs)
    while still_open:
        for turn in rng.permutation(len(still_open)):
            still_open[turn].take_sample()
        for run in still_open:
            if run.finished(budget):
                run.state_after = device.state()
                if on_progress is not None:
                    on_progress(1)
        still_open = [run for run in still_open if not run.finished(budget)]
    return [
        Sampled(
            run.samples_ms, run.launches, summarise(run.samples_ms), state_before, run.state_after
        )
        for run in runs
    ]


def _scratch(device: Device) -> Any:
    """Allocate what is overwritten before a cold sample: twice the cache, to leave nothing."""
    return device.empty(max(2 * device.cache_bytes, MIN_SCRATCH_BYTES), np.uint8)


class _Run:
    """One task on its way from warm-up to last sample."""

    def __init__(self, device: Device, task: Task, scratch: Any) -> None:
        self.samples_ms: list[float] = []
        self.batch = 1
        self.state_after: dict[str, Any] | None = None
        self._device = device
        self._task = task
        self._scratch = scratch
        self._spent_ms = 0.0
        self._launch_batch = task.work

    def warm_up(self, budget: Budget) -> None:
        """Launch until a share of the budget is spent, and find the batch meanwhile."""
        self._task.work()  # whatever is lazy happens here
        self._device.synchronize()
        self._set_batch(1)
        # The bound on rounds is for work that takes no time at all.
        for _ in range(budget.max_samples):
            elapsed = self._time_batch()
            if self._is_short(elapsed) and self.batch < budget.max_batch:
                self._set_batch(min(budget.max_batch, self._longer_batch(elapsed)))
            elif self._spent_ms >= WARM_UP_SHARE * budget.seconds_per_task * 1e3:
                break
        self._spent_ms = 0.0

    def take_sample(self) -> None:
        """Add one sample."""
        self.samples_ms.append(_six_digits(self._time_batch() / self.launches))

    @property
    def launches(self) -> int:
        """Launches in a sample."""
        return self.batch * self._task.launches

    def finished(self, budget: Budget) -> bool:
        """Return whether the task needs no more samples."""
        if len(self.samples_ms) < budget.min_samples:
            return False
        if len(self.samples_ms) >= budget.max_samples:
            return True
        if self._spent_ms >= budget.seconds_per_task * 1e3:
            return True
        summary = summarise(self.samples_ms)
        return summary.half_width_ms <= budget.relative_half_width * summary.median_ms

    def _is_short(self, elapsed_ms: float) -> bool:
        # A second launch in a batch would find the caches filled by the first.
        return self._task.mode != "cold" and elapsed_ms < SAMPLE_MS

    def _longer_batch(self, elapsed_ms: float) -> int:
        resolution_ms = 1e-6
        per_launch = max(elapsed_ms, resolution_ms) / self.batch
        return max(self.batch + 1, math.ceil(BATCH_MARGIN * SAMPLE_MS / per_launch))

    def _set_batch(self, batch: int) -> None:
        work = self._task.work

        def launch_batch() -> None:
            for _ in range(batch):
                work()

        self.batch = batch
        if self._task.mode == "graph":
            self._launch_batch = self._device.capture(launch_batch).launch
        else:
            self._launch_batch = launch_batch

    def _time_batch(self) -> float:
        """Return the device time of one batch in milliseconds, and charge it to the budget."""
        device = self._device
        before = device.record()
        self._lead_in()
        start = device.record()
        self._launch_batch()
        end = device.record()
        elapsed = device.elapsed_ms(start, end)
        self._spent_ms += device.elapsed_ms(before, end)
        return elapsed

    def _lead_in(self) -> None:
        """Queue what precedes a sample.

        It puts the caches into the state that the mode promises, whichever task ran before,
        and keeps the device busy while the host queues the sample, so that the first launch
        is not timed with its latency.
        """
        if self._task.mode == "cold":
            self._device.fill(self._scratch, 0xFF)
        elif self._task.mode == "hot":
            self._task.work()
        else:
            self._launch_batch()


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
