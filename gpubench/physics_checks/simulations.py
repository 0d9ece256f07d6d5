"""Helpers of all checks: make a simulation, advance it, sample it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Finding
from gpubench.physics.arrays import Floats
from gpubench.physics_checks.check import NEVER, SEED, CheckOutcome
from gpubench.simulate.setup import Setup
from gpubench.workloads.workload import Snapshot, Value, Workload

Kind = TypeVar("Kind", bound=Workload)


def make(
    device: Device, workload: type[Kind], particles: int, seed: int = SEED, /, **parameters: Value
) -> Kind:
    """Make a workload over the default cell list of `gpubench simulate`."""
    made = Setup(workload.name, particles, parameters=parameters, seed=seed).make(device)
    assert isinstance(made, workload)
    return made


def pass_time(workload: Workload, time: float) -> None:
    """Advance by a simulated time, at least one step; raise BlowUp if a step fails."""
    workload.advance(max(1, round(time / workload.time_step)))
    workload.require_sound()


def sampled(workload: Workload, span: float, every: float) -> Iterator[Snapshot]:
    """Advance by a span of time, and yield a snapshot after each interval."""
    for _ in range(round(span / every)):
        pass_time(workload, every)
        yield workload.snapshot()


def from_the_beginning(workload: Workload, span: float, every: float) -> Iterator[Snapshot]:
    """Yield a snapshot of the current state, then those of `sampled`."""
    return itertools.chain([workload.snapshot()], sampled(workload, span, every))


def followed(
    workload: Workload, span: float, every: float, read: Callable[[Snapshot], Any]
) -> tuple[Floats, Floats]:
    """Advance by a span; return times, (samples,), and the values read, (samples, ...)."""
    times, readings = [], []
    for now in from_the_beginning(workload, span, every):
        times.append(now.time)
        readings.append(read(now))
    return np.array(times), np.array(readings)


def compare_steps(
    device: Device,
    particles: int,
    runs: Iterable[tuple[str, type[Workload], Mapping[str, Value]]],
    spans: Sequence[int],
) -> CheckOutcome:
    """Compare a step of each run with float64, after each of several spans of steps.

    runs: the name of each run, its workload, and its parameters.
    """
    problems, compared = [], 0
    for label, workload, parameters in runs:
        fluid = make(device, workload, particles, **parameters)
        for span in spans:
            fluid.advance(span)
            compared += 1
            if problem := fluid.check():
                problems.append(f"{label}: {problem}")
    quantity = f"steps that are not those of float64, of {compared}"
    return CheckOutcome([Finding(quantity, len(problems), None, NEVER, "; ".join(problems))])
