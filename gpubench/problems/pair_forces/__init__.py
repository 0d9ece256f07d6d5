"""Forces between particles, from lists of neighbours."""

from gpubench.core.problem import Problem
from gpubench.problems.particles.axes import Particles

STANDS_ON = ("particles", "neighbours")


class PairForcesProblem(Problem):
    """Build a list of neighbours, and add up Lennard-Jones forces over it."""

    name = "pair-forces"
    takes = Particles
    oracle_name = "PairForcesOracle"
    suite = "force_cases"
