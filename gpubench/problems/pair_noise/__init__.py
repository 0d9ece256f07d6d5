"""Random numbers for pairs of particles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpubench.core.problem import Problem
from gpubench.problems.pair_noise.axes import Pairs

if TYPE_CHECKING:
    from gpubench.core.case import Case
    from gpubench.core.oracle import Oracle
    from gpubench.problems.pair_noise.inputs import PairSet


class PairNoiseProblem(Problem):
    """Draw the random number of each pair of particles, the same from either side."""

    name = "pair-noise"
    takes = Pairs

    def oracle(self, inputs: PairSet, exact: bool = False) -> Oracle:
        """Return the numbers of NumPy, bit for bit."""
        from gpubench.problems.pair_noise.oracle import PairNoiseOracle

        return PairNoiseOracle(inputs, exact)

    def cases(self) -> Sequence[Case]:
        """Return pairs at the ends of ids, steps and keys, and around sizes of blocks."""
        from gpubench.problems.pair_noise.cases import pairs

        return pairs()

    def large_cases(self) -> Sequence[Case]:
        """Return inputs just past 2^24 in size."""
        from gpubench.problems.pair_noise.cases import large_pairs

        return large_pairs()
