"""Alias for asv benchmarks of older commits: `FAMILIES` maps names to problems with a `kind`."""

from types import SimpleNamespace
from typing import Any

from gpubench import problems


def __getattr__(name: str) -> Any:
    if name == "FAMILIES":
        known = problems.problems().items()
        return {name: SimpleNamespace(kind=each.takes) for name, each in known}
    raise AttributeError(name)
