"""The median of samples and its distribution-free confidence interval.

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
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

# Drift or bimodality is remarked on if chance alone would cause it with a probability below CHANCE,
# and if its size is at least WORTH_SAYING times the median.
CHANCE = 1e-3
WORTH_SAYING = 0.02
LEAST_HUMP = 0.15  # minimum fraction of the samples in each of two modes
# The valley is the middle half of the interval between the medians of the two clusters. It holds
# about a quarter of normally or uniformly distributed samples; far fewer mean two modes.
SHARE_IN_VALLEY = 0.2


@dataclass(frozen=True)
class Summary:
    """The median of some samples in milliseconds, and its 95 % confidence interval."""

    median_ms: float
    ci95_low_ms: float
    ci95_high_ms: float

    @property
    def half_width_ms(self) -> float:
        """The uncertainty of the median: its distance from the farther end of its interval."""
        return max(self.median_ms - self.ci95_low_ms, self.ci95_high_ms - self.median_ms)


def six_digits(value: float) -> float:
    """Round to six significant digits, as in records."""
    return float(f"{value:.6g}")


def summarise(samples_ms: Sequence[float], confidence: float = 0.95) -> Summary:
    """Return the median and its distribution-free confidence interval.

    The bounds are the r-th smallest and the r-th largest sample, with the largest r for which the
    interval covers the true median with at least the given confidence. With too few samples for
    any such r (fewer than 6 at 95 %), the bounds are the smallest and the largest sample, which
    give less confidence. Raises ValueError if there are no samples or one is not finite.
    """
    if not samples_ms or not all(math.isfinite(sample) for sample in samples_ms):
        raise ValueError(f"a summary needs samples that are finite numbers, not {samples_ms}")
    ordered = sorted(samples_ms)
    rank = max(1, _rank(len(ordered), confidence))
    return Summary(statistics.median(ordered), ordered[rank - 1], ordered[-rank])


def remarks_on(samples_ms: Sequence[float]) -> list[str]:
    """Describe unusual features of samples, given in the order in which they were taken.

    Drift: Kendall's tau between samples and their order, and the Theil-Sen slope. Bimodal: the
    samples form two clusters, with very few samples between their medians; detecting this takes
    at least 31 samples.
    """
    samples = np.asarray(samples_ms, float)
    if len(samples) < 6 or np.ptp(samples) == 0:
        return []
    median = float(np.median(samples))
    if median <= 0:
        return []
    return [text for text in (_drift(samples, median), _humps(samples, median)) if text]


def _drift(samples: NDArray[np.float64], median: float) -> str:
    from scipy.stats import kendalltau, theilslopes  # slow to import

    order = np.arange(len(samples))
    change = theilslopes(samples, order)[0] * len(samples) / median
    if abs(change) < WORTH_SAYING or kendalltau(order, samples).pvalue > CHANCE:
        return ""
    return f"drift: {'slower' if change > 0 else 'faster'} by {abs(change):.1%} from first to last"


def _humps(samples: NDArray[np.float64], median: float) -> str:
    ordered = np.sort(samples)
    count = len(ordered)
    # Split into the two clusters with the least total sum of squares.
    below = np.arange(1, count)
    sums = np.cumsum(ordered)
    between = sums[:-1] ** 2 / below + (sums[-1] - sums[:-1]) ** 2 / (count - below)
    first = 1 + int(np.argmax(between))  # index of the first sample of the upper cluster
    low, high = float(np.median(ordered[:first])), float(np.median(ordered[first:]))
    quarter = (high - low) / 4
    valley = int(np.sum((ordered > low + quarter) & (ordered < high - quarter)))
    if high - low < WORTH_SAYING * median or min(first, count - first) < LEAST_HUMP * count:
        return ""
    from scipy.stats import binom  # slow to import

    if binom.cdf(valley, count, SHARE_IN_VALLEY) > CHANCE:
        return ""
    share = (count - first) / count
    return f"bimodal: at {low:.4g} and {high:.4g} ms, {share:.0%} of the samples in the slower"


@cache
def _rank(count: int, confidence: float) -> int:
    """Return r of `summarise`: the rank of the bounds, from either end; 0 if none suffices."""
    # The number of samples below the true median is binomial with probability 1/2. This is the
    # smallest r with P(below <= r) >= alpha/2, so that P(below <= r - 1) < alpha/2.
    ways = accumulate(math.comb(count, below) for below in range(count + 1))
    return next(r for r, many in enumerate(ways) if many / 2**count >= (1 - confidence) / 2)
