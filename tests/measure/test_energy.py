"""Joules of a launch, on a device whose counter moves every 100 ms by a fake clock."""

from __future__ import annotations

import math

import pytest
from fakes import FakeDevice

from gpubench.measure import energy
from gpubench.measure.energy import Idle, energy_of, idle

IDLE_W, BUSY_W, UPDATE_S, LAUNCH_MS = 70.0, 400.0, 0.1, 5.0


class Metered(FakeDevice):
    """Takes IDLE_W, and BUSY_W while it works."""

    busy_s = 0.0
    read = 0

    def launch(self) -> None:
        self.clock_ms += LAUNCH_MS
        self.busy_s += LAUNCH_MS / 1e3
        self.taken()

    def taken(self) -> float:
        seconds = self.clock_ms / 1e3
        return IDLE_W * (seconds - self.busy_s) + BUSY_W * self.busy_s

    def energy_j(self) -> float | None:
        at = math.floor(self.clock_ms / 1e3 / UPDATE_S)
        if at != self.read:
            self.read, self.shown = at, self.taken()
        return self.shown

    shown = 0.0

    def now(self) -> float:
        self.clock_ms += 0.1
        return self.clock_ms / 1e3


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Metered:
    found = Metered()
    monkeypatch.setattr(energy, "now", found.now)
    return found


def test_an_idle_device_is_watched(device: Metered) -> None:
    found = idle(device)
    assert found is not None
    assert found.watts == pytest.approx(IDLE_W, rel=0.01)
    assert found.update_s == pytest.approx(UPDATE_S, rel=0.01)


def test_an_interval_holds_the_energy_of_a_launch(device: Metered) -> None:
    found = energy_of(device, device.launch, 1, LAUNCH_MS, 500_000, Idle(IDLE_W, UPDATE_S))
    right = BUSY_W * LAUNCH_MS / 1e3 * 2  # half a million items
    assert found["low"] <= right <= found["high"]
    assert found["low"] < found["joules_per_million"] < found["high"]
    # The counter lags by up to 100 ms of 2 s, at both ends: 5 % on either side.
    assert found["high"] - found["low"] == pytest.approx(0.1 * right, rel=0.5)
    assert found["loop_s"] >= 2
    assert found["watts"] == pytest.approx(BUSY_W, rel=0.05)


def test_launches_of_a_batch_share_its_energy(device: Metered) -> None:
    """What queues ten launches in the same time takes a tenth for each."""
    resting = Idle(IDLE_W, UPDATE_S)
    one = energy_of(device, device.launch, 1, LAUNCH_MS, 1000, resting)
    ten = energy_of(device, device.launch, 10, LAUNCH_MS / 10, 1000, resting)
    ratio = one["joules_per_million"] / ten["joules_per_million"]
    assert ratio == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize("reading", [None, 5.0])
def test_without_a_counter_that_moves_there_is_none(
    device: Metered, reading: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "energy_j", lambda: reading)
    assert idle(device) is None
