"""Findings of checks, made up."""

from __future__ import annotations

from typing import Any

from fake_algorithms import ENVIRONMENT

from gpubench.evidence.physics_results import (
    CheckResults,
    CheckRun,
    Figure,
    Panel,
    PanelAxis,
    Series,
)


def checked(*runs: CheckRun, **changes: Any) -> CheckResults:
    given: dict[str, Any] = {
        "family": "dpd", "size": "long", "environment": ENVIRONMENT, "checks": list(runs),
    }  # fmt: skip
    return CheckResults(**given | changes)


FIGURE = Figure(
    "growth", "Growth", "How it grows.", PanelAxis("time", "log"), PanelAxis("size"),
    [Panel("3D", [Series("measured", [1.0, 2.0], [3.0, 4.0]), Series("t", [1, 2], [3, 4], "fit")])],
)  # fmt: skip
