"""Made-up records of one kind of input."""

from __future__ import annotations

from typing import Any

from gpubench import problems

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
