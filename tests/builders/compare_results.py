"""Results files for tests of comparisons, with times that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fake_algorithms import ENVIRONMENT
from kinds import of_kind

from gpubench.evidence.records import AnyRecord, as_json, make_record, record_of
from gpubench.evidence.results import Results

GPU = {
    "backend": "cuda", "name": "A GPU", "is_cpu": False, "uuid": "GPU-1", "nvcc": "13.0",
    "cuda_toolkit": "13.0.0", "driver": "580", "clocks_locked": None, "ecc": True,
}  # fmt: skip
SAMPLES = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.005]


def record(
    algorithm: str = "radix-grid",
    samples: list[float] | None = None,
    status: str = "ok",
    **fields: Any,
) -> AnyRecord:
    """Return a record of a cell; without a time where its status is not ok."""
    identity: dict[str, Any] = {
        "study": "a-study", "sweep": "table", "algorithm": algorithm, "form": "order",
        "device": "cuda", "particles": 4096, "per_cell": 4.0, "distribution": "uniform",
        "order": "random", "mode": "hot", "input_hash": "abc", "seed": 1,
    }  # fmt: skip
    if status != "ok":
        return make_record(**of_kind(identity | {"reason": "it said so"} | fields), status=status)
    samples = samples or SAMPLES
    middle = sorted(samples)[len(samples) // 2]
    times = {"median_ms": middle, "ci95_low_ms": min(samples), "ci95_high_ms": max(samples)}
    measured = {"samples_ms": samples, "batch": 4, **times}
    return make_record(**of_kind(identity | measured | fields), status="ok")


def environment(device: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return an environment of a GPU; what is given takes the place of what is usual."""
    return ENVIRONMENT | {"device": GPU | (device or {})} | fields


def results(*records: dict[str, Any], **fields: Any) -> Results:
    """Return the content of a file, as `results.load` gives it."""
    return Results(environment(**fields), list(map(record_of, records)), Path("a.json"))


def write(path: Path, *records: dict[str, Any], **fields: Any) -> Path:
    """Write a results file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "schema": 2,
        "environment": environment(**fields),
        "records": list(map(as_json, records)),
    }
    path.write_text(json.dumps(content))
    return path


def processes(*centres: float, **fields: Any) -> list[dict[str, Any]]:
    """Return a record of one cell for each process, with samples around its centre."""
    return [record(samples=[centre * sample for sample in SAMPLES], **fields) for centre in centres]
