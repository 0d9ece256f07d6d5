"""Simulation time steps, which build or update a cell list."""

from gpubench.core.problem import Problem
from gpubench.problems.steps.axes import Simulation

STANDS_ON = ("particles",)


class StepProblem(Problem):
    """Advance a simulation by one step; the tests of workloads replace a conformance suite."""

    name = "workload-step"
    takes = Simulation
    oracle_name = "WorkloadStepOracle"
