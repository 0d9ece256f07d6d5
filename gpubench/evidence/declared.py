"""What a record says of the algorithm behind it, so that reading it takes no algorithm.

Records since 0.1 carry what their algorithm declares. `legacy.toml` says it of those before, and
overrules what was declared wrongly or not yet.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from gpubench.evidence.records import Declared, Record

STEP = "workload-step"  # the problem of a whole step of a simulation
LEGACY = Path(__file__).with_name("legacy.toml")
VERSIONS = Path(__file__).with_name("versions.json")


class EqualWork(NamedTuple):
    """Equal work: what may be ranked together."""

    problem: str | None
    task: str | None
    answer: str | None


def declared(record: Record) -> Declared:
    """Return what the algorithm of a record declares, from the record or, of old ones, from a file.

    A record of a step of a simulation declares that as its problem, whatever keeps the cells.
    """
    found = record.declared
    if found is None:
        found = _before(record.algorithm, record.form, record.kind == "simulation")
    return _overruled(found, record.algorithm)


def group(record: Record) -> EqualWork:
    """Return the group in which a record may be ranked.

    Where particles have moved, a count that rebuilds does the same as an update.
    """
    found = declared(record)
    is_update = found.task == "count" and record.at("destination") is not None
    return EqualWork(found.problem, "update" if is_update else found.task, found.answer)


def lost(record: Record) -> int:
    """Return how much the answer of a record lacks; 0 of a complete one."""
    loses = declared(record).loses
    found = record.outcome.get(loses) if loses else None
    return int(found) if isinstance(found, int | float) else 0


@cache
def _before(algorithm: str, form: str, is_step: bool) -> Declared:
    rows = (row for row in legacy()["declared"] if fnmatchcase(algorithm, row["algorithm"]))
    found: dict[str, str] = next((row for row in rows if fnmatchcase(form, row["form"])), {})
    said = {name: found.get(name) for name in ("problem", "task", "answer", "replaces", "loses")}
    return Declared(**said | ({"problem": STEP, "task": None, "answer": None} if is_step else {}))


@cache
def _overruled(found: Declared, algorithm: str) -> Declared:
    """Return what an algorithm declares with what `legacy.toml` says in its place."""
    for row in legacy()["overruled"]:
        said = {name: value for name, value in row.items() if name != "algorithm"}
        if row["algorithm"] == algorithm and said.get("task", found.task) == found.task:
            found = structs.replace(found, **said)
    return found


@cache
def legacy() -> dict[str, Any]:
    """Return what earlier results do not say of themselves; of each commit, the `versions`."""
    found = tomllib.loads(LEGACY.read_text(encoding="utf-8"))
    return found | {"versions": json.loads(VERSIONS.read_text(encoding="utf-8"))}


def subject_of(record: Record) -> tuple[str, str, str]:
    """Return what has a version: back end, algorithm, and workload or an empty name."""
    return record.device, record.algorithm, record.at("workload") or ""


def version_of(record: Record, environment: Mapping[str, Any]) -> str:
    """Return the version of what a record timed, that of a third-party library included.

    Two times of one version may be pooled, two of others never. It is what
    `tools/record_versions.py` computed from the record's commit, else what `core/version.py` did
    when it was made. Without either, it is of one version with what the same code measured.
    """
    own = record.version if "." in (record.version or "") else None  # the first hung on others
    if not environment["dirty"]:
        known = legacy()["versions"].get((environment["commit"] or "")[:7], {})
        own = known.get(" ".join(subject_of(record)).strip(), own)
    return f"{own or environment['code_hash']} {record.library or ''}".strip()
