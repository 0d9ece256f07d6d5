"""Sizing of a part's arrays, and when planes are reassigned."""

from __future__ import annotations

import math

SPARE = 1.1  # rows of a part, over its particles at allocation
SPARE_PLANES = 8  # above the particles of the last rank
SPARE_EDGE = 1.5  # rows for a halo plane, over its particles
LEAST = 256  # minimum of spare rows
BALANCE_EVERY = 32  # steps
IMBALANCE = 0.03  # of the largest part over the mean, above which planes are reassigned
WARP = 32


def aligned(rows: float) -> int:
    """Round a number of rows up, so that the next rows are aligned for a warp."""
    return math.ceil(rows / WARP) * WARP
