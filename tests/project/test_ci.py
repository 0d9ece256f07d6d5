"""Continuous integration: `.ci/run` fails where one of its stages does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci/run"
TARGETS = re.findall(r"\bmake ([a-z-]+)", CI.read_text())


@pytest.mark.parametrize("failing", [*TARGETS, ""])
def test_ci_fails_where_a_stage_fails(failing, tmp_path):
    """Also one that runs beside others: bash ignores `set -e` in most of such places."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(CI, tmp_path / ".ci/run")
    for name, text in {
        "make": f'echo "$@" >>asked\n[ "$1" != "{failing}" ]',
        "dpkg-query": "echo install ok installed",
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [tmp_path / ".ci/run"], env={**os.environ, "PATH": path}, check=False, capture_output=True
    )
    assert (done.returncode == 0) == (not failing)
    asked = (tmp_path / "asked").read_text().split()
    assert len(TARGETS) > 4
    assert failing in asked if failing else sorted(asked) == sorted(TARGETS)
