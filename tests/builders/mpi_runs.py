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

from needs import skip_without

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "mpi_programs"
GUARD_S = 600  # against a hang; no limit that a busy machine could reach


def mpirun() -> str:
    """Return the mpirun beside the interpreter, else the one on PATH; skip without one."""
    if find_spec("mpi4py") is None:
        skip_without("mpi4py and mpirun")
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = shutil.which("mpirun", path=folders)
    if found is None:
        skip_without("mpi4py and mpirun")
    return found


def run_ranks(
    size: int, program: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of tests/mpi_programs in so many ranks; fail where it hangs."""
    command = [str(PROGRAMS / program), *arguments]
    return _run(size, command, environment)


def run_gpubench(
    size: int, *arguments: str | Path, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a command of gpubench in so many ranks, in a folder; fail where it hangs."""
    return _run(size, ["-m", "gpubench", *map(str, arguments)], {}, folder)


@contextmanager
def gpubench_started(size: int, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Start a command of gpubench in so many ranks; kill them where they are still there at last.

    Standard error is a pipe, and its output is thrown away.
    """
    command = [*_launcher(size), "-m", "gpubench", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def process_of(rank: int, mark: str) -> int:
    """Return the id of the process that MPICH started as a rank, with a word in its command."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_text()
            if f"PMI_RANK={rank}".encode() in environment and mark in command:
                return int(folder.name)
    raise AssertionError(f"rank {rank} of {mark} is not there")


def _launcher(size: int) -> list[str]:
    # Warnings are errors there as here.
    return [mpirun(), "-n", str(size), sys.executable, "-W", "error"]


def _run(
    size: int,
    command: list[str],
    environment: dict[str, str],
    folder: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_launcher(size), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=GUARD_S,
        cwd=folder,
        env=os.environ | environment,
    )
