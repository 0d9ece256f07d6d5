"""Checks of the arguments that users pass in Python: what is odd is refused in one line."""

from __future__ import annotations

import math
import operator
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpubench.base.errors import UserError

MOST_SHOWN = 100  # characters of a user's value quoted in an error message


def shown(value: Any) -> str:
    """Return a user's value as one short line, for error messages."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number of more digits than Python writes
        text = type(value).__name__
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def without_gradient(name: str, value: Any) -> None:
    """Raise UserError if a value or an item of it requires a gradient, which is not computed."""
    parts = value if isinstance(value, tuple | list) else (value,)
    if any(getattr(part, "requires_grad", False) for part in parts):
        raise UserError(f"there is no gradient in {name}: give {name} detached, as numbers")


def number(name: str, value: Any, positive: bool = False) -> float:
    """Return a finite number of at least 0, or above 0; raise UserError for anything else."""
    without_gradient(name, value)
    found = math.nan
    with suppress(TypeError, ValueError, OverflowError):
        found = math.nan if isinstance(value, str | bytes) else float(value)
    if not math.isfinite(found) or found < 0 or (positive and found == 0):
        least = "above 0" if positive else "of at least 0"
        raise UserError(f"{name} takes a number {least}, not {shown(value)}")
    return found


def whole(name: str, value: Any, least: int, most: float = math.inf) -> int:
    """Return a whole number from `least` to `most`; raise UserError for anything else."""
    with suppress(TypeError):
        if not isinstance(value, bool) and least <= (found := operator.index(value)) <= most:
            return found
    limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
    raise UserError(f"{name} takes a whole number {limits}, not {shown(value)}")


def path_of(name: str, value: Any) -> Path:
    """Return a path; raise UserError for what is neither a string nor a path."""
    with suppress(TypeError):
        return Path(value)
    raise UserError(f"{name} takes a path, not {shown(value)}")
