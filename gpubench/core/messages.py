"""Messages to the user while a command works, on standard error."""

import sys

_is_quiet = False


def be_quiet(quiet: bool) -> None:
    """Let `say` print nothing from now on, or everything."""
    global _is_quiet
    _is_quiet = quiet


def is_quiet() -> bool:
    """Say whether nothing but errors is wanted."""
    return _is_quiet


def say(message: str) -> None:
    """Print one line for people on standard error, unless nothing but errors is wanted."""
    if not _is_quiet:
        say_why(message)


def say_why(message: str) -> None:
    """Print one line on standard error: why a command ends without an answer."""
    print(f"gpubench: {' '.join(message.split())}", file=sys.stderr)
