"""Start the command line, and handle Ctrl-C.

Ctrl-C ends the process with status 130 and without a traceback at any time, including during
imports and during interpreter exit.
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

    The caller must have blocked SIGINT.
    """
    ranks = _joined()
    if ranks is not None and ranks.rank > 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # left to rank 0
    ctrl_c = CtrlC()
    with nullcontext() if ranks is None else ends_all(ranks):
        ctrl_c.calls(_exit_at_once if ranks is None else signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        atexit.register(_leave, ctrl_c, ranks)  # registered first, so it runs last
        from gpubench.cli.app import main

        try:
            try:
                ctrl_c.calls(signal.default_int_handler)
                main(reports=ranks is None)  # otherwise `ends_all` does
            finally:
                ctrl_c.calls(ctrl_c.note)
        except KeyboardInterrupt:
            ctrl_c.calls(ctrl_c.note)
            sys.exit(INTERRUPTED)


class CtrlC:
    """Sets the action on Ctrl-C; has no effect if SIGINT is ignored, as under nohup.

    came: whether Ctrl-C was pressed after the command ended, during exit.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def calls(self, handler: Callable[..., Any] | signal.Handlers) -> None:
        """Set the handler."""
        if self._is_heeded:
            signal.signal(signal.SIGINT, handler)

    def note(self, *_: object) -> None:
        """Set `came` and do nothing else; used as a handler."""
        self.came = True


def _joined() -> Ranks | None:
    """Join the ranks that a launcher started; None without a launcher, or if joining fails.

    Called while Ctrl-C is blocked: MPI would wait forever for a rank that Ctrl-C had ended. If
    joining fails, the commands that need the ranks report the reason.
    """
    if launched_size() > 1:
        with suppress(UserError):
            return Ranks.join()
    return None


def _exit_at_once(*_: object) -> NoReturn:
    os._exit(INTERRUPTED)  # there is nothing to clean up yet


def _leave(ctrl_c: CtrlC, ranks: Ranks | None) -> None:
    """Run last at exit: synchronise the ranks, and apply the status of a late Ctrl-C."""
    if ranks is not None:
        with ends_all(ranks):
            ranks.comm.Barrier()  # other ranks may still be closing files
            if ctrl_c.came:
                raise KeyboardInterrupt
        ranks.leave()
    ctrl_c.calls(signal.SIG_DFL)
    if ctrl_c.came:
        os._exit(INTERRUPTED)
