"""Starting small programs under mpirun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "mpi_programs"


def mpirun() -> str:
    """Return the mpirun beside the interpreter, else the one on PATH; skip without one."""
    if find_spec("mpi4py") is None:
        pytest.skip("mpi4py is missing: pip install 'gpubench[mpi]'")
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = shutil.which("mpirun", path=folders)
    if found is None:
        pytest.skip("there is no mpirun: pip install 'gpubench[mpi]'")
    return found


def run_ranks(
    size: int, program: str, *arguments: str, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a program of tests/mpi_programs in so many ranks; fail where it hangs."""
    # Warnings are errors there as here.
    command = [mpirun(), "-n", str(size), sys.executable, "-W", "error"]
    return subprocess.run(
        [*command, str(PROGRAMS / program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        cwd=ROOT,
    )
