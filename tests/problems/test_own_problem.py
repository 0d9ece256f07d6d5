"""A problem outside the package: its axes, oracle, cases and algorithm, and no edit elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from additions import nothing_added
from mpi_runs import run_gpubench
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


STUDY = [EXAMPLE / "sums.toml", "--quick", "--device", "opencl:intel"]


@pytest.mark.parametrize(
    "later",
    [pytest.param([], id="without it"), pytest.param(ADD, id="with it", marks=pytest.mark.long)],
)
def test_a_problem_outside_is_checked_measured_shown_reported_and_compared(tmp_path, later):
    with nothing_added(tmp_path, EXAMPLE):
        assert "scan-sum" in invoke(*ADD, "list")
        (checked,) = json.loads(
            invoke(*ADD, "check", "scan-sum", "--device", "opencl:intel", "--json")
        )["checks"]
        assert (checked["status"], len(checked["cases"])) == ("ok", 6)
        for folder in ("out", "again"):
            invoke(*ADD, "run", *STUDY, "--out", tmp_path / folder)
    with nothing_added(tmp_path, EXAMPLE):
        assert "integers" not in problems.kinds()
        assert "largest" in invoke(*later, "show", tmp_path / "out")
        invoke(*later, "report", tmp_path / "out", "--out", tmp_path / "report")
        pair = [tmp_path / "out", tmp_path / "again"]
        found = CliRunner().invoke(app.app, [*later, "compare", *map(str, pair), "--json"])
        assert found.exit_code in (0, 1, 3), found.output  # noise may look like a change
        assert len(json.loads(found.stdout)["cells"]) == 6
    text = (tmp_path / "report" / "sums.html").read_text()
    assert "Time against largest integer" in text
    assert "<h1>Prefix sums</h1>" in text and "How fast are prefix sums?" in text
    (path,) = (tmp_path / "out").rglob("*.json")
    assert {record.kind for record in load(path).records} == {"integers"}


@pytest.mark.long
def test_a_problem_outside_is_measured_by_ranks(tmp_path):
    done = run_gpubench(2, *ADD, "run", *STUDY, "--spread", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "out").rglob("*.json")
    records = load(path).records
    assert {(record.kind, record.status) for record in records} == {("integers", "ok")}
    assert len(records) == 6


TAKEN = """
from gpubench.contracts import Problem, Recipe, Words, axis, whole
class Own(Recipe):
    kind, size_axis, named_by = {kind!r}, {size!r}, "items"
    items: int = axis(Words("Items", "items", {phrase!r}), whole(1))
    {axis}: int = axis(Words("Other", "other", "{{}} others"), whole(1), 1)
Own = __import__("dataclasses").dataclass(frozen=True)(Own)
class OwnProblem(Problem):
    name, takes = {name!r}, Own
"""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "key-sort"}, "another problem is named 'key-sort'"),
        ({"kind": "keys"}, "another kind of input is named 'keys'"),
        ({"axis": "order"}, "inputs of the kind 'particles' have another axis 'order'"),
        ({"axis": "seed"}, "results have a field named 'seed'"),
        ({"size": "n"}, "size_axis is 'n', which is none of items, other"),
        ({"phrase": "items"}, "the phrase of 'items' needs {}"),
    ],
)
def test_a_name_that_is_taken_or_missing_is_refused(tmp_path, changed, said):
    usual = {"name": "mine", "kind": "mine", "size": "items", "axis": "other", "phrase": "{} items"}
    with nothing_added(tmp_path, tmp_path):
        (tmp_path / "taken.py").write_text(TAKEN.format(**usual | changed))
        found = CliRunner().invoke(app.app, ["--add", str(tmp_path / "taken.py"), "list"])
        assert said in str(found.exception)


def test_an_algorithm_of_no_problem_is_refused(tmp_path):
    with nothing_added(tmp_path, tmp_path):
        (tmp_path / "lost.py").write_text(
            "from gpubench.contracts import Algorithm, Form\n"
            "class Lost(Algorithm):\n"
            "    name, family, summary, source = 'lost', 'nowhere', 'x', 'x'\n"
            "    forms = {'only': Form('')}\n"
            "    load = launch = traffic_bytes = None\n"
        )
        found = CliRunner().invoke(app.app, ["--add", str(tmp_path / "lost.py"), "list"])
        assert "family 'nowhere', which is no problem" in str(found.exception)
