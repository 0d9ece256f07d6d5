"""Energy of a launch: the GPU's own counter, read around loops of seconds.

The counter covers the whole GPU, memory included, whether it works or idles. It moves only every
some milliseconds, which widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gpubench.measure.clock import now
from gpubench.measure.statistics import six_digits

if TYPE_CHECKING:
    from gpubench.devices.base import Device

LOOP_S, LOOPS = 2.0, 3
QUEUED_MS = 50.0  # work queued before the host waits for the device
REFUSAL = "no energy: NVML reads no energy counter of this device"


class Idle(NamedTuple):
    """What an idle device takes, and how often its counter moves, in seconds."""

    watts: float
    update_s: float


def idle(device: Device, seconds: float = LOOP_S) -> Idle | None:
    """Watch the counter of an idle device; None where it cannot be read or does not move."""
    device.synchronize()
    begin, last = now(), device.energy_j()
    moves: list[tuple[float, float]] = []
    while last is not None and (at := now()) - begin < seconds:
        reading = device.energy_j()
        if reading is not None and reading != last:
            moves.append((at, reading))
            last = reading
    if len(moves) < 2:
        return None
    (start, first), (end, final) = moves[0], moves[-1]
    return Idle((final - first) / (end - start), (end - start) / (len(moves) - 1))


def energy_of(
    device: Device,
    launch: Callable[[], None],
    launches: int,
    launch_ms: float,
    size: int,
    resting: Idle,
    loop_s: float = LOOP_S,
) -> dict[str, float]:
    """Return the joules that 10^6 items take in a launch: mean, and an interval that holds it.

    launch: queues `launches` launches of `launch_ms` each on `size` items. The interval spans LOOPS
    loops, widened by what the counter may lag by at both ends. Idle power is included.
    """
    at_once = max(1, math.ceil(QUEUED_MS / (launches * max(launch_ms, 1e-6))))
    loops = []
    for _ in range(LOOPS):
        device.synchronize()
        begin, before, done = now(), device.energy_j() or 0.0, 0
        while (passed := now() - begin) < loop_s:
            for _ in range(at_once):
                launch()
            device.synchronize()
            done += at_once * launches
        passed = now() - begin
        loops.append(((device.energy_j() or 0.0) - before, passed, done))
    scale = 1e6 / size
    each = [scale * joules / done for joules, _, done in loops]
    lag = max(scale * joules / passed * resting.update_s / done for joules, passed, done in loops)
    found = {
        "joules_per_million": sum(each) / LOOPS,
        "low": max(0.0, min(each) - lag),
        "high": max(each) + lag,
        "watts": sum(joules for joules, _, _ in loops) / sum(passed for _, passed, _ in loops),
        "idle_watts": resting.watts,
        "update_s": resting.update_s,
        "loop_s": min(passed for _, passed, _ in loops),
    }
    return {name: six_digits(value) for name, value in found.items()}
