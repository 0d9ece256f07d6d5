"""What a check is, and what all of them do: make a simulation, let time pass, read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpubench.devices.base import Device
from gpubench.evidence.physics_results import Figure, Finding, Reference
from gpubench.physics.fits import Estimate
from gpubench.simulate.setup import Setup
from gpubench.workloads.dpd import DPD
from gpubench.workloads.sph import SPH
from gpubench.workloads.workload import Snapshot, Value, Workload

SEED = 1


@dataclass(frozen=True)
class CheckOutcome:
    """What a check measured."""

    findings: Sequence[Finding]
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Check:
    """A check and its sizes.

    question: what it answers, in a line.
    measure: takes the device, and a size as keyword arguments.
    long: the size for a GPU, with errors below the tolerances.
    quick: the size for some seconds on a CPU; None where none is worth its time.
    """

    name: str
    question: str
    measure: Callable[..., CheckOutcome]
    long: Mapping[str, Any]
    quick: Mapping[str, Any] | None


def make(
    device: Device, workload: str, particles: int, seed: int = SEED, **parameters: Value
) -> DPD:
    """Make a DPD workload over the cell list that `gpubench simulate` takes by default."""
    made = Setup(workload, particles, parameters=parameters, seed=seed).make(device)
    assert isinstance(made, DPD)
    return made


def make_sph(device: Device, workload: str, particles: int, **parameters: Value) -> SPH:
    """Make an SPH workload over the cell list that `gpubench simulate` takes by default."""
    made = Setup(workload, particles, parameters=parameters, seed=SEED).make(device)
    assert isinstance(made, SPH)
    return made


def pass_time(workload: Workload, time: float) -> None:
    """Advance by that much simulated time, a step at least; raise BlowUp where it goes wrong."""
    workload.advance(max(1, round(time / workload.time_step)))
    workload.require_sound()


def sampled(workload: Workload, span: float, every: float) -> Iterator[Snapshot]:
    """Let a span of time pass, and yield a snapshot after each interval of it."""
    for _ in range(round(span / every)):
        pass_time(workload, every)
        yield workload.snapshot()


def found(
    quantity: str, estimate: Estimate, reference: Reference | None = None, note: str = ""
) -> Finding:
    """Return the finding of an estimate."""
    return Finding(quantity, estimate.value, estimate.error, reference, note)
