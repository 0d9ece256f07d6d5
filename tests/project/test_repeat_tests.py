"""Tests that are run again and again: how often each fails is counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "repeat_tests.py"
TESTS = """
def test_that_fails():
    assert not "a word"

def test_that_is_well():
    pass
"""


def test_a_test_that_failed_is_named_with_how_often(tmp_path):
    (tmp_path / "test_two.py").write_text(TESTS)
    command = [sys.executable, str(TOOL), "--times", "1", "--busy", "1", "test_two.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "round 1 of 1: 1 failed",
        "  test_two::test_that_fails: AssertionError: assert not 'a word'",
        "1 of 1 failed: test_two::test_that_fails",
    ]
