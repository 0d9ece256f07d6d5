"""Sampling modes and budgets of a study: how samples are taken, and how many.

This module is apart from `sampling`, so that reading a study imports no statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Mode = Literal["cold", "hot", "graph"]


@dataclass(frozen=True)
class Budget:
    """When to stop sampling a task.

    seconds_per_task: device time, including the lead-in that makes each sample cold or hot.
    min_samples: always taken, even if that exceeds `seconds_per_task`. At least 6 are needed for a
        full 95 % confidence interval of the median.
    max_samples: never exceeded.
    relative_half_width: stop when the confidence interval of the ratio to the fastest task (without
        a comparison: of the median) has a half width of at most this fraction of its centre.
    max_batch: maximum number of calls in a sample; one call of each of the works may exceed it.
    most_over_fastest: a task slower than the fastest of its comparison by more than this factor
        is left out, if `min_samples` of it would far exceed `seconds_per_task`.
    energy: whether loops of some seconds follow, whose joules are read.
    """

    seconds_per_task: float = 0.25
    min_samples: int = 11
    max_samples: int = 200
    relative_half_width: float = 0.01
    max_batch: int = 256
    most_over_fastest: float = math.inf
    energy: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.min_samples <= self.max_samples:
            raise ValueError(f"need 1 <= min_samples <= max_samples: {self}")
        if self.max_batch < 1:
            raise ValueError(f"a batch holds at least one launch: {self}")
