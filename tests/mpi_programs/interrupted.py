"""Run the command line with Ctrl-C at a moment that the first argument names.

The command line is a stand-in; what is run around it is real. Needs no launcher.
"""

from __future__ import annotations

import atexit
import signal
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType

WHEN = sys.argv[1]


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


class Importing(MetaPathFinder):
    """Comes at the import of a module."""

    def find_spec(self, name, path, target=None):
        if name == WHEN:
            interrupt()


def command_line(reports: bool) -> None:
    if WHEN == "running":
        interrupt()
    if WHEN == "exiting":
        atexit.register(interrupt)
    print("done", flush=True)
    sys.exit(0)


if WHEN != "gpubench.cli.app":
    sys.modules["gpubench.cli.app"] = ModuleType("gpubench.cli.app")
    sys.modules["gpubench.cli.app"].main = command_line
sys.meta_path.insert(0, Importing())

from gpubench.__main__ import main  # noqa: E402

main()
