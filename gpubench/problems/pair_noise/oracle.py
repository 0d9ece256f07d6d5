"""The oracle of pair noise, which compares bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.arrays import check_array, first_true
from gpubench.core.oracle import Oracle as Oracle
from gpubench.physics.noise import pair_noise
from gpubench.problems.pair_noise.contract import Noise
from gpubench.problems.pair_noise.inputs import PairSet

NOISE_BLOCK = 2**14  # pairs computed together, to stay in cache


def check_noise(
    expected: NDArray[np.float32],
    found: NDArray[Any],
    i: NDArray[np.int32],
    j: NDArray[np.int32],
    step: int,
) -> str | None:
    """Compare random numbers of pairs, bit for bit.

    expected, found: float32, shape (steps, pairs), for the pairs (i, j) from `step` on.
    """
    if problem := check_array("values", found, expected.shape, np.float32):
        return problem
    if (k := first_true((found.view(np.uint32) != expected.view(np.uint32)).ravel())) is not None:
        after, pair = divmod(k, len(i))
        return (
            f"the pair ({i[pair]}, {j[pair]}) has {found[after, pair]!s} in step {step + after},"
            f" expected {expected[after, pair]!s}"
        )
    return None


def noise(
    generator: str,
    i: NDArray[np.int32],
    j: NDArray[np.int32],
    step: int,
    key: int,
    steps: int,
) -> NDArray[np.float32]:
    """Return the random numbers of pairs from `step` on, float32, shape (steps, pairs).

    generator: one of physics.noise.GENERATORS. i, j: int32, shape (pairs,). key: the seed.
    """
    first, second = i.view(np.uint32), j.view(np.uint32)
    values = np.empty((steps, len(i)), np.float32)
    for after in range(steps):
        for start in range(0, len(i), NOISE_BLOCK):
            block = slice(start, start + NOISE_BLOCK)
            clock = (step + after) % 2**64
            values[after, block] = pair_noise(first[block], second[block], clock, key, generator)
    return values


class PairNoiseOracle(Oracle):
    """Check the random numbers of pairs, bit for bit; the reference is computed once and cached."""

    def __init__(self, inputs: PairSet, exact: bool = False) -> None:
        self.i, self.j = inputs.i.copy(), inputs.j.copy()
        self.step, self.key = inputs.step, inputs.key
        self._expected: dict[str, NDArray[np.float32]] = {}

    def check(self, algorithm: Any) -> str | None:
        """Check the numbers of all pairs in all steps of a launch."""
        answer, name = self.answer_of(algorithm, Noise), algorithm.generator
        if name not in self._expected:
            self._expected[name] = noise(
                name, self.i, self.j, self.step, self.key, algorithm.launches
            )
        found = algorithm.download(answer.values)
        return check_noise(self._expected[name], found, self.i, self.j, self.step)
