"""Starting small programs under mpirun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "mpi_programs"
SHARED_MEMORY = Path("/dev/shm")


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
    size: int, program: str, *arguments: str, seconds: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of tests/mpi_programs in so many ranks; fail where it hangs."""
    # Warnings are errors there as here.
    command = [mpirun(), "-n", str(size), sys.executable, "-W", "error"]
    with nothing_left_in_shared_memory():
        return subprocess.run(
            [*command, str(PROGRAMS / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            cwd=ROOT,
            env=os.environ | environment,
        )


@contextmanager
def nothing_left_in_shared_memory() -> Iterator[None]:
    """Remove what MPICH leaves behind, some MB a run, where a run did not end well."""
    before = set(SHARED_MEMORY.glob("mpich_shm_*"))
    try:
        yield
    finally:
        if left := set(SHARED_MEMORY.glob("mpich_shm_*")) - before:
            for maps in Path("/proc").glob("[0-9]*/maps"):  # those of other runs are in use
                with suppress(OSError):
                    text = maps.read_text()
                    left = {segment for segment in left if str(segment) not in text}
            for segment in left:
                segment.unlink(missing_ok=True)
