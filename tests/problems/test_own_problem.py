"""A problem outside the package: its axes, oracle, cases and algorithm, and no edit elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from additions import nothing_added
from typer.testing import CliRunner

from gpubench import problems
from gpubench.cli import app
from gpubench.evidence.results import load

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own-problem"
ADD = ["--add", str(EXAMPLE / "prefix_sum")]


def invoke(*words: object) -> str:
    result = CliRunner().invoke(app.app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("later", [[], ADD], ids=["without it", "with it"])
def test_a_problem_outside_is_checked_measured_shown_and_reported(tmp_path, later):
    with nothing_added(tmp_path, EXAMPLE):
        (checked,) = json.loads(
            invoke(*ADD, "check", "scan-sum", "--device", "opencl:intel", "--json")
        )["checks"]
        assert (checked["status"], len(checked["cases"])) == ("ok", 6)
        study = ["run", EXAMPLE / "sums.toml", "--quick", "--device", "opencl:intel"]
        invoke(*ADD, *study, "--out", tmp_path / "out")
    with nothing_added(tmp_path, EXAMPLE):
        assert "integers up to" not in problems.own_kinds()
        assert "largest" in invoke(*later, "show", tmp_path / "out")
        invoke(*later, "report", tmp_path / "out", "--out", tmp_path / "report")
    text = (tmp_path / "report" / "sums.html").read_text()
    assert "Time against largest integer" in text
    (path,) = (tmp_path / "out").rglob("*.json")
    assert {record.kind for record in load(path).records} == {"integers"}
