"""The phases of a step, each timed by the device events around it."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpubench.measure import clock
from gpubench.measure.sampling import MIN_SCRATCH_BYTES

if TYPE_CHECKING:
    from gpubench.devices.base import Device

Phases = Sequence[tuple[str, Callable[[], None]]]

LEAD = 2.0  # the lead-in lasts that many times as long as the host needs to queue all phases
MOST_FILLS = 40  # in a lead-in


def phase_times(device: Device, phases: Phases, repeats: int = 10) -> dict[str, float]:
    """Return the device time of each phase in milliseconds, by name, in the order of the phases.

    phases: launches in their order, each under the name of its phase. Those of one name add up.
    repeats: how often all are run and timed; a time is the median over that.

    Before each repetition the device is kept busy, so that no phase waits for the host to queue
    it, then all phases run once untimed, so that each finds the caches as the one before leaves
    them. Raises ValueError for no repeats.
    """
    if repeats < 1:
        raise ValueError(f"phases are timed over at least one repetition, not {repeats}")
    scratch = device.empty(MIN_SCRATCH_BYTES, np.uint8)
    fills = _fills(device, phases, scratch)
    times: dict[str, list[float]] = {name: [0.0] * repeats for name, _ in phases}
    for repeat in range(repeats):
        for _ in range(fills):
            device.fill(scratch, 0xFF)
        _launch(phases)
        events = [device.record()]
        for _, launch in phases:
            launch()
            events.append(device.record())
        for (name, _), (start, end) in zip(phases, itertools.pairwise(events), strict=True):
            times[name][repeat] += device.elapsed_ms(start, end)
    return {name: float(f"{statistics.median(each):.6g}") for name, each in times.items()}


def _fills(device: Device, phases: Phases, scratch: Any) -> int:
    """Return how many fills keep the device busy for as long as the host queues the phases."""
    _launch(phases)  # whatever is lazy happens here
    device.synchronize()
    begin = clock.now()
    _launch(phases)
    queueing_ms = 1e3 * (clock.now() - begin)
    start = device.record()
    device.fill(scratch, 0xFF)
    fill_ms = device.elapsed_ms(start, device.record())
    return min(MOST_FILLS, math.ceil(LEAD * queueing_ms / fill_ms)) if fill_ms > 0 else MOST_FILLS


def _launch(phases: Phases) -> None:
    for _, launch in phases:
        launch()
