"""Checking a step of a simulation."""

from __future__ import annotations

from typing import Any

from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.steps.inputs import SimulationStart


class WorkloadStepOracle(Oracle):
    """Check a step of a simulation with the workload's own float64 reference."""

    def __init__(self, inputs: SimulationStart, exact: bool = False) -> None:
        """Ignore the inputs: a step is checked from the state before it."""

    def check(self, algorithm: Any) -> str | None:
        """Advance the simulation by one step, and check that step."""
        problem: str | None = algorithm.check()
        return problem
