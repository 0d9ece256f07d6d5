"""Random numbers for pairs of particles."""

from gpubench.core.problem import Problem
from gpubench.problems.pair_noise.axes import Pairs


class PairNoiseProblem(Problem):
    """Draw the random number of each pair of particles, the same from either side."""

    name = "pair-noise"
    takes = Pairs
    oracle_name = "PairNoiseOracle"
    suite = "pairs"
    large_suite = "large_pairs"
