"""How a study has samples taken: in which mode, and when there are enough.

Apart from `sampling`, so that reading a study imports no statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Mode = Literal["cold", "hot", "graph"]


@dataclass(frozen=True)
class Budget:
    """When to stop sampling a task.

    seconds_per_task: device time, including what makes each sample cold or hot.
    min_samples: taken in any case, also where that costs more time. From 6 on, the interval
        of the median is a true 95 % interval.
    max_samples: never exceeded.
    relative_half_width: narrow enough: of the ratio to what a task is compared with, or of its
        own median where there is nothing to compare.
    max_batch: the most calls of the work in one sample, but for a whole turn of all its inputs.
    most_over_fastest: a task that takes more than so many times as long as the fastest that it is
        compared with is left out where `min_samples` of it would far outlast its time.
    """

    seconds_per_task: float = 0.25
    min_samples: int = 11
    max_samples: int = 200
    relative_half_width: float = 0.01
    max_batch: int = 256
    most_over_fastest: float = math.inf

    def __post_init__(self) -> None:
        if not 1 <= self.min_samples <= self.max_samples:
            raise ValueError(f"need 1 <= min_samples <= max_samples: {self}")
        if self.max_batch < 1:
            raise ValueError(f"a batch holds at least one launch: {self}")
