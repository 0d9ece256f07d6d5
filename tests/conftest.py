"""Devices shared by the whole test session: opened once, skipped with the reason where missing."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import needs
import pandas as pd
import pytest
import seen
from hypothesis import HealthCheck, settings

from gpubench import registry
from gpubench.base import paths, user_cache
from gpubench.base.errors import DeviceUnavailable, NotSupported
from gpubench.cli import app
from gpubench.devices import Device, open_device
from gpubench.devices.opencl import OpenCLDevice
from gpubench.evidence.files import load_results
from gpubench.evidence.frame import frame
from gpubench.evidence.results import Results
from gpubench.measure import environment as describing
from gpubench.measure import sampling
from gpubench.measure.environment import environment

pytest_plugins = ["pytester"]
# No limit of time: a machine that is busy, or slow, must not fail a test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# The pip runtime comes with the extra `cpu`, so it must be there; PoCL is the system's.
REQUIRED = {"opencl:intel"}
# Another compiler and scheduler: runs each kernel against its oracle, and what else is marked
# second_runtime; the rest would show again what the first runtime has shown.
SECOND = "opencl:pocl"
OPENCL = ["opencl:intel", SECOND]
CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
# Intel's compiler makes vectors of work items, which takes most of its time. No answer depends on
# that, so its kernels are compiled for one item at a time, here and in all processes that tests
# start. `PYOPENCL_BUILD_OPTIONS= pytest`, as `make test-all` does, compiles them as users do.
# PyOpenCL keeps programs by their options, so no other run is given these.
SCALAR = "-D__kernel=__kernel/**/__attribute__((intel_vec_len_hint(1)))"
os.environ.setdefault("PYOPENCL_BUILD_OPTIONS", SCALAR)
# Else it takes a fifth of the time of what makes many objects, such as a report, or 14,000 tests.
gc.set_threshold(100_000, 50, 50)
SKIPS: Counter[str] = Counter()  # of this run, by reason
LEFT_OUT: Counter[str] = Counter()  # tests that a choice of markers left out, by marker
COLLECTED = pytest.StashKey[list[pytest.Item]]()  # before any choice by name or marker


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, Any, Any]:
    """Drop forms that no device of a kind can run, and choose what the second runtime runs.

    There all tests are long, and thorough those that are long on the first runtime too, and those
    of another form of an algorithm that the same test has.
    """
    items[:] = [
        item
        for item in items
        if not needs_another_backend(item)
        and (not is_of_second(item) or item.get_closest_marker("second_runtime"))
    ]
    tried = set()
    for item in filter(is_of_second, items):
        algorithm = item.path, item.originalname, algorithm_of(item)[0]
        if item.get_closest_marker("long") or algorithm in tried:
            item.add_marker(pytest.mark.thorough)
        elif algorithm[-1]:
            tried.add(algorithm)
        item.add_marker(pytest.mark.long)
    config.stash[COLLECTED] = [*items]
    result = yield
    put_long_ones_first(items, getattr(config, "workerinput", {}).get("workercount", 1))
    return result


def put_long_ones_first(items: list[pytest.Item], workers: int) -> None:
    """Order the part that each worker begins with, so that none waits for a long one at the end."""
    size = -(-len(items) // workers) or 1
    parts = [items[first : first + size] for first in range(0, len(items), size)]
    items[:] = [
        item
        for part in parts
        for item in sorted(part, key=lambda item: item.get_closest_marker("long") is None)
    ]


def is_of_second(item: pytest.Item) -> bool:
    """Say whether a test runs on the second OpenCL runtime."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return SECOND in (parameters.get("device"), parameters.get("opencl_device"))


