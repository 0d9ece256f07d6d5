"""Steps of a fluid on one rank and on several, with made-up times."""

from __future__ import annotations

from typing import Any

from report_pages import step_record

from gpubench.evidence.records import waits_for
from gpubench.studies.study import load_study

PUBLISHED = load_study("silva2012-table1").published
assert PUBLISHED is not None
PRINTED = tuple(int(row) for row in PUBLISHED.rows)
SIZES = (*PRINTED, 4194304, 16777216)
# Seconds for a particle and step, over all else.
SUBJECTS = {
    ("counting-sort", "order"): 1.1,
    ("counting-sort", "reorder"): 1.0,
    ("radix-grid", "reorder"): 1.3,
}
WAYS = [(None, None), (2, "slab"), (2, "master"), (4, "slab"), (4, "master")]


def phases(
    factor: float, particles: int, shares: int | None, decomposition: str | None
) -> dict[str, float]:
    n = particles / 1e6 / (shares or 1)
    found = {"cell ids": 0.01 * n, "sort": 0.1 * n * factor, "density": 0.2 * n, "force": 0.3 * n}
    if shares:
        halo = 0.02 + (0.02 if decomposition == "slab" else 0.2) * (particles / 1e6) ** (2 / 3)
        found |= {"exchange halo": halo, "exchange density": halo / 2}
    return {**found, "integrate": 0.08 * n, "draw": 0.05 * n + 0.01}


def step(
    algorithm: str = "counting-sort",
    form: str = "reorder",
    particles: int = 32000,
    shares: int | None = None,
    decomposition: str | None = None,
    **changes: Any,
) -> dict[str, Any]:
    parts = phases(SUBJECTS[algorithm, form], particles, shares, decomposition)
    median = sum(time for name, time in parts.items() if name != "draw")
    about: dict[str, Any] = {
        "study": "silva2012-table1", "sweep": "several" if shares else "one",
        "algorithm": algorithm, "form": form, "particles": particles, "workload": "sph-dam-break",
        "skin": 0.0, "time_step": 0.2, "ranks": shares, "decomposition": decomposition,
        "mode": "hot", "steps": 2, "phases_ms": parts,
        "outcome": {"steps_done": 100}, "input_hash": "0123456789abcdef",
    }  # fmt: skip
    return step_record(median, **about | changes)


def waiting(shares: int | None, decomposition: str | None, **changes: Any) -> dict[str, Any]:
    study = changes.get("study", "silva2012-table1")
    reason = waits_for(study, shares)
    return step(
        shares=shares, decomposition=decomposition, status="skipped", reason=reason, **changes
    )


def every_record() -> list[dict[str, Any]]:
    found = [step(*subject, size, *way) for way in WAYS for size in SIZES for subject in SUBJECTS]
    return [*(waiting(2, "slab", particles=size, mode="hot") for size in SIZES), *found]
