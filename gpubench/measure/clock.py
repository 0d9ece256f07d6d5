"""The clock: everything else in the package that needs the time asks here."""

import time
from datetime import UTC, datetime


def now() -> float:
    """Return seconds on a clock that never goes back; only differences mean anything."""
    return time.perf_counter()


def timestamp() -> str:
    """Return the date and time in UTC to the second, ISO 8601, e.g. 2026-01-31T12:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def today() -> str:
    """Return the date in UTC, e.g. 2026-01-31."""
    return timestamp()[:10]
