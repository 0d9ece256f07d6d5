"""What people are told while a command works, on standard error."""

import sys


def say(message: str) -> None:
    """Print one line for people on standard error."""
    print(f"gpubench: {' '.join(message.split())}", file=sys.stderr)
