"""Start the command line, and end it properly.

Ctrl-C ends it with status 130 and without a traceback at any time: while packages are imported,
too, and when all that is left to do is to exit.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, NoReturn

from gpubench.base.errors import UserError
from gpubench.distributed.ranks import INTERRUPTED, Ranks, ends_all, launched_size


def start() -> None:
    """Run the command line, together with the other ranks if a launcher started several.

    Ctrl-C is blocked when this is called.
    """
    ranks = _joined()
    if ranks is not None and ranks.rank > 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # left to rank 0
    ctrl_c = CtrlC()
    with nullcontext() if ranks is None else ends_all(ranks):
        ctrl_c.calls(_exit_at_once if ranks is None else signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        atexit.register(_leave, ctrl_c, ranks)  # the first, so it comes last
        from gpubench.cli.app import main

        try:
            try:
                ctrl_c.calls(signal.default_int_handler)
                main()
            finally:
                ctrl_c.calls(ctrl_c.note)
        except KeyboardInterrupt:
            ctrl_c.calls(ctrl_c.note)
            sys.exit(INTERRUPTED)


class CtrlC:
    """What Ctrl-C does, unless it is to be ignored, as under nohup.

    came: whether it came when nothing was left to interrupt.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def calls(self, handler: Callable[..., Any] | signal.Handlers) -> None:
        """Have it call a function from now on."""
        if self._is_heeded:
            signal.signal(signal.SIGINT, handler)

    def note(self, *_: object) -> None:
        """Remember that it came."""
        self.came = True


def _joined() -> Ranks | None:
    """Join the ranks that a launcher started, if it did.

    At once, since ranks that start MPI wait for one that Ctrl-C ended before. Where they cannot,
    the commands that need them say why.
    """
    if launched_size() > 1:
        with suppress(UserError):
            return Ranks.join()
    return None


def _exit_at_once(*_: object) -> NoReturn:
    os._exit(INTERRUPTED)  # nothing is open yet


def _leave(ctrl_c: CtrlC, ranks: Ranks | None) -> None:
    """Do the last of what is done at exit; until then, Ctrl-C decides on the status."""
    if ranks is not None:
        with ends_all(ranks):
            ranks.comm.Barrier()  # some may still have much to close
            if ctrl_c.came:
                raise KeyboardInterrupt
        ranks.leave()
    ctrl_c.calls(signal.SIG_DFL)
    if ctrl_c.came:
        os._exit(INTERRUPTED)
