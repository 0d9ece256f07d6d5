"""What there is to measure: the registry of the checkout that these files are in.

asv imports these files beside whichever commit of the package it measures, and wants one list of
benchmarks and parameters for all commits. So the registry is read in a process of its own, which
imports the package of this checkout, and what the measured commit lacks is skipped when it runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEVICE = os.environ.get("GPUBENCH_BENCHMARK_DEVICE", "auto")


@cache
def suite() -> dict[str, Any]:
    """Return device, algorithms and workloads, as `_read` has them."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks._suite"],
            cwd=elsewhere,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _read() -> dict[str, Any]:
    """Read the registry, and find out what the device is.

    device: is_cpu, features. algorithms: by name, the axis of the size of their inputs, the axes
    with several values and those with one, forms, and the parameters with which they are right on
    any input. workloads: by name, what they are.
    """
    from gpubench import problems, registry
    from gpubench.devices import open_device

    with open_device(DEVICE) as device:
        found: dict[str, Any] = {
            "device": {"is_cpu": device.is_cpu, "features": sorted(device.features)}
        }
    asked = problems.problems()
    found["algorithms"] = {
        name: {
            "summary": algorithm.summary,
            "size_axis": asked[algorithm.family].takes.size_axis,
            "varied": asked[algorithm.family].takes.varied,
            "fixed": {**asked[algorithm.family].takes.fixed, **algorithm.needs},
            "parameters": dict(algorithm.conformance_parameters),
            "forms": {
                form: {"requires": sorted(about.requires), "capturable": about.capturable}
                for form, about in algorithm.forms.items()
            },
        }
        for name, algorithm in registry.algorithms().items()
    }
    found["workloads"] = {
        name: {"summary": workload.summary} for name, workload in registry.workloads().items()
    }
    return found


if __name__ == "__main__":
    print(json.dumps(_read()))
