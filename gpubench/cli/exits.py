"""How a command ends: its exit status and its messages on standard error.

Statuses 0, 1 and 3 are answers. Anything that prevents an answer is status 2.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

from gpubench.base.errors import UserError
from gpubench.base.messages import say_why

ERROR = 2


class OutputLost(OSError):
    """Standard output cannot be written: the message says why, in one line."""


class Output:
    """Standard output that raises OutputLost if a write fails."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text."""
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _lost(error) from error

    def flush(self) -> None:
        """Flush the buffer."""
        try:
            self._stream.flush()
        except OSError as error:
            raise _lost(error) from error


def open_output() -> None:
    """Make standard output raise OutputLost on failure; raise it now if it is closed.

    If output stayed closed, the next file opened would reuse its descriptor, and receive what
    libraries print. A closed standard error is replaced by the null device.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # stays open until the end
    if sys.stdout is None:
        raise OutputLost("standard output is closed: redirect it to /dev/null to discard it")
    sys.stdout = Output(sys.stdout)


def status_of(error: Exception) -> int:
    """Report on standard error why a command ended, and return the exit status.

    Bad input, overlong file names, failed output and lack of memory print one line; a closed pipe
    prints nothing. An error in the program prints its traceback and one line.
    """
    said = _said_of(error)
    with suppress(OSError):  # standard error may be full too
        if said is None:
            traceback.print_exception(error)
            said = f"ended without an answer because of {type(error).__name__}: {error}"
        if said:
            say_why(said)
    # Otherwise a failed flush at interpreter exit would change the exit status.
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return ERROR


def raise_for_ranks(error: Exception) -> NoReturn:
    """Raise what `ends_all` tells as `status_of` would: an error in the program as it is.

    A command line without a command ends with the help.
    """
    if hasattr(error, "format_message"):  # Typer's errors of usage
        said = error.format_message()
        raise SystemExit(said) if "\n" in said else UserError(said)
    said = _said_of(error)
    if said is None:
        raise error
    raise UserError(said) if said else SystemExit(ERROR)


def _said_of(error: Exception) -> str | None:
    """Return why a command ended; "" for a closed pipe, None for an error in the program."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OutputLost):
        return "" if isinstance(error.__cause__, BrokenPipeError) else str(error)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        # Unlike a missing file, such a path raises OSError in every check, even in exists().
        return f"the name of a file or folder is too long: {str(error.filename)[:40]}..."
    if isinstance(error, MemoryError):
        said = " ".join(str(error).split())
        return f"there is not enough memory{f' ({said})' if said else ''}: choose a smaller input"
    return None


def _lost(error: OSError) -> OutputLost:
    return OutputLost(f"cannot write standard output: {error.strerror or error}")
