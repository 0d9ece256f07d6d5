"""What a record says of the algorithm behind it, so that reading it takes no algorithm.

Records since 0.1 carry what their algorithm declares. `legacy.toml` says it of those before.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

STEP = "workload-step"  # the problem of a whole step of a simulation
LEGACY = Path(__file__).with_name("legacy.toml")


class Declared(NamedTuple):
    """What an algorithm declares of a form; see `Algorithm.declared` in core/contracts.py.

    problem: what is asked; None where it is not declared. task: how far a search goes. answer: its
    kind. replaces: of an update, the full build of what it updates. loses: the outcome that
    counts what the answer lacks.
    """

    problem: str | None = None
    task: str | None = None
    answer: str | None = None
    replaces: str | None = None
    loses: str | None = None


class Group(NamedTuple):
    """Equal work: what may be ranked together."""

    problem: str | None
    task: str | None
    answer: str | None


def declared(record: Mapping[str, Any]) -> Declared:
    """Return what the algorithm of a record declares, from the record or, of old ones, from a file.

    A record of a step of a simulation declares that as its problem, whatever keeps the cells.
    """
    if found := record.get("declared"):
        return Declared(**found)
    return _before(record["algorithm"], record["form"], record["workload"] is not None)


def group(record: Mapping[str, Any]) -> Group:
    """Return the group in which a record may be ranked.

    Where particles have moved, a count that rebuilds does the same as an update.
    """
    problem, task, answer, *_ = declared(record)
    if task == "count" and record["destination"] is not None:
        task = "update"
    return Group(problem, task, answer)


def lost(record: Mapping[str, Any]) -> int:
    """Return how much the answer of a record lacks; 0 of a complete one."""
    loses = declared(record).loses
    return int((record["outcome"] or {}).get(loses) or 0) if loses else 0


@cache
def _before(algorithm: str, form: str, is_step: bool) -> Declared:
    for row in _rows():
        if fnmatchcase(algorithm, row["algorithm"]) and fnmatchcase(form, row["form"]):
            found = Declared(*(row.get(name) for name in Declared._fields))
            step = found._replace(problem=STEP, task=None, answer=None)
            return step if is_step else found
    return Declared(STEP) if is_step else Declared()


@cache
def _rows() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = tomllib.loads(LEGACY.read_text(encoding="utf-8"))["declared"]
    return rows
