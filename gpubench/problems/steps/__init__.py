"""Time steps of a simulation, which include a cell list."""

from gpubench.core.problem import Problem
from gpubench.problems.steps.axes import Simulation

STANDS_ON = ("particles",)


class StepProblem(Problem):
    """Advance a simulation by one step; tested by the tests of workloads instead of a suite."""

    name = "workload-step"
    takes = Simulation
    oracle_name = "WorkloadStepOracle"
