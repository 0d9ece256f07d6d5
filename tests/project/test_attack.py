"""The trials of `make attack`: a broken promise is found and repeated, and the trials run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

SEED = "21"
PLANTED = Path(__file__).resolve().parents[1] / "builders" / "planted_trials.py"


@pytest.fixture
def run(tmp_path):
    """Return what runs trials: exit status, standard output, and what came of each."""

    def call(*words):
        file = tmp_path / "found.json"
        done = subprocess.run(
            [sys.executable, PLANTED, *words, "--json", file],
            capture_output=True,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        assert done.stderr == ""
        left = [path.name for path in tmp_path.iterdir()]
        assert left == ["found.json"]
        return done.returncode, done.stdout, json.loads(file.read_text())["trials"]

    return call


def test_a_broken_promise_is_found_and_repeated_by_its_seed(run):
    trials = [word for name in ("planted", "mistaken", "not_here") for word in ("--only", name)]
    status, out, (found, mistaken, _) = run(*trials, "--seed", "7", "--attempts", "9")
    expected = [
        [seed, f"the promise of {drawn}"]
        for seed in range(7, 16)
        if (drawn := Random(f"planted {seed}").randrange(1000)) % 3 == 0
    ]
    assert 0 < len(expected) < 9
    assert (status, found["broken"], found["held"]) == (1, expected, 9 - len(expected))
    assert f"| planted | 9 | {9 - len(expected)} | {len(expected)} |" in out
    assert len(mistaken["broken"]) == 9
    assert "the trial itself failed: " in out
    assert "KeyError: 'a mistake of its own'" in out
    assert "| not_here (not tried: no such machine) | 0 | 0 | 0 |" in out

    line = next(line for line in out.splitlines() if line.startswith("broken: planted"))
    again = line.partition("; again: python tools/attack ")[2].split()
    status, _, (repeated,) = run(*again)
    assert (status, repeated["broken"]) == (1, expected[:1])


def test_the_time_is_bounded(run):
    status, out, _ = run("--only", "planted", "--minutes", "0.001")
    assert status in (0, 1)
    assert out.splitlines()[-1].startswith("| planted | ")


@pytest.mark.long
def test_trials_make_an_attempt(run):
    """One of each that starts no interpreter, by a seed whose attempts take little time."""
    trials = [word for name in ("results", "checkpoints", "commands") for word in ("--only", name)]
    _, out, found = run(*trials, "--seed", SEED, "--attempts", "1")
    assert [trial["held"] + len(trial["broken"]) for trial in found] == [1, 1, 1]
    assert "the trial itself failed" not in out


@pytest.mark.long
def test_odd_inputs_make_an_attempt(run):
    _, out, (found,) = run("--only", "odd-inputs", "--seed", SEED, "--attempts", "1")
    assert found["held"] + len(found["broken"]) == 1
    assert "the trial itself failed" not in out
