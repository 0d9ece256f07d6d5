"""Run the checks of a family of workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gpubench.base.errors import UserError
from gpubench.devices.base import Device
from gpubench.evidence.bounds import Environment
from gpubench.evidence.physics_results import CheckResults, CheckRun
from gpubench.measure import clock
from gpubench.measure.environment import environment
from gpubench.measure.progress import progress
from gpubench.physics_checks import (
    constraint,
    constraint_solution,
    domains,
    equilibrium,
    exactness,
    lennard_jones,
    rayleigh_taylor,
    sph_exactness,
    sph_flows,
    transport,
)
from gpubench.physics_checks.check import Check, CheckOutcome

FAMILIES: Mapping[str, Sequence[Check]] = {
    "dpd": (
        *exactness.CHECKS,
        *equilibrium.CHECKS,
        *transport.CHECKS,
        *domains.CHECKS,
        *rayleigh_taylor.CHECKS,
    ),
    "sph": (*sph_exactness.CHECKS, *sph_flows.CHECKS),
    "constraint-fluid": (*constraint.CHECKS, *constraint_solution.CHECKS),
    "lj-fluid": lennard_jones.CHECKS,
}


def run(family: str, device: Device, *, is_long: bool) -> CheckResults:
    """Run all checks of a family at one size; a failing check does not stop the others."""
    conditions = environment(device)
    runs = []
    chosen = [(check, check.long if is_long else check.quick) for check in FAMILIES[family]]
    with progress(len(chosen), f"checking {family}") as bar:
        for check, size in chosen:
            bar.describe(f"{family}: {check.name}")
            if size is not None:
                runs.append(run_check(check, device, size))
            bar.advance(1)
    return CheckResults(family, "long" if is_long else "quick", Environment(conditions), runs)


def run_check(check: Check, device: Device, size: Mapping[str, Any]) -> CheckRun:
    """Run one check; an error in the simulation is recorded as its failure."""
    (outcome, failure), seconds = clock.timed(partial(_attempt, check.measure, device, size))
    return CheckRun(
        check.name, check.question, size, seconds, failure, outcome.findings, outcome.figures
    )


def _attempt(
    measure: Callable[..., CheckOutcome], device: Device, size: Mapping[str, Any]
) -> tuple[CheckOutcome, str | None]:
    try:
        return measure(device, **size), None
    except UserError as error:
        return CheckOutcome([]), str(error)
