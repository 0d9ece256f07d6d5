"""Whole steps of a simulation, of which a cell list is one part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.steps.axes import Simulation

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.steps.inputs import SimulationStart

STANDS_ON = ("particles",)


class StepProblem(Problem):
    """Advance a simulation by one step; no algorithm is registered for it, see `workloads`."""

    name = "workload-step"
    takes = Simulation

    def oracle(self, inputs: SimulationStart, exact: bool = False) -> Oracle:
        """Return the float64 reference of the workload."""
        from gpubench.problems.steps.oracle import WorkloadStepOracle

        return WorkloadStepOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return none: the tests of workloads check their steps."""
        return ()
