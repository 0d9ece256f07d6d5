"""Estimates with standard errors, from samples that depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats

LEAST_POINTS = 3


@dataclass(frozen=True)
class Estimate:
    """A value and its standard error, in the value's unit."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.error:.2g}"

    def times(self, factor: float) -> Estimate:
        """Return the estimate multiplied by a factor."""
        return Estimate(factor * self.value, abs(factor) * self.error)


@dataclass(frozen=True)
class StraightLine:
    """A straight line: slope times x plus intercept."""

    slope: Estimate
    intercept: Estimate


def mean_of(values: Floats | Sequence[float]) -> Estimate:
    """Return the mean of two or more independent values, (values,)."""
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values)))


def mean_of_series(samples: Floats, blocks: int = 16) -> Estimate:
    """Return the mean of an equilibrium series, with the error from block averages.

    Blocks must be longer than the correlation time (Flyvbjerg and Petersen, J. Chem. Phys. 91, 461,
    1989). samples: float64 (samples,); a last, incomplete block is left out.
    """
    per_block = len(samples) // blocks
    if blocks < 2 or per_block == 0:
        raise UserError(
            f"{len(samples)} samples do not fill {blocks} blocks: two or more are needed"
        )
    of_blocks = np.asarray(samples, np.float64)[: blocks * per_block].reshape(blocks, -1)
    return mean_of(of_blocks.mean(axis=1))


def in_window(times: Floats, window: tuple[float, float]) -> NDArray[np.bool_]:
    """Return a mask of the times in a window, ends included; UserError if too few to fit."""
    first, last = window
    chosen = (times >= first) & (times <= last)
    if (count := int(chosen.sum())) < LEAST_POINTS:
        raise UserError(
            f"{count} samples lie between times {first:g} and {last:g}: a fit needs at least"
            f" {LEAST_POINTS}, so sample more often or widen the window"
        )
    return chosen


def fit_line(x: Floats, y: Floats) -> StraightLine:
    """Fit a straight line by least squares to points in the order in which they were sampled.

    Residuals of one run are correlated. If their lag-1 autocorrelation r is positive, errors are
    multiplied by sqrt((1 + r) / (1 - r)), as if there were correspondingly fewer points (Santer et
    al., J. Geophys. Res. 105, 7337, 2000).
    """
    from scipy.stats import linregress  # slow to import

    fit = linregress(x, y)
    residuals = y - (fit.slope * x + fit.intercept)
    total = float(residuals @ residuals)
    r = max(0.0, float(residuals[1:] @ residuals[:-1]) / total) if total > 0 else 0.0
    inflation = math.sqrt((1 + r) / (1 - r))
    return StraightLine(
        Estimate(float(fit.slope), float(fit.stderr) * inflation),
        Estimate(float(fit.intercept), float(fit.intercept_stderr) * inflation),
    )


def growth_rate(times: Floats, amplitudes: Floats, window: tuple[float, float]) -> Estimate:
    """Return n of amplitudes that grow as exp(n t) in a time window; negative for decay.

    times, amplitudes: float64 (samples,), amplitudes positive.
    """
    chosen = in_window(times, window)
    return fit_line(times[chosen], _log(amplitudes[chosen], "amplitudes")).slope


def growth_exponent(times: Floats, sizes: Floats, window: tuple[float, float]) -> Estimate:
    """Return p of sizes that grow as t^p in a time window.

    times, sizes: float64 (samples,), positive within the window.
    """
    chosen = in_window(times, window)
    return fit_line(_log(times[chosen], "times"), _log(sizes[chosen], "sizes")).slope


def _log(values: Floats, name: str) -> Floats:
    if not (values > 0).all():
        raise UserError(f"{name} must be positive to have a logarithm, and one is {values.min():g}")
    return np.log(values)
