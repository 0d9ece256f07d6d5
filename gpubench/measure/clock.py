"""The package's only access to the clock."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")


def now() -> float:
    """Return seconds on a monotonic clock; only differences are meaningful."""
    return time.perf_counter()


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Call `work`; return its result and its duration in seconds by the host's clock."""
    begin = now()
    result = work()
    return result, now() - begin


class Deadline:
    """A point in time, given as seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._end = now() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether the deadline is in the past."""
        return now() >= self._end


def timestamp() -> str:
    """Return the date and time in UTC to the second, ISO 8601, e.g. 2026-01-31T12:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
