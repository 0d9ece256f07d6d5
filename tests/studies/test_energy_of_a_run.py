"""Energy in the records of a run, on a fake device with a counter."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_algorithms import ALGORITHMS, ENVIRONMENT
from fakes import FakeDevice

from gpubench import registry
from gpubench.evidence.results import load
from gpubench.measure import energy
from gpubench.measure.sampling import Budget
from gpubench.studies import bench, runner
from gpubench.studies.study import parse_study

STUDY = """
title = "Joules"
question = "How many?"
seed = 7
[[sweeps]]
name = "one"
particles = [64]
per_cell = [4]
distribution = ["uniform"]
order = ["random"]
modes = ["hot", "graph"]
[[subjects]]
algorithm = "right-sort"
form = "plain"
"""
BUDGET = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=2)


class Metered(FakeDevice):
    """Takes 100 W, on a counter without steps; reading the time takes 10 ms."""

    joules: float | None = 0.0

    def energy_j(self) -> float | None:
        return self.joules

    def now(self) -> float:
        self.clock_ms += 10
        self.joules = None if self.joules is None else self.clock_ms / 10
        return self.clock_ms / 1e3


def measured(device: Metered, folder: Path, monkeypatch: pytest.MonkeyPatch, **wanted: bool):
    monkeypatch.setattr(registry, "algorithms", lambda: ALGORITHMS)
    monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)
    monkeypatch.setattr(energy, "now", device.now)
    study = parse_study("joules", STUDY)
    found = runner.run(study, device, folder, budget=BUDGET, **wanted)
    return {record.mode: record for record in load(found.path).records}


def test_the_mode_nearest_to_device_time_has_the_energy(tmp_path, monkeypatch) -> None:
    found = measured(Metered(), tmp_path, monkeypatch, energy=True)
    assert found["hot"].energy is None
    assert found["graph"].energy["watts"] == pytest.approx(100, rel=0.02)
    assert found["graph"].energy["idle_watts"] == pytest.approx(100, rel=0.02)
    assert measured(Metered(), tmp_path / "b", monkeypatch)["graph"].energy is None


def test_a_device_without_a_counter_is_one_line(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(bench, "_say_once", bench.say)
    device = Metered()
    device.joules = None
    assert measured(device, tmp_path, monkeypatch, energy=True)["graph"].energy is None
    assert capsys.readouterr().err.count(energy.REFUSAL) == 1
