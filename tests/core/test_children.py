"""Processes that are started end with the one that started them, and import nothing beside it."""

from __future__ import annotations

import ast
import os
import re
import select
import shlex
import signal
import subprocess
import sys

import pytest
from mpi_runs import GUARD_S

import gpubench
from gpubench.base import children
from gpubench.base.paths import PACKAGE

STARTER = """
import subprocess
from gpubench.base import children
subprocess.run(children.command("hangs"))
"""
HANGS = """
import os, signal
print(os.getpid(), flush=True)
signal.pause()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder whose modules the processes find."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def ends_with(starter, end):
    """Kill a process that prints the id of one that it started; return whether that ends too."""
    child = os.pidfd_open(int(starter.stdout.readline()))
    try:
        starter.send_signal(end)
        starter.wait()
        ended, _, _ = select.select([child], [], [], GUARD_S)
        if not ended:
            signal.pidfd_send_signal(child, signal.SIGKILL)
        return bool(ended)
    finally:
        os.close(child)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_with_the_one_that_started_it(folder, end):
    (folder / "hangs.py").write_text(HANGS)
    starter = [sys.executable, "-c", STARTER]
    with subprocess.Popen(starter, stdout=subprocess.PIPE, text=True) as process:
        assert ends_with(process, end)


def test_a_process_whose_starter_has_ended_already_does_nothing(folder):
    (folder / "hangs.py").write_text(HANGS)
    other = f"{shlex.join(children.command('hangs'))}; echo $?"
    done = subprocess.run(["sh", "-c", other], capture_output=True, text=True)
    assert done.stdout == "1\n"
    assert done.stderr == f"process {os.getpid()}, for which hangs was to run, has ended\n"


def test_a_run_in_several_processes_ends_as_a_whole(tmp_path):
    added = tmp_path / "added.py"
    added.write_text(HANGS)  # at its import, by the process that measures
    command = [sys.executable, "-m", "gpubench", "--add", str(added), "run", "neighbour-query"]
    command += ["--processes", "2", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert ends_with(process, signal.SIGKILL)


def test_modules_beside_it_are_not_imported(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("queue", "gpubench"):
        (tmp_path / f"{name}.py").write_text("print('beside')")
    (folder / "shows.py").write_text(
        "import queue, sys, gpubench; print(gpubench.__file__, *sys.argv[1:], sys.path[0])"
    )
    done = subprocess.run(
        children.command("shows", "one", "two"), check=True, capture_output=True, text=True
    )
    assert done.stdout == f"{gpubench.__file__} one two {folder}\n"


def test_the_package_of_another_python_is_its_own(folder):
    (folder / "gpubench.py").write_text("print('its own')")
    done = subprocess.run(
        children.command("gpubench", is_ours=False), check=True, capture_output=True, text=True
    )
    assert done.stdout == "its own\n"


def test_every_python_that_the_package_starts_leaves_the_present_folder_out():
    started = {
        (path.name, ast.unparse(flag))
        for path in PACKAGE.rglob("*.py")
        if "sys.executable" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List) and len(node.elts) > 2
        for program, flag in [node.elts[:2]]
        if re.search(r"python|executable", ast.unparse(program))
    }
    flags = {"children.py": "'-P'", "perspective.py": "'-P'"}
    assert started == {*flags.items()}
