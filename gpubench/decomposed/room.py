"""How much room a part of a box has, and when planes change hands."""

from __future__ import annotations

import math

SPARE = 1.1  # rows of a part, over the particles that it has when they are allocated
SPARE_PLANES = 8  # of the last rank, above its particles
SPARE_EDGE = 1.5  # rows for a plane of the halo, likewise
LEAST = 256  # rows spare in any case
BALANCE_EVERY = 32  # steps
IMBALANCE = 0.03  # of the largest part over the mean, which planes change hands for
WARP = 32


def aligned(rows: float) -> int:
    """Return at least so many rows, so that what begins behind them is aligned for a warp."""
    return math.ceil(rows / WARP) * WARP
