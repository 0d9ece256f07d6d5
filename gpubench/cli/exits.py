"""How a command ends: its exit status, and what standard error says.

Statuses 0, 1 and 3 are answers. Anything that prevents an answer is status 2.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from gpubench.base.errors import UserError
from gpubench.base.messages import say_why

ERROR = 2


class OutputLost(OSError):
    """Standard output cannot be written: the message says why, in one line."""


class Output:
    """Standard output that raises OutputLost where it cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _lost(error) from error

    def flush(self) -> None:
        """Write what was kept back."""
        try:
            self._stream.flush()
        except OSError as error:
            raise _lost(error) from error


def open_output() -> None:
    """Let standard output raise OutputLost; raise it at once where standard output is closed.

    The next file that is opened would take the place of a closed descriptor, and output of
    libraries would end up in it. A closed standard error becomes the null device instead.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # stays open until the end
    if sys.stdout is None:
        raise OutputLost("standard output is closed: redirect it to /dev/null to discard it")
    sys.stdout = Output(sys.stdout)


def status_of(error: Exception) -> int:
    """Say on standard error what ended a command, and return the exit status.

    Bad input, names too long for a file, lost output and lack of memory take one line; a pipe whose
    reader has closed it takes none. An error in the program prints its traceback and one line.
    """
    with suppress(OSError):  # standard error may be full too
        if isinstance(error, UserError):
            say_why(str(error))
        elif isinstance(error, OutputLost):
            if not isinstance(error.__cause__, BrokenPipeError):
                say_why(str(error))
        elif isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            # Every look at such a path raises, where one that is not there is only absent.
            say_why(f"the name of a file or folder is too long: {str(error.filename)[:40]}...")
        elif isinstance(error, MemoryError):
            said = " ".join(str(error).split())
            say_why(
                f"there is not enough memory{f' ({said})' if said else ''}: choose a smaller input"
            )
        else:
            traceback.print_exception(error)
            say_why(f"ended without an answer because of {type(error).__name__}: {error}")
    # What cannot be written would make the interpreter's last flush choose the exit status.
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return ERROR


def _lost(error: OSError) -> OutputLost:
    return OutputLost(f"cannot write standard output: {error.strerror or error}")
