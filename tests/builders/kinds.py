"""Made-up records of one kind of input."""

from __future__ import annotations

from typing import Any

from gpubench import problems
from gpubench.evidence.inputs import names
from gpubench.evidence.records import Record, as_json

SPECIFIC = ("workload", "matrix", "records", "key_count", "pairs", "surface", "mesh", "particles")


def of_kind(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out the axes of other kinds than the most specific one that fields name."""
    by_name: dict[str, Any] = {}
    for kind in problems.own_kinds().values():
        by_name.setdefault(kind.named_by, kind)
    named = next((n for n in SPECIFIC if fields.get(n) is not None), None)
    if named is None:
        return fields
    own = {*problems.recorded(by_name[named])}
    other = {*problems.axes(), "cells"} - own - ({"cells"} if "per_cell" in own else set())
    return {n: v for n, v in fields.items() if n not in other}


def flat_fields(record: Record) -> dict[str, Any]:
    """Return a record's fields with its axes beside them, as files of schema 1 have it."""
    plain = as_json(record)
    drawn = plain.pop("drawn", None) or {}
    axes = {n: v for n, v in (plain.pop("input", None) or {}).items() if n != "kind"}
    empty = dict.fromkeys((*names(), "cells"))
    return empty | plain | axes | drawn
