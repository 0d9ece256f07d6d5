"""The time of each phase of a simulation step, by device events between them."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpubench.devices.base import Device
    from gpubench.workloads.workload import Workload


@dataclass(frozen=True)
class PhaseTime:
    """How long a phase takes in a step, in milliseconds.

    median_ms: of the steps. mean_ms: also counts a phase that only some steps have, such as
    making lists of neighbours anew; the means of all phases add up to a step.
    """

    median_ms: float
    mean_ms: float


def phase_times(workload: Workload, repeats: int) -> dict[str, PhaseTime]:
    """Time the phases of that many steps, in the order in which they first appear.

    Launches of one name in a step add up. The simulation goes on by one step more than are
    counted: all are queued before the first event is read, and the one in front keeps the device
    busy meanwhile. Raises ValueError for no repeats.
    """
    if repeats < 1:
        raise ValueError(f"phases are timed over at least one step, not {repeats}")
    _queue_step(workload)
    steps = [_queue_step(workload) for _ in range(repeats)]
    times: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * repeats)
    for index, marks in enumerate(steps):
        for name, elapsed_ms in _between(workload.device, marks):
            times[name][index] += elapsed_ms
    return {
        name: PhaseTime(_six_digits(statistics.median(each)), _six_digits(statistics.fmean(each)))
        for name, each in times.items()
    }


def _queue_step(workload: Workload) -> list[tuple[str, Any]]:
    """Queue a step; return an event of its beginning, and one after each launch with its name."""
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


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
