"""The median of samples and its confidence interval, whatever their distribution.

Times of launches are skewed and have long tails, so nothing here assumes a normal
distribution: the interval comes from order statistics (H. A. David, H. N. Nagaraja: Order
Statistics, 3rd edition, 2003, section 7.1).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scipy.stats import binom


@dataclass(frozen=True)
class Summary:
    """The median of some samples in milliseconds, and the 95 % confidence interval of it."""

    median_ms: float
    ci95_low_ms: float
    ci95_high_ms: float

    @property
    def half_width_ms(self) -> float:
        """How far the median may be off: the longer side of the interval."""
        return max(self.median_ms - self.ci95_low_ms, self.ci95_high_ms - self.median_ms)


def summarise(samples_ms: Sequence[float], confidence: float = 0.95) -> Summary:
    """Return the median and a distribution-free confidence interval of it.

    The interval runs between two of the samples, the r-th smallest and the r-th largest, with
    the largest r that covers the true median with at least the given confidence. With too few
    samples for any such r (fewer than 6 at 95 %) it runs from the smallest to the largest,
    which covers less. Raises ValueError for no samples or one that is not finite.
    """
    if not samples_ms or not all(math.isfinite(sample) for sample in samples_ms):
        raise ValueError(f"a summary needs samples that are finite numbers, not {samples_ms}")
    ordered = sorted(samples_ms)
    rank = max(1, _rank(len(ordered), confidence))
    return Summary(statistics.median(ordered), ordered[rank - 1], ordered[-rank])


@cache
def _rank(count: int, confidence: float) -> int:
    """Return the rank from either end at which the interval stops; 0 where there is none."""
    # The number of samples below the true median is binomial with probability 1/2. ppf gives
    # the smallest r with P(below <= r) >= alpha/2, so that P(below <= r - 1) < alpha/2.
    return int(binom.ppf((1 - confidence) / 2, count, 0.5))
