"""Messages to the user while a command works, on standard error."""

import sys

_is_quiet = False


def be_quiet(quiet: bool) -> None:
    """Silence `say` from now on, or let it print again."""
    global _is_quiet
    _is_quiet = quiet


def is_quiet() -> bool:
    """Say whether only errors are printed."""
    return _is_quiet


def say(message: str) -> None:
    """Print one line for people on standard error, unless only errors are wanted."""
    if not _is_quiet:
        say_why(message)


def say_why(message: str) -> None:
    """Print one line on standard error: why a command ends without an answer."""
    print(f"gpubench: {' '.join(message.split())}", file=sys.stderr)
