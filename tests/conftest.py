"""Devices shared by the whole test session: opened once, skipped with the reason where missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gpubench.devices import Device, open_device
from gpubench.errors import DeviceUnavailable
from gpubench.measure.environment import environment

# The pip runtime comes with the extra `cpu`, so it must be there; PoCL is the system's.
REQUIRED = {"opencl:intel"}
OPENCL = ["opencl:intel", "opencl:pocl"]
CUDA = pytest.param("cuda", marks=pytest.mark.cuda)


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


@pytest.fixture(scope="session", params=OPENCL)
def opencl_device(request: pytest.FixtureRequest, open_once: Callable[[str], Device]) -> Device:
    """Each OpenCL runtime."""
    return open_once(request.param)


@pytest.fixture(scope="session")
def cuda_device(open_once: Callable[[str], Device]) -> Device:
    """The first NVIDIA GPU."""
    return open_once("cuda")


@pytest.fixture(scope="session", params=[*OPENCL, CUDA])
def device(request: pytest.FixtureRequest, open_once: Callable[[str], Device]) -> Device:
    """Each OpenCL runtime, and the first NVIDIA GPU."""
    return open_once(request.param)
