"""End in the way that the first argument names, in the rank that the second one does.

The other ranks wait for a message that never comes. With `shared-memory`, rank 0 first tells where
MPI's shared memory is; with `no-token`, ranks cannot open each other's pipes.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import typer

from gpubench.base.errors import UserError
from gpubench.distributed import ranks as ranks_module
from gpubench.distributed.ranks import Ranks, ends_all


def end(how: str) -> None:
    """End this rank."""
    match how:
        case "user-error":
            raise UserError("no such\nfluid")
        case "error":
            raise ZeroDivisionError("a step of 0 s")
        case "exit":
            sys.exit(7)
        case "exit-text":
            sys.exit("gpubench: nothing left")
        case "typer-exit":
            raise typer.Exit(3)
        case "interrupt":
            signal.raise_signal(signal.SIGINT)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)


def shared_memory() -> set[str]:
    """Return the names of the files in shared memory that this process has mapped."""
    maps = Path("/proc/self/maps").read_text()
    return set(re.findall(r"/dev/shm/mpich\S+", maps))


def main() -> None:
    how, who, *more = sys.argv[1:]
    if more == ["no-token"]:
        ranks_module._share_token = lambda local: -1
    ranks = Ranks.join()
    if more == ["shared-memory"] and ranks.rank == 0:
        print(*shared_memory(), sep="\n", flush=True)
    with ends_all(ranks):
        if how in ("good", "ignored-interrupt"):
            if how == "ignored-interrupt" and ranks.rank == int(who):
                signal.raise_signal(signal.SIGINT)
            ranks.comm.Barrier()
        elif who == "all":
            end(how)
        else:
            with ends_all(ranks):
                if ranks.rank == int(who):
                    end(how)
            ranks.comm.recv(tag=1)
    print(f"{ranks} of {ranks.local_size} here\n", end="", flush=True)


if __name__ == "__main__":
    main()
