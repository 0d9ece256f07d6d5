"""Properties of a record that its algorithm declares, read without importing the algorithm.

Records since 0.1 include the declaration. `legacy.toml` supplies it for older records, and
overrides wrong or missing declarations.
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

from gpubench.core.version import RANKS
from gpubench.evidence.records import Declared, Record

STEP = "workload-step"  # the problem of a complete simulation step
LEGACY = Path(__file__).with_name("legacy.toml")
VERSIONS = Path(__file__).with_name("versions.json")


class EqualWork(NamedTuple):
    """Equal work: measurements that agree in these properties may be ranked together."""

    problem: str | None
    task: str | None
    answer: str | None


def declared(record: Record) -> Declared:
    """Return the declaration of a record's algorithm; for an old record, from `legacy.toml`.

    A simulation step has the problem STEP, whichever algorithm maintains its cells.
    """
    found = record.declared
    if found is None:
        found = _before(record.algorithm, record.form, record.kind == "simulation")
    return _overruled(found, record.algorithm)


def group(record: Record) -> EqualWork:
    """Return the group in which a record may be ranked.

    After particles have moved, a count that rebuilds the cells does the same work as an update.
    """
    found = declared(record)
    is_update = found.task == "count" and record.at("destination") is not None
    return EqualWork(found.problem, "update" if is_update else found.task, found.answer)


def lost(record: Record) -> int:
    """Return the number of items missing from a record's answer; 0 if complete."""
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
    """Return a declaration with the overrides in `legacy.toml`."""
    for row in legacy()["overruled"]:
        said = {name: value for name, value in row.items() if name != "algorithm"}
        if row["algorithm"] == algorithm and said.get("task", found.task) == found.task:
            found = structs.replace(found, **said)
    return found


@cache
def legacy() -> dict[str, Any]:
    """Return facts that earlier results lack, including the `versions` of each commit."""
    found = tomllib.loads(LEGACY.read_text(encoding="utf-8"))
    return found | {"versions": json.loads(VERSIONS.read_text(encoding="utf-8"))}


def subject_of(record: Record) -> tuple[str, ...]:
    """Return the subject whose code a version covers: back end, algorithm, workload (or "").

    For several ranks, RANKS is the last.
    """
    workload = record.at("workload")
    subject = record.device, record.algorithm, workload or ""
    return (*subject, RANKS) if workload and record.at("ranks") else subject


def version_of(record: Record, environment: Mapping[str, Any]) -> str:
    """Return the version of what a record timed, including that of a third-party library.

    Only times of the same version may be pooled. `tools/record_versions.py` derived it from the
    record's commit, or else `core/version.py` computed it when the record was made. Without either,
    the record shares a version with all measurements of the same code.
    """
    own = record.version if "." in (record.version or "") else None  # early ones covered other code
    if not environment["dirty"]:
        known = legacy()["versions"].get((environment["commit"] or "")[:7], {})
        own = known.get(" ".join(subject_of(record)).strip(), own)
    return f"{own or environment['code_hash']} {record.library or ''}".strip()
