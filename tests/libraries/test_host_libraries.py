"""Libraries that search on the host: what they say of themselves, and how they are timed."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from gpubench import problems, registry
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.libraries import _host_memory, _library
from gpubench.libraries._host_memory import peak_of
from gpubench.libraries.scipy_ckdtree import rows_of
from gpubench.libraries.vesin import CAPACITY, capacity
from gpubench.measure.sampling import Budget, Task, sample
from gpubench.problems.neighbours.contract import HostSearch, Neighbours
from gpubench.problems.particles.inputs import make

TORUS = Grid((5, 4, 6), (-1.0, 0.0, 2.5), (5.0, 4.0, 6.0), (True, False, True))
HOST_FORMS = [
    (name, form)
    for name in ("scipy-ckdtree", "vesin")
    for form in registry.find_algorithm(name).forms
]


def made(device: Device, name: str, form: str, inputs: Any) -> Any:
    cls: Any = registry.find_algorithm(name)
    return cls(device, form=form, parameters={}, **inputs.made_for)


@pytest.mark.parametrize(("name", "form"), HOST_FORMS)
class TestHostRivals:
    def test_they_say_what_the_library_does(
        self, opencl_device: Device, name: str, form: str
    ) -> None:
        inputs = make(300, TORUS)
        algorithm = made(opencl_device, name, form, inputs)
        algorithm.load(inputs)
        algorithm.launch()
        assert algorithm.outcome().keys() >= {
            "overflow", "wrapping", "order", "self_pairs", "ties",
        }  # fmt: skip
        package, version = algorithm.library.split()
        assert name.startswith(package) and version[0].isdigit()
        assert algorithm.traffic_bytes() is None
        assert "works or waits on the host" in algorithm.no_graph

    def test_memory_at_its_peak(self, opencl_device: Device, name: str, form: str) -> None:
        inputs = make(20000, Grid.with_count(5000))
        algorithm = made(opencl_device, name, form, inputs)
        algorithm.load(inputs)
        algorithm.launch()
        peak = algorithm.peak_bytes()
        # The answer is that of the launch in which memory was measured.
        assert problems.problems()["neighbour-search"].check(algorithm, inputs) is None
        if peak is None:
            pytest.skip("this system does not tell")
        # How much it is at least, TestPeak says: here it may fit into what earlier tests freed.
        assert 0 <= peak < 2**30

    def test_positions_are_left_as_they_were(
        self, opencl_device: Device, name: str, form: str
    ) -> None:
        inputs = make(500, TORUS)
        before = inputs.positions.copy()
        algorithm = made(opencl_device, name, form, inputs)
        algorithm.load(inputs)
        algorithm.launch()
        algorithm.launch()
        np.testing.assert_array_equal(inputs.positions, before)
        np.testing.assert_array_equal(algorithm.xyz, before[:, :3])


@pytest.mark.parametrize(("name", "form"), HOST_FORMS)
def test_a_wrong_radius_of_theirs_is_found(opencl_device: Device, name: str, form: str) -> None:
    """Nothing is repaired that loses pairs: a library that finds too few is wrong."""
    inputs = make(2000, TORUS)
    cls: Any = registry.find_algorithm(name)

    def narrow(self: Any) -> None:
        self.cutoff *= 0.9
        cls.prepare(self)
        self.cutoff /= 0.9

    narrowed: Any = type("Narrow", (cls,), {"prepare": narrow})
    algorithm = narrowed(opencl_device, form=form, parameters={}, **inputs.made_for)
    algorithm.load(inputs)
    algorithm.launch()
    assert problems.problems()["neighbour-search"].check(algorithm, inputs) is not None


@pytest.mark.parametrize("before", [None, "512"])
def test_vesin_is_told_its_room_only_while_it_works(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if before is None:
        monkeypatch.delenv(CAPACITY, raising=False)
    else:
        monkeypatch.setenv(CAPACITY, before)
    with capacity(0):
        assert os.environ.get(CAPACITY) == before
    with pytest.raises(ZeroDivisionError), capacity(7):
        assert os.environ[CAPACITY] == "7"
        raise ZeroDivisionError
    assert os.environ.get(CAPACITY) == before


def test_without_vesin_it_says_what_to_install(
    opencl_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(_library.importlib, "import_module", missing)
    load = registry.find_algorithm("vesin")
    with pytest.raises(
        NotSupported, match=r"^vesin is not installed: pip install 'gpubench-particles\[riv"
    ):
        load(opencl_device, form="list-pairs", parameters={}, **make(10, TORUS).made_for)
    assert importlib.import_module is missing


@pytest.mark.parametrize("periodic", [True, False])
def test_a_list_with_images_is_a_search(opencl_device: Device, periodic: bool) -> None:
    pytest.importorskip("matscipy")
    inputs = make(500, replace(TORUS, periodic=(periodic,) * 3))
    algorithm = made(opencl_device, "matscipy", "list-pairs", inputs)
    algorithm.load(inputs)
    algorithm.launch()
    check = problems.problems()["neighbour-search"].check
    assert check(algorithm, inputs) is None
    assert algorithm.outcome() == {"writes": "each neighbour's image"}
    algorithm.poison()
    assert check(algorithm, inputs) is not None


def test_pairs_become_rows() -> None:
    pairs = np.array([[2, 0], [0, 2], [2, 1], [1, 2]], np.uint64)
    rows = rows_of(pairs, 4)
    assert rows.counts.tolist() == [1, 1, 2, 0]
    assert rows.offsets.tolist() == [0, 1, 2, 4, 4]
    assert rows.offsets.dtype == np.int64 and rows.neighbours.dtype == np.int32
    assert rows.neighbours[:2].tolist() == [2, 2] and set(rows.neighbours[2:]) == {0, 1}
    # A pair that a library gave twice stays twice, for the oracle to find.
    assert rows_of(np.repeat(pairs, 2, axis=0), 4).counts.tolist() == [2, 2, 4, 0]
    assert rows_of(np.empty((0, 2), np.uint64), 0).offsets.tolist() == [0]


TOUCH = """
import numpy
from gpubench.libraries._host_memory import peak_of
print(peak_of(lambda: numpy.ones(2**23, numpy.uint8).sum()))
"""


class TestPeak:
    def test_it_is_what_work_touched(self) -> None:
        """In a process of its own, whose C library keeps no freed memory that would serve."""
        told = subprocess.run([sys.executable, "-c", TOUCH], capture_output=True, text=True)
        assert told.returncode == 0, told.stderr
        if told.stdout.strip() == "None":
            pytest.skip("this system does not tell")
        assert 2**23 * 0.9 < int(told.stdout) < 2**26

    def test_what_is_not_told_is_none_but_work_is_done(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = []
        monkeypatch.setattr(_host_memory, "CLEAR", tmp_path / "missing" / "clear_refs")
        assert peak_of(lambda: done.append(1)) is None
        assert done == [1]


class Waits(HostSearch):
    """Keeps the host busy, and notes for how long."""

    name, summary, source = "waits", "", ""
    forms: ClassVar[Mapping[str, Form]] = {"build": Form("")}
    seconds = 0.0

    def prepare(self) -> None:
        self.took: list[float] = []

    def work(self) -> None:
        begin = time.perf_counter()
        while time.perf_counter() - begin < self.seconds:
            pass
        self.took.append(time.perf_counter() - begin)

    def neighbours(self) -> Neighbours:
        raise AssertionError("nobody asks")


@pytest.mark.second_runtime
@pytest.mark.parametrize("seconds", [0.001, 0.05])
def test_events_time_the_host(opencl_device: Device, seconds: float) -> None:
    """Time between two events holds the work between them, and lies within the host's time.

    Events that the device put off would be too close to each other, or too far apart.
    """
    search = Waits(opencl_device, 10, Grid.with_count(27), "build", {})
    search.seconds = seconds
    for _ in range(3):
        search.launch()
        outer = time.perf_counter()
        start = opencl_device.record()
        search.launch()
        end = opencl_device.record()
        elapsed = opencl_device.elapsed_ms(start, end)
        outer = time.perf_counter() - outer
        # Clocks of device and host may differ by 1 %.
        assert 0.99e3 * search.took[-1] <= elapsed <= 1.01e3 * outer + 0.1


def test_a_sample_of_host_work_is_one_launch(opencl_device: Device) -> None:
    search = Waits(opencl_device, 10, Grid.with_count(27), "build", {})
    search.seconds = 0.002
    (found,) = sample(
        opencl_device, [Task("waits", [search.launch], "hot")], Budget(0.05, 6, 8), seed=0
    )
    assert found.batch == 1
    assert min(found.samples_ms) >= 0.99 * 2.0
