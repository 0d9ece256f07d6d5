"""Checks of the physics for pages, with made-up findings."""

from __future__ import annotations

from typing import Any

import numpy as np
from fake_algorithms import ENVIRONMENT

from gpubench.evidence.physics_results import (
    CheckResults,
    CheckRun,
    Figure,
    Finding,
    Panel,
    PanelAxis,
    Reference,
    Series,
)

TIMES = np.geomspace(1, 100, 40).tolist()


GROWTH = Figure(
    "domain-size", "Domains", "How they grow <fast>.",
    PanelAxis("time", "log"), PanelAxis("size", "log"),
    [
        Panel(
            "3D",
            [
                Series("measured", TIMES, [t**0.5 for t in TIMES]),
                Series("t^0.50", [10.0, 100.0], [10**0.5, 10.0], "fit"),
            ],
        )
    ],
)  # fmt: skip


PRESSURE = Finding("pressure", 23.6471, 0.0041, Reference(23.64, 0.07, "A | B"), "of <12>")


def a_check(*findings: Finding, **changes: Any) -> CheckRun:
    given: dict[str, Any] = {
        "name": "structure", "question": "Is it the fluid?",
        "setting": {"particles": 65536, "depths": [3.0, 6.0]}, "seconds": 1.0, "failure": None,
        "findings": list(findings), "figures": [],
    }  # fmt: skip
    return CheckRun(**given | changes)


def found(*runs: CheckRun, **changes: Any) -> CheckResults:
    given: dict[str, Any] = {
        "family": "dpd", "size": "long", "environment": ENVIRONMENT, "checks": list(runs),
    }  # fmt: skip
    return CheckResults(**given | changes)