def needs_another_backend(item: pytest.Item) -> bool:
    """Say whether a test would run a form of an algorithm on OpenCL that needs more."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    device = parameters.get("device", parameters.get("opencl_device", "cuda"))
    name, form = algorithm_of(item)
    if not name or not str(device).startswith("opencl"):
        return False
    return bool(registry.algorithms()[name].forms[form].requires - {"opencl"})


def algorithm_of(item: pytest.Item) -> tuple[str, str]:
    """Return the algorithm and the form that are a test's parameters, or two empty strings."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    name = parameters.get("name", parameters.get("algorithm"))
    name, form = parameters.get("pair", (name, parameters.get("form")))
    known = registry.algorithms().get(name) if isinstance(name, str) else None
    return (name, form) if known is not None and form in known.forms else ("", "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell fixtures whether their test has passed."""
    report = yield
    if call.when == "call":
        item.stash[seen.PASSED] = report.passed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    """Skip a test of a library that is not installed here."""
    try:
        return (yield)
    except NotSupported as lacking:
        if "is not installed" in str(lacking):
            pytest.skip(str(lacking))
        raise


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over the tests themselves."""
    gc.collect()
    gc.freeze()


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what a choice of markers leaves out."""
    for item in items:
        LEFT_OUT.update([name for name in needs.TARGETS if item.get_closest_marker(name)][:1])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that prints what this worker left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(LEFT_OUT)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker left out; all workers leave out the same."""
    LEFT_OUT.update(Counter(getattr(node, "workeroutput", {}).get("left_out")) - LEFT_OUT)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the reasons of skips."""
    if report.skipped and isinstance(report.longrepr, tuple):
        SKIPS[report.longrepr[2].removeprefix("Skipped: ")] += 1


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Count files that were skipped whole."""
    if report.skipped and isinstance(report.longrepr, tuple):
        SKIPS[report.longrepr[2].removeprefix("Skipped: ")] += 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """End a run with the line that says what was not run."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        reporter.write_line(needs.closing_line(SKIPS, LEFT_OUT))


@pytest.fixture(scope="session", autouse=True)
def forgetful() -> Iterator[None]:
    """Remember nothing of what tests put in the place of the package's own parts."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(user_cache, "_folder_to_remember_in", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def small_cache() -> Iterator[None]:
    """Give a CPU a small cache: each cold sample overwrites twice as much, which takes longest."""
    opened = OpenCLDevice.__init__

    def open_with_less(device: OpenCLDevice, found: Any) -> None:
        opened(device, found)
        device.cache_bytes = 1 << 16

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(OpenCLDevice, "__init__", open_with_less)
        monkeypatch.setattr(sampling, "MIN_SCRATCH_BYTES", 1 << 16)
        monkeypatch.setattr(describing, "REPEATS", 1)
        yield


@pytest.fixture(scope="session")
def collected(pytestconfig: pytest.Config) -> list[pytest.Item]:
    """All tests of the suite, those that markers or names leave out among them."""
    tests = {pytestconfig.rootpath, pytestconfig.rootpath / "tests"}
    option = pytestconfig.option
    is_part = option.ignore or option.ignore_glob or getattr(option, "lf", False)
    if is_part or not tests & {Path(each).resolve() for each in pytestconfig.args}:
        pytest.skip("looks at the whole suite: name no file")
    return pytestconfig.stash[COLLECTED]


@pytest.fixture
def gpubench_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Any, str, str]]:
    """Return a function that runs a command line and returns exit status, stdout, stderr."""

    def call(*words: object) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpubench", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return ended.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def open_once() -> Iterator[Callable[[str], Device]]:
    """Open a device by name, or skip with the reason why it cannot be used."""
    opened: dict[str, Device] = {}
    required = REQUIRED | ({"cuda"} if os.environ.get("GPUBENCH_REQUIRE_CUDA") == "1" else set())
    with ExitStack() as stack:

        def get(spec: str) -> Device:
            if spec not in opened:
                try:
                    opened[spec] = stack.enter_context(open_device(spec))
                except DeviceUnavailable as reason:
                    if spec in required:
                        pytest.fail(f"{spec} is required here, but {reason}")
                    if spec == SECOND:
                        needs.skip_without("PoCL")
                    pytest.skip(str(reason))
            return opened[spec]

        yield get


@pytest.fixture(scope="session")
def environment_once() -> Callable[[Device], dict[str, Any]]:
    """Return what describes a device as `environment` does, whose measurements take seconds."""
    known: dict[str, dict[str, Any]] = {}

    def get(device: Device) -> dict[str, Any]:
        if device.spec not in known:
            known[device.spec] = environment(device)
        return dict(known[device.spec])

    return get


@pytest.fixture(scope="session")
def shipped_results() -> list[Results]:
    """Results of studies that come with a checkout, loaded once."""
    root = paths.repository()
    if root is None:
        pytest.skip("needs a checkout")
    return load_results([root / "results" / "measured"])


@pytest.fixture(scope="session")
def shipped_frame(shipped_results: list[Results]) -> pd.DataFrame:
    """The frame of these."""
    return frame(shipped_results)


@pytest.fixture(scope="session", params=OPENCL)
def opencl_device(request: pytest.FixtureRequest, open_once: Callable[[str], Device]) -> Device:
    """Each OpenCL runtime."""
    return open_once(request.param)


@pytest.fixture(scope="session")
def intel(open_once: Callable[[str], Device]) -> Device:
    """The OpenCL runtime that is always there."""
    return open_once("opencl:intel")


@pytest.fixture(scope="session")
def cuda_device(open_once: Callable[[str], Device]) -> Device:
    """The first NVIDIA GPU."""
    return open_once("cuda")


@pytest.fixture(scope="session", params=[*OPENCL, CUDA])
def device(request: pytest.FixtureRequest, open_once: Callable[[str], Device]) -> Device:
    """Each OpenCL runtime, and the first NVIDIA GPU."""
    return open_once(request.param)
