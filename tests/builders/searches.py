"""Results of neighbour searches whose times follow a law that the test knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import compare_results
import numpy as np
from kinds import of_kind

from gpubench.evidence.records import make_record
from gpubench.evidence.results import Results, load

Law = Callable[..., float]


def record(
    algorithm: str,
    ms: float | None,
    particles: int,
    per_cell: float,
    *,
    form: str = "count",
    moved: float | None = None,
    width: float = 0.001,
    status: str = "ok",
    **fields: Any,
) -> dict[str, Any]:
    """Return a record of one input.

    moved: the share of the particles that moved. width: by what share the interval reaches to
    either side of the median.
    """
    identity: dict[str, Any] = {
        "study": "regimes", "sweep": "map", "algorithm": algorithm, "form": form,
        "device": "cuda", "particles": particles, "per_cell": per_cell,
        "cells": [particles, 1, 1], "periodic": [False] * 3, "distribution": "uniform",
        "order": "random", "mode": "hot", "input_hash": "abc", "seed": 1,
        "moved": None if moved is None else round(moved * particles),
        "destination": None if moved is None else "next",
    }  # fmt: skip
    if ms is None:
        status = "wrong" if status == "ok" else status
        return make_record(
            **of_kind(identity | {"reason": "a pair is lost"} | fields), status=status
        )
    times = {
        "median_ms": ms, "ci95_low_ms": ms * (1 - width), "ci95_high_ms": ms * (1 + width),
        "samples_ms": [ms], "batch": 1, "bytes_moved": 16 * particles,
        "workspace_bytes": 8 * particles,
    }  # fmt: skip
    return make_record(**of_kind(identity | times | fields), status="ok")


def grid(
    laws: Mapping[str, Law],
    particles: Iterable[int],
    per_cell: Iterable[float],
    *,
    form: str = "count",
    noise: float = 0.0,
    **fields: Any,
) -> list[dict[str, Any]]:
    """Return a record of each law, which takes particles and per_cell, on each input."""
    rng = np.random.default_rng(5)
    per_cell = list(per_cell)
    return [
        record(name, law(n, p) * float(np.exp(noise * rng.normal())), n, p, form=form, **fields)
        for n in particles
        for p in per_cell
        for name, law in laws.items()
    ]


def results(*records: dict[str, Any], **fields: Any) -> Results:
    """Return the content of a file of these records."""
    found = compare_results.results(*records, **fields)
    return Results(found.environment, found.records, Path("a-regimes.json"))


def write(path: Path, records: Iterable[dict[str, Any]], **fields: Any) -> Path:
    """Write a valid results file and return its path."""
    compare_results.write(path, *records, **fields)
    load(path)
    return path
