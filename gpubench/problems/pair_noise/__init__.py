"""Random numbers for pairs of particles."""

from gpubench.core.problem import Problem
from gpubench.problems.pair_noise.axes import Pairs


class PairNoiseProblem(Problem):
    """Draw a symmetric random number for each pair of particles."""

    name = "pair-noise"
    takes = Pairs
    oracle_name = "PairNoiseOracle"
    suite = "pairs"
    large_suite = "large_pairs"
