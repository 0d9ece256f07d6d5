"""Parameters of workloads and of algorithms as they are written: NAME=VALUE."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gpubench.core import registry
from gpubench.core.errors import UserError
from gpubench.core.numbers import read_number, read_whole
from gpubench.workloads.workload import Value


def parse_parameters(texts: Sequence[str], defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Read NAME=VALUE pairs, each value of the type of its default.

    Raises UserError for an unknown name and for a value of another type.
    """
    parameters: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UserError(f"a parameter is given as NAME=VALUE, not {text!r}")
        registry.require_known("parameter", name, defaults)
        parameters[name] = parse(name, value, type(defaults[name]))
    return parameters


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
