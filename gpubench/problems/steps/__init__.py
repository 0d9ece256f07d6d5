"""Whole steps of a simulation, of which a cell list is one part."""

from gpubench.core.problem import Problem
from gpubench.problems.steps.axes import Simulation

STANDS_ON = ("particles",)


class StepProblem(Problem):
    """Advance a simulation by one step; tests of workloads take the place of a suite."""

    name = "workload-step"
    takes = Simulation
    oracle_name = "WorkloadStepOracle"
