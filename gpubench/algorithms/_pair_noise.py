"""Base class of the pair noise generators, and statistics of random numbers."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from gpubench.problems.pair_noise.contract import Noise, PairNoise

BLOCK = 256


class DrawnNoise(PairNoise):
    """Noise drawn by the kernel in kernels/pair_noise.cu."""

    def prepare(self) -> None:
        self._values = self.allocate((self.launches, self.pairs), "float32")
        self._blocks = self.device.blocks(self.pairs, BLOCK)
        self._constants = {"BLOCK": BLOCK, "STEPS": self.launches, **self._generator_constants()}
        self._draw = self.device.kernel("pair_noise.cu", "draw_noise", **self._constants)

    @abstractmethod
    def _generator_constants(self) -> dict[str, int]:
        """Return the compile-time constants of kernels/common/noise.h."""

    def launch(self) -> None:
        self._draw(
            self._blocks, BLOCK, self.i, self.j, self.clock, self._values, np.uint32(self.pairs)
        )

    @property
    def answer(self) -> Noise:
        return Noise(self._values)

    def traffic_bytes(self) -> int:
        # Mean over the steps: per pair, the kernel reads both ids once, and writes a number a step.
        return (8 + 4 * self.launches) * self.pairs // self.launches

    def outcome(self) -> dict[str, int | float | str]:
        return moments(self.device.download(self._values))


def moments(values: NDArray[np.float32]) -> dict[str, int | float | str]:
    """Return statistics of numbers in [-1, 1], scaled by sqrt(3): uniform ones have variance 1.

    values: shape (steps, pairs).
    Returns the mean; the variance minus 1; the correlation between successive steps of a pair, and
    between successive pairs in a step; the standard error of the mean and of the correlations,
    1 / sqrt(count), if the numbers are independent; the count of numbers; and the count of distinct
    numbers. Returns {} for a single step or pair.
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
