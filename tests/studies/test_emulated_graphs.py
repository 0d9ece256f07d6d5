"""Graphs on a machine without an NVIDIA GPU: what is captured is launched anew at each replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpubench.devices import Device
from gpubench.measure.sampling import Budget
from gpubench.studies import runner
from gpubench.studies.study import Subject, load_study

BUDGET = Budget(seconds_per_task=0.001, min_samples=6, max_samples=6, max_batch=2)
SUBJECTS = {
    "search": (
        Subject("search-counting-sort", "build"),
        Subject("search-counting-sort", "list"),
        Subject("search-atomic-list", "count"),
        Subject("scipy-ckdtree", "count"),
    ),
    "sort": (Subject("radix-sort", "three-kernels"),),
    "step": (Subject("counting-sort", "reorder"),),
}


@pytest.fixture
def with_graphs(intel: Device, monkeypatch: pytest.MonkeyPatch) -> Device:
    def capture(work: Callable[[], None]) -> Any:
        return SimpleNamespace(launch=work)

    monkeypatch.setattr(intel, "features", intel.features | {"graphs"})
    monkeypatch.setattr(intel, "capture", capture)
    return intel


@pytest.mark.long
def test_the_study_again_is_checked_in_both_modes(with_graphs: Device, tmp_path: Path) -> None:
    """Searches, sorts of keys and steps of simulations: a step has no answer to look at."""
    study = load_study("again")
    sizes = {"search": {"particles": (4096,)}, "sort": {"key_count": (4096,)}}
    sizes["step"] = {"particles": (4000,)}
    sweeps = tuple(
        replace(sweep.along(sizes[sweep.name]), requires=frozenset(), subjects=SUBJECTS[sweep.name])
        for sweep in study.sweeps
    )
    summary = runner.run(replace(study, sweeps=sweeps), with_graphs, tmp_path, budget=BUDGET)
    records = summary.results.records
    assert [each.reason for each in records if each.status in ("wrong", "failed")] == []
    timed = {(each.sweep, each.mode) for each in records if each.status == "ok"}
    assert timed == {(name, mode) for name in sizes for mode in ("hot", "graph")}
