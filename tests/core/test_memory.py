"""What is too large for memory is refused, in words, before any of it is allocated."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from fake_algorithms import ENVIRONMENT
from fakes import FakeDevice

from gpubench.base.errors import UserError
from gpubench.core import memory
from gpubench.core.memory import why_too_large
from gpubench.problems.particles.axes import Particles
from gpubench.simulate.setup import Setup
from gpubench.studies import runner
from gpubench.studies.selection import Selection
from gpubench.studies.study import load_study

RECIPE = Particles(particles=2**20, per_cell=4)  # some 100 MB


@pytest.fixture(autouse=True)
def no_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without limits, on which tests set them: returns the folder of control groups."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    return tmp_path


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice(memory_bytes=2**50)


def test_what_fits_is_not_refused(device: FakeDevice) -> None:
    assert why_too_large(RECIPE, device) is None


def test_the_machine_and_the_device_are_named(device: FakeDevice) -> None:
    reason = why_too_large(RECIPE, device, inputs=10**9)
    assert reason is not None and reason.endswith("GiB of this machine: make the input smaller")
    reason = why_too_large(RECIPE, FakeDevice(memory_bytes=2**24))
    assert reason is not None and "more than the 0.0 GiB of NVIDIA H200" in reason


def test_a_limit_of_the_process_counts(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (2**26, 2**40))
    reason = why_too_large(RECIPE, device)
    assert reason is not None and "more than the 0.1 GiB that this process may take" in reason


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("0::/a/b\n", "a/memory.max"),
        ("0::/a/b\n", "memory.max"),
        ("5:cpu:/x\n4:memory:/a/b\n0::/\n", "memory/a/b/memory.limit_in_bytes"),
        ("4:cpuacct,memory:/a/b\n", "memory/memory.limit_in_bytes"),
    ],
)
def test_a_limit_of_a_control_group_counts(
    device: FakeDevice, no_limits: Path, own: str, file: str
) -> None:
    (no_limits / "own").write_text(own)
    for folder in (no_limits / file).parents:
        if folder.is_relative_to(no_limits):
            folder.mkdir(parents=True, exist_ok=True)
    (no_limits / file).write_text("max\n")
    assert why_too_large(RECIPE, device) is None
    (no_limits / file).write_text("1048576\n")
    reason = why_too_large(RECIPE, device)
    assert reason is not None and "that this process may take" in reason


def test_a_simulation_is_refused_before_it_is_made(device: FakeDevice) -> None:
    with pytest.raises(UserError, match=r"2,000,000,000 particles: needs at least 931\.3 GiB"):
        Setup("dpd-standard", 2 * 10**9).make(device)


def test_inputs_of_which_nothing_fits_are_refused(
    device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "environment", lambda device: ENVIRONMENT)
    with pytest.raises(UserError, match=r"particles.*: needs at least .* GiB of memory"):
        runner.run(load_study("rozen2008-table1"), device, tmp_path, Selection(inputs=10**9))
    assert not list(tmp_path.iterdir())
