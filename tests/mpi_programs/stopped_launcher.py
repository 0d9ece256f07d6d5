"""Refuse something while the launcher's proxy is stopped; tell what it had read at the abort.

The argument is a file, into which go the bytes that were unread on standard output and on standard
error when rank 0 called MPI_Abort. The proxy goes on as soon as that is written or, where the rank
waits for the proxy, after a moment.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import signal
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace

from gpubench.errors import UserError
from gpubench.parallel.ranks import Ranks, Watcher, ends_all

MOMENT_S = 0.3
noted = Path(sys.argv[1])


def unread(descriptor: int) -> int:
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


def stop_proxy() -> None:
    """Stop the proxy until the abort is noted, for a moment at most."""
    proxy, rank = os.getppid(), os.getpid()
    os.kill(proxy, signal.SIGSTOP)
    if os.fork():
        return
    while not unread(errors) and os.getppid() == rank:
        time.sleep(0.001)
    for _ in range(100):
        if noted.exists():
            break
        time.sleep(MOMENT_S / 100)
    os.kill(proxy, signal.SIGCONT)
    os._exit(0)


def abort(status: int) -> None:
    noted.with_suffix(".new").write_text(f"{unread(1)} {unread(errors)}")
    noted.with_suffix(".new").rename(noted)
    ranks.comm.Abort(status)


# The watcher writes to the standard error of the rank that starts it: rank 0, which goes first.
started = noted.with_suffix(".started")
if os.environ["PMI_RANK"] == "0":
    Watcher.of_this_host()
    started.touch()
while not started.exists():
    time.sleep(0.001)
ranks = Ranks.join()
errors = os.dup(2)  # standard error is no pipe at the abort
with ends_all(dataclasses.replace(ranks, comm=SimpleNamespace(Abort=abort))):
    if ranks.rank == 0:
        stop_proxy()
        print("the answer")
        raise UserError("no such fluid")
    ranks.comm.recv(tag=1)
