"""End in the way that the first argument names, in the rank that the second one does.

The other ranks wait for a message that never comes.
"""

from __future__ import annotations

import os
import signal
import sys

import typer

from gpubench.errors import UserError
from gpubench.parallel.ranks import Ranks, ends_all


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


def main() -> None:
    how, who = sys.argv[1], sys.argv[2]
    ranks = Ranks.join()
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
