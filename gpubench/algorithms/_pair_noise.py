"""What the generators of pair noise share: their kernel, and what their numbers are like."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from gpubench.problems.pair_noise.contract import Noise, PairNoise

BLOCK = 256


class DrawnNoise(PairNoise):
    """Noise by the kernel of kernels/pair_noise.cu."""

    def prepare(self) -> None:
        self._values = self.allocate((self.launches, self.pairs), "float32")
        self._blocks = self.device.blocks(self.pairs, BLOCK)
        self._constants = {"BLOCK": BLOCK, "STEPS": self.launches, **self._generator_constants()}
        self._draw = self.device.kernel("pair_noise.cu", "draw_noise", **self._constants)

    @abstractmethod
    def _generator_constants(self) -> dict[str, int]:
        """Return what kernels/common/noise.h is compiled with."""

    def launch(self) -> None:
        self._draw(
            self._blocks, BLOCK, self.i, self.j, self.clock, self._values, np.uint32(self.pairs)
        )

    @property
    def answer(self) -> Noise:
        return Noise(self._values)

    def traffic_bytes(self) -> int:
        # Both ids once a launch, each number written.
        return (8 + 4 * self.launches) * self.pairs // self.launches

    def outcome(self) -> dict[str, int | float | str]:
        return moments(self.device.download(self._values))


def moments(values: NDArray[np.float32]) -> dict[str, int | float | str]:
    """Return what numbers from -1 to 1 are like, scaled as a uniform one is to a variance of 1.

    values: shape (steps, pairs).
    Returned: the mean; the variance less 1; the mean product of a pair's numbers in successive
    steps, and of the numbers of successive pairs in a step; the error of such means if all numbers
    were independent, 1 / sqrt(numbers); how many numbers, and different ones, there are. Nothing
    where there is no product to average.
    """
    steps, pairs = values.shape
    if steps < 2 or pairs < 2:
        return {}
    total = square = across_steps = across_pairs = 0.0
    before: NDArray[np.float64] | None = None
    for row in values:
        scaled = math.sqrt(3) * row.astype(np.float64)
        total += float(scaled.sum())
        square += float(scaled @ scaled)
        across_pairs += float(scaled[1:] @ scaled[:-1])
        across_steps += 0.0 if before is None else float(scaled @ before)
        before = scaled
    return {
        "mean": total / values.size,
        "excess_variance": square / values.size - (total / values.size) ** 2 - 1,
        "step_correlation": across_steps / ((steps - 1) * pairs),
        "pair_correlation": across_pairs / (steps * (pairs - 1)),
        "standard_error": values.size**-0.5,
        "numbers": values.size,
        "distinct": len(np.unique(values)),
    }
