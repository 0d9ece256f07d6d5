"""Parse parameter values, and check their range."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from gpubench.base.errors import UserError
from gpubench.base.numbers import read_number, read_whole
from gpubench.workloads.workload import Value

# Ranges of parameters: int32 counts, and values that float32 can square, divide and sum.
WHOLE_SIZES, SIZES = (1, 2**31 - 1), (1e-9, 1e9)


def parse(name: str, text: str, kind: type[Value]) -> Value:
    """Parse a value as `kind`, the type of the default; raise UserError for another type."""
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


def require_size(name: str, value: Value) -> None:
    """Raise UserError for a finite number, not 0, outside the range that kernels support."""
    if isinstance(value, str) or (isinstance(value, float) and not math.isfinite(value)):
        return
    least, most = WHOLE_SIZES if isinstance(value, int) else SIZES
    if value != 0 and not least <= abs(value) <= most:
        raise UserError(f"{name} must be 0, or {least:g} to {most:g} in size, not {value}")


def require_known_values(
    parameters: Mapping[str, Value], known: Mapping[str, Collection[str]]
) -> None:
    """Raise UserError if a parameter does not have one of its known values."""
    for name, values in known.items():
        if parameters[name] not in values:
            raise UserError(f"{name} must be one of {', '.join(values)}, not {parameters[name]}")
