"""Versions of what was timed: two times of one version may be pooled, two of others never.

A record has the version that `core/version.py` computed when it was made. Those of results that
are older than that stand in `versions.json`, as `tools/record_versions.py` computed them from their
commits. What is known of neither is of one version with what the same code measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpubench.evidence.records import Record

FILE = Path(__file__).with_name("versions.json")


def subject_of(record: Record) -> tuple[str, str, str]:
    """Return what has a version: back end, algorithm, and workload or an empty name."""
    return record.device, record.algorithm, record.at("workload") or ""


def version_of(record: Record, environment: Mapping[str, Any]) -> str:
    """Return the version of what a record timed, that of a third-party library included."""
    own = record.version
    if own is None and not environment["dirty"]:
        commit = (environment["commit"] or "")[:7]
        own = _older().get(commit, {}).get(" ".join(subject_of(record)).strip())
    return f"{own or environment['code_hash']} {record.library or ''}".strip()


@cache
def _older() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found
