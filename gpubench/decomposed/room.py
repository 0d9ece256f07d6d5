"""Sizing of a part's arrays, and when planes are reassigned."""

from __future__ import annotations

import math

SPARE = 1.06  # allocated rows of a part per particle
SPARE_OF_EVEN = 1.02  # the same where particles fill the box evenly
FULL_SHARE = 0.99  # of these rows, from which on a part is nearly full
SPARE_PLANES = 8  # empty planes that keep cells above the last rank's particles
SPARE_EDGE = 1.5  # allocated rows of a halo plane per particle
LEAST = 1024  # minimum number of spare rows
BALANCE_EVERY = 32  # steps between checks of the balance
IMBALANCE = 0.03  # relative excess of the largest part above which planes are reassigned
# Where a step needs no host, one with a new cut is some 2 ms longer, in which a GPU does a step of
# so many particles: planes are reassigned once as much was lost.
WORTH_A_CUT = 8_000_000
WARP = 32


def aligned(rows: float) -> int:
    """Round a number of rows up, so that the next rows are aligned for a warp."""
    return math.ceil(rows / WARP) * WARP
