"""Facts that an algorithm, possibly third-party, reports about itself, validated for a record."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpubench.core.algorithm import Algorithm

LARGEST = 2**63 - 1  # the largest number that readers of results accept


def facts_of(algorithm: Algorithm) -> dict[str, Any]:
    """Return the fields of a record that an algorithm knows.

    Raises TypeError or ValueError, with the name of the method, for a value no record can hold.
    """
    return {
        "bytes_moved": _amount("traffic_bytes", algorithm.traffic_bytes()),
        "workspace_bytes": _amount("workspace_bytes", algorithm.workspace_bytes),
        "peak_bytes": _amount("peak_bytes", algorithm.peak_bytes()),
        "library": _text_or_none("library", algorithm.library),
        "outcome": _outcome(algorithm.outcome()),
    }


def require_countable(algorithm: Algorithm) -> None:
    """Raise TypeError or ValueError if an algorithm's `launches` or `no_graph` is invalid."""
    if not _amount("launches", algorithm.launches):
        raise ValueError("launches must be at least 1")
    _text_or_none("no_graph", algorithm.no_graph)


def printable(text: str) -> str:
    """Escape characters that files or terminals cannot represent."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _amount(name: str, value: Any) -> int | None:
    """Return a number of bytes or launches as a plain number."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if not 0 <= number <= LARGEST:
        raise ValueError(f"{name} must be 0 to {LARGEST}, not {number}")
    return number


def _text_or_none(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a text or None, not {value!r}")
    return None if value is None else printable(value)


def _outcome(outcome: Any) -> dict[str, Any]:
    """Return the outcome of a launch as plain values by name."""
    if not isinstance(outcome, Mapping) or not all(isinstance(name, str) for name in outcome):
        raise TypeError(f"outcome must be values by their names, not {outcome!r}")
    return {printable(name): _value(name, value) for name, value in outcome.items()}


def _value(name: str, value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        return printable(plain)
    if not isinstance(plain, int | float) or not abs(plain) <= LARGEST or not math.isfinite(plain):
        raise ValueError(f"outcome {name!r} must be a finite number or a text, not {value!r}")
    return plain
