"""Calibrations for tests, with times that are made up."""

from __future__ import annotations

from typing import Any

import numpy as np
from compare_results import environment

from gpubench.compare.calibrate import evaluate
from gpubench.evidence.calibration import Calibration, Measured

LOOKS = (8, 12)
FINE = 1e-9  # of a clock, in ms


def pairs(
    count: int, noise: float = 0.0, ratio: float = 1.0, slowed: float = 1.05, seed: int = 1
) -> list[Measured | None]:
    """Return pairs of processes whose log ratios have a standard deviation `noise`."""
    rng = np.random.default_rng(seed)
    drawn = np.exp(noise * rng.standard_normal((count, 3))).tolist()
    return [Measured(2 * base, ratio * one, slowed * other) for base, one, other in drawn]


def calibration(
    cells: dict[str, list[Measured | None]], comparisons: int = 50, **fields: Any
) -> Calibration:
    """Return a calibration of a GPU with verdicts drawn from its pairs."""
    clock_ms = dict.fromkeys(cells, FINE)
    verdicts = evaluate(cells, clock_ms, 0.032, 0.99, LOOKS, comparisons)
    count = max(len(series) for series in cells.values())
    started = [f"2026-01-31T12:{minute:02}:00Z" for minute in range(count)]
    return Calibration(
        **{"environment": environment(), "study": "a-study", "injected": 0.05}
        | fields, started=started, clock_ms=clock_ms, pairs=cells, verdicts=verdicts
    )  # fmt: skip
