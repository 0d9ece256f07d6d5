"""Ctrl-C ends a command with status 130 and in silence, whenever it comes."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial

import pytest
from mpi_runs import PROGRAMS, run_ranks

STARTING = ["gpubench.cli.start", "gpubench.cli.app"]  # what is being imported


@pytest.mark.parametrize(
    ("when", "said"), [*((name, "") for name in STARTING), ("running", ""), ("exiting", "done\n")]
)
def test_ctrl_c_of_one_process(when, said):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAMS / "interrupted.py"), when],
        capture_output=True,
        text=True,
        # Where these tests run in the background of a shell, they inherit that it is ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, said, "")


@pytest.mark.parametrize("when", [*STARTING, "running", "exiting"])
def test_ctrl_c_of_several_ranks(when):
    done = run_ranks(2, "interrupted.py", when)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_is_ignored_under_nohup():
    ignored = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    code = ignored + "sys.argv = sys.argv[1:]; import runpy; runpy.run_path(sys.argv[0])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(PROGRAMS / "interrupted.py"), "running"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
