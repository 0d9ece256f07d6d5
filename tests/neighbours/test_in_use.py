"""The notebook runs from top to bottom; the comparison with libraries compares equal work."""

from __future__ import annotations

import importlib.util
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


@pytest.fixture
def compare_lists():
    pytest.importorskip("vesin")
    path = ROOT / "tools" / "compare_lists.py"
    spec = importlib.util.spec_from_file_location("compare_lists", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lists_are_compared_in_both_kinds_of_space(compare_lists, capsys):
    compare_lists.main(["--particles", "500", "--rounds", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        kind for space in ("periodic", "open")
        for kind in (space, "NeighbourList", "vesin", "cKDTree.query_pairs")
    ]  # fmt: skip


def test_lists_that_differ_are_not_timed(compare_lists):
    with pytest.raises(SystemExit, match="not the same number"):
        compare_lists.times({"one": lambda: 100, "other": lambda: 90}, 1, 0)
