"""The notebook runs from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_notebook_runs():
    notebook = json.loads(
        (ROOT / "examples/neighbour-list/neighbour-list.ipynb").read_text("utf-8")
    )
    held = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), held)
            assert not cell["outputs"]  # they would age
    assert held["same"]
    assert len(held["half"]) > 10_000
    # Counts of independent pairs: five standard deviations.
    off = np.abs(held["g"] - 1) * np.sqrt(held["counted"] / 2)
    assert (off < 5).all()
    assert 1 < held["moving"].searches < 10
    force = held["force"]
    assert np.abs(force).max() > 0.1
    assert np.abs(force.sum(axis=0)).max() < 1e-9 * np.abs(force).sum()
