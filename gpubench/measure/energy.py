"""Energy of a launch: the GPU's own counter, read around loops of seconds.

The counter covers the whole GPU with its memory, busy or idle, and moves in steps.
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


def idle(device: Device) -> Idle | None:
    """Watch the counter of an idle device; None where it cannot be read or does not move."""
    device.synchronize()
    begin, last = now(), device.energy_j()
    moves: list[tuple[float, float]] = []
    while last is not None and (at := now()) - begin < LOOP_S:
        if (reading := device.energy_j()) not in (None, last):
            moves.append((at, reading or 0.0))
            last = reading
    if len(moves) < 2:
        return None
    (start, first), (end, final) = moves[0], moves[-1]
    return Idle((final - first) / (end - start), (end - start) / (len(moves) - 1))


def energy_of(
    device: Device, launch: Callable[[], None], launches: int, ms: float, size: int, resting: Idle
) -> dict[str, float]:
    """Return the joules that 10^6 items take in a launch: mean, and an interval that holds it.

    launch: queues `launches` launches of `ms` each on `size` items. The interval spans LOOPS loops,
    widened by what the counter may lag by at both ends. Idle power is included.
    """
    at_once = max(1, math.ceil(QUEUED_MS / (launches * max(ms, 1e-6))))
    loops = []
    for _ in range(LOOPS):
        device.synchronize()
        begin, before, done = now(), device.energy_j() or 0.0, 0
        while (passed := now() - begin) < LOOP_S:
            for _ in range(at_once):
                launch()
            device.synchronize()
            done += at_once * launches
        loops.append(((device.energy_j() or 0.0) - before, passed, done * size / 1e6))
    each = [joules / millions for joules, _, millions in loops]
    watts = sum(joules for joules, _, _ in loops) / sum(passed for _, passed, _ in loops)
    lag = watts * resting.update_s / min(millions for _, _, millions in loops)
    found = {
        "joules_per_million": sum(each) / LOOPS, "low": max(0.0, min(each) - lag),
        "high": max(each) + lag, "watts": watts, "idle_watts": resting.watts,
        "update_s": resting.update_s, "loop_s": min(passed for _, passed, _ in loops),
    }  # fmt: skip
    return {name: six_digits(value) for name, value in found.items()}
