"""The time of each phase of a simulation step, from device events recorded between phases."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpubench.measure import clock
from gpubench.measure.statistics import six_digits

if TYPE_CHECKING:
    from gpubench.core.algorithm import Algorithm
    from gpubench.devices.base import Device

LEVEL_REPEATS = 20
SCRATCH_BYTES = 256 << 20  # size of a fill that keeps the device busy
LEAD = 2.0  # keep the device busy for this multiple of the host's time to queue the steps
MOST_FILLS = 100


@dataclass(frozen=True)
class PhaseTime:
    """The time of a phase per step, in milliseconds.

    median_ms, mean_ms: over all steps. The mean is also meaningful for phases that only some steps
    have, such as rebuilding neighbour lists; the means of all phases add up to the mean step time.
    """

    median_ms: float
    mean_ms: float

    @classmethod
    def of(cls, times_ms: Sequence[float]) -> PhaseTime:
        """Summarise the times of a phase in several steps."""
        return cls(six_digits(statistics.median(times_ms)), six_digits(statistics.fmean(times_ms)))


class Phased(Protocol):
    """An object with named launches that can be queued one by one: a simulation or a traversal."""

    device: Device

    def phases(self) -> Sequence[tuple[str, Callable[[], None]]]:
        """Return the launches of a step in order, each with its name."""


class Painting(Protocol):
    """An object that draws a picture on its device."""

    device: Device

    def paint(self) -> None:
        """Queue drawing the picture."""


@dataclass
class _Steps:
    device: Device
    named: list[tuple[str, Callable[[], None]]]

    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        return self.named


def level_times(algorithm: Algorithm) -> tuple[dict[str, float], list[float]]:
    """Return the median ms of each named step of a launch, and the median ms of each level."""
    steps = algorithm.level_steps()
    kinds, levels = (
        phase_times(_Steps(algorithm.device, named), LEVEL_REPEATS) if named else {}
        for named in (
            [(what, queue) for _, what, queue in steps],
            [(str(level), queue) for level, _, queue in steps],
        )
    )
    return (
        {name: time.median_ms for name, time in kinds.items()},
        [time.median_ms for time in levels.values()],
    )


def phase_times(workload: Phased, repeats: int) -> dict[str, PhaseTime]:
    """Time the phases of `repeats` steps; return their times in order of first appearance.

    Times of launches with the same name are added within a step. So that no phase waits for the
    host, all work is queued before any event is read: fills that keep the device busy, one untimed
    step that brings the caches into their usual state, and all timed steps. The simulation advances
    by `repeats` + 3 steps. Raises ValueError if `repeats` is less than 1.
    """
    if repeats < 1:
        raise ValueError(f"phases are timed over at least one step, not {repeats}")
    _keep_busy(workload, repeats + 1)
    _queue_step(workload)
    steps = [_queue_step(workload) for _ in range(repeats)]
    times: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * repeats)
    for index, marks in enumerate(steps):
        for name, elapsed_ms in _between(workload.device, marks):
            times[name][index] += elapsed_ms
    return {name: PhaseTime.of(each) for name, each in times.items()}


def picture_time(workload: Painting, repeats: int) -> PhaseTime:
    """Time drawing `repeats` pictures on the device in sequence."""
    device = workload.device
    workload.paint()  # lazy initialization happens here
    device.synchronize()
    marks = _queue_step(_Steps(device, [("", workload.paint)] * repeats))
    return PhaseTime.of([elapsed_ms for _, elapsed_ms in _between(device, marks)])


def _keep_busy(workload: Phased, steps: int) -> None:
    """Queue fills of memory that take longer than the host needs to queue the steps."""
    device = workload.device
    _queue_step(workload)  # lazy initialization happens here
    device.synchronize()
    begin = clock.now()
    _queue_step(workload)
    queueing_ms = 1e3 * (clock.now() - begin) * steps
    scratch = device.empty(SCRATCH_BYTES, np.uint8)
    start = device.record()
    device.fill(scratch, 0xFF)
    fill_ms = max(device.elapsed_ms(start, device.record()), 1e-6)
    for _ in range(min(MOST_FILLS, math.ceil(LEAD * queueing_ms / fill_ms))):
        device.fill(scratch, 0xFF)


def _queue_step(workload: Phased) -> list[tuple[str, Any]]:
    """Queue a step; return an event at its start, and one after each launch with its name."""
    marks = [("", workload.device.record())]
    for name, launch in workload.phases():
        launch()
        marks.append((name, workload.device.record()))
    return marks


def _between(device: Device, marks: list[tuple[str, Any]]) -> list[tuple[str, float]]:
    return [
        (name, device.elapsed_ms(start, end))
        for (_, start), (name, end) in itertools.pairwise(marks)
    ]
