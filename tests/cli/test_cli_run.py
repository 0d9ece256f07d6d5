"""The options of `gpubench run` on real studies, algorithms and kernels."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

import gpubench.devices
from gpubench.studies import runner


@pytest.fixture
def run(gpubench_command, open_once, environment_once, monkeypatch, tmp_path):
    """Run the command in this process on a device that is open already."""
    device = open_once("opencl:intel")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpubench.devices, "open_device", lambda spec: nullcontext(device))
    monkeypatch.setattr(runner, "environment", environment_once)

    return lambda *words: gpubench_command("run", *words, "--quick")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rozen2008-table2", "--moved", "2000000"], "2000000 of 65536 particles cannot move"),
        (["rozen2008-table2", "--moved", "-1"], "cannot move"),
        (["rozen2008-table1", "--moved", "3"], "does not vary moved"),
        (["horn2005-table36-1", "--kept", "1.5"], "must be 0 to 1, not 1.5"),
        (["horn2005-table36-1", "--kept", "nan"], "must be 0 to 1, not nan"),
        (["rozen2008-table3", "--parameter", "capacty=3"], "did you mean capacity"),
        (["rozen2008-table3", "--parameter", "capacity=x"], "NAME=VALUE"),
        (["rozen2008-table3", "--parameter", "capacity=0"], "at least 1 particle a cell, not 0"),
        (["rozen2008-partial-update", "--parameter", "parts=100"], "1 to 64, not 100"),
        (["slides-ellpack", "--parameter", "width=0"], "width must be at least 1, not 0"),
        (["horn2005-subdivision", "--parameter", "pixels=-1"], "pixels must be at least 0, not -1"),
    ],
)
def test_bad_axes_and_parameters_are_one_line(run, tmp_path, arguments, sentence):
    code, out, err = run(*arguments)
    assert code == 2
    assert sentence in err.splitlines()[-1]
    assert out == "" and not list(tmp_path.rglob("*.json"))


def test_axes_and_parameters_replace_those_of_the_study(run, tmp_path):
    given = ["--particles", "4096", "--moved", "100", "--parameter", "parts=2"]
    assert run("rozen2008-table2", "--algorithms", "bucket-resort", *given)[0] == 0
    (path,) = tmp_path.rglob("*.json")
    records = [r for r in json.loads(path.read_text())["records"] if r["sweep"] == "table"]
    assert {
        (r["input"]["particles"], r["input"]["moved"], r["parameters"]["parts"]) for r in records
    } == {(4096, 100, 2)}
