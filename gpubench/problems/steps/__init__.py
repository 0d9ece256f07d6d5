"""Simulation time steps: of our workloads over a cell list, or of another engine."""

from collections.abc import Sequence
from functools import partial

from gpubench.core.case import Case
from gpubench.core.problem import Problem
from gpubench.problems.steps.axes import Simulation

STANDS_ON = ("particles",)


class StepProblem(Problem):
    """Advance a simulation by one step; the tests of workloads replace a conformance suite."""

    name = "workload-step"
    takes = Simulation
    oracle_name = "WorkloadStepOracle"

    def cases(self) -> Sequence[Case]:
        """Return a small fluid, on which engines are checked."""
        return [Case("a small fluid", partial(Simulation("dpd-standard", 500).make, 1))]
