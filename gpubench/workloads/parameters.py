"""Values of parameters as they are written."""

from __future__ import annotations

import math

from gpubench.base.errors import UserError
from gpubench.base.numbers import read_number, read_whole
from gpubench.workloads.workload import Value


def parse(name: str, text: str, kind: type[Value]) -> Value:
    """Read a value of the type of its default; UserError for a value of another type."""
    if kind is str:
        return text
    words = {int: "a whole number", float: "a finite number"}
    try:
        value = read_whole(text) if kind is int else read_number(text)
    except ValueError:
        raise UserError(f"parameter {name} takes {words[kind]}, not {text!r}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"parameter {name} takes {words[float]}, not {text!r}")
    return value
