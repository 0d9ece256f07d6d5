"""Messages to the user on standard error."""

import sys

_is_quiet = False


def be_quiet(quiet: bool) -> None:
    """Silence `say`, or enable it again."""
    global _is_quiet
    _is_quiet = quiet


def is_quiet() -> bool:
    """Whether only errors are printed."""
    return _is_quiet


def say(message: str) -> None:
    """Print one line on standard error, unless silenced."""
    if not _is_quiet:
        say_why(message)


def say_why(message: str) -> None:
    """Print one line on standard error, even if silenced: the reason why a command fails."""
    print(f"gpubench: {' '.join(message.split())}", file=sys.stderr)
