"""The oracle of simulation steps."""

from __future__ import annotations

from typing import Any

from gpubench.core.oracle import Oracle as Oracle
from gpubench.problems.steps.inputs import SimulationStart


class WorkloadStepOracle(Oracle):
    """Check a simulation step against the workload's own float64 reference."""

    def __init__(self, inputs: SimulationStart, exact: bool = False) -> None:
        """Ignore the inputs: the check starts from the state before the step."""

    def check(self, algorithm: Any) -> str | None:
        """Advance the simulation by one step, and check it."""
        problem: str | None = algorithm.check()
        return problem
