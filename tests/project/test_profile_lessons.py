"""The tool that profiles the steps of `lessons`, with a stand-in for ncu."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from gpubench.studies.study import load_study

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    import profile_lessons

    yield profile_lessons
    del sys.modules["profile_lessons"]


def csv_of(tool, values):
    names = ["ID", "Kernel Name", *(name for name, _ in tool.METRICS.values())]
    units = [""] * len(names)
    return "\n".join(",".join(f'"{each}"' for each in line) for line in (names, units, *values))


def test_each_kernel_of_each_step_has_a_row(tool, tmp_path, monkeypatch):
    counted = ["1,250,000", "50.04", *["7"] * (len(tool.METRICS) - 2)]
    said = "card: Card\n" + csv_of(
        tool, [["0", "count(int *, int)", *counted], ["1", "place(int)", *counted]]
    )
    done = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(sys, "argv", ["profile_lessons.py", str(out := tmp_path / "out.csv")])
    assert tool.main() == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    steps = [(sweep.name, s.form) for sweep in load_study("lessons").sweeps for s in sweep.subjects]
    assert [(row["sweep"], row["step"]) for row in rows[::2]] == steps
    assert [row["kernel"] for row in rows[:2]] == ["count", "place"]
    assert rows[0]["time, us"] == "1.25e+03" and rows[0]["issue slots, %"] == "50"
    assert {row["card"] for row in rows} == {"Card"}


@pytest.mark.parametrize(
    ("status", "said", "sentence"),
    [
        (1, "==ERROR== ERR_NVGPUCTRPERM\nmore", "==ERROR== ERR_NVGPUCTRPERM"),
        (0, "card: Card\n", "ncu reports no kernel"),
        (0, "card: Card\n" + '"ID","Kernel Name"\n"0","count"', "ncu reports no number of"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    tool, tmp_path, monkeypatch, capsys, status, said, sentence
):
    done = subprocess.CompletedProcess([], status, said, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(sys, "argv", ["profile_lessons.py", str(tmp_path / "out.csv")])
    assert tool.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"profile_lessons: {sentence}")
    assert not (tmp_path / "out.csv").exists()
