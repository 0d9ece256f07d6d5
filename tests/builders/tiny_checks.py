"""Checks of the physics at sizes for a second or two, at which only what is exact is known."""

from __future__ import annotations

from typing import Any

from gpubench.devices import Device
from gpubench.evidence.physics_results import CheckRun, Finding
from gpubench.physics_checks.runner import FAMILIES, run_check

TINY: dict[str, dict[str, dict[str, Any]]] = {
    "dpd": {
        "pair-noise": {"pairs": 5000},
        "steps": {"particles": 800},
        "momentum": {"particles": 300, "steps": 300},
        "energy": {"particles": 300, "span": 2.0},
        "trajectories": {"particles": 700, "steps": 4},
        "temperature": {"particles": 500, "span": 12.8, "integrators": ["velocity-verlet"]},
        "noise-generators": {"particles": 400, "span": 12.8},
        "structure": {"particles": 600, "snapshots": 4, "reach": 2.5, "distributions": 2},
        "self-diffusion": {"particles": 600, "span": 4.0},
        "viscosity": {"particles": 1000, "span": 8.0},
        "domains-2d": {"dimensions": 2, "particles": 900, "span": 70.0, "runs": 1, "regimes": 1},
        "domains-3d": {"dimensions": 3, "particles": 2000, "span": 30.0, "runs": 2, "regimes": 1},
        "mixing": {"particles": [1500], "depths": [3.0], "span": 60.0},
        "single-mode": {
            "wavelength": 16.0, "depth": 3.0, "repulsion": 32.0, "runs": 2,
            "tension_particles": 1200, "tension_snapshots": 4,
        },
    },
    "sph": {
        "kernels": {"neighbours": 30.0},
        "steps": {"particles": 500, "span": 4},
        "exchange": {"particles": 800, "span": 5},
        "integrators": {"particles": 300, "span": 15.0, "viscosity": 0.1},
        "hydrostatics": {"particles": 1200, "height": 2.0, "span": 150.0},
        "dam-break": {"particles": 1200, "depth": 0.2, "reynolds": 90.0, "free": True},
        "floating": {"particles": 1500, "size": 0.6, "densities": [0.5], "span": 60.0},
    },
    "constraint-fluid": {
        "gradient": {"particles": 300},
        "steps": {"particles": 300, "span": 2},
        "momentum": {"particles": 300, "span": 2},
        "energy": {"particles": 300, "span": 20.0},
        "solution": {"particles": 300, "depth": 0.2},
    },
    "lj-fluid": {
        "steps": {"particles": 864},
        "trajectories": {"particles": 864, "steps": 4, "workload": "lj-fluid"},
        "energy": {"particles": 864, "span": 2.0},
        "state": {"particles": 864, "melt": 2.0, "span": 8.0},
    },
}  # fmt: skip


def tiny_run(family: str, device: Device, name: str, **changes: Any) -> CheckRun:
    """Run a check at its tiny size, but for changes of that."""
    (check,) = [check for check in FAMILIES[family] if check.name == name]
    return run_check(check, device, {**TINY[family][name], **changes})


def of(run: CheckRun, words: str) -> Finding:
    """Return the only finding of which the quantity has these words."""
    (one,) = [finding for finding in run.findings if words in finding.quantity]
    return one
