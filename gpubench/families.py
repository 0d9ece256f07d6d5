"""Door for asv's files of older commits: the problems by their names, as `FAMILIES`."""

from typing import Any

from gpubench import problems


def __getattr__(name: str) -> Any:
    if name == "FAMILIES":
        return problems.problems()
    raise AttributeError(name)
