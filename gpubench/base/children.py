"""Start Python processes that end with this one and import nothing from the current folder.

The parent calls `command`; the child first runs this file as a plain script, possibly with the
Python and the package of another commit, so this file must not import from the package.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # from <linux/prctl.h>


def command(
    module: str, *arguments: str, python: str = sys.executable, is_ours: bool = True
) -> list[str]:
    """Return the command that runs a module with arguments, as `python -m` does.

    The process is killed when the thread that starts it ends. It searches for imports as any
    Python process does (PYTHONPATH, installed packages), except for this package, see `is_ours`.

    is_ours: True to use this copy of the package, False to use the one that `python` finds.
    """
    package = str(Path(__file__).parents[2]) if is_ours else ""
    return [python, "-P", __file__, str(os.getpid()), package, module, *arguments]


def _run() -> None:
    """Run a module. Command line: parent's process id, package folder, module, arguments."""
    _, parent, package, module = sys.argv[:4]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(f"process {parent}, for which {module} was to run, has ended")
    del sys.argv[1:4]
    if package:
        sys.path.insert(0, package)
        import gpubench.base  # noqa: F401  # later imports of the package use this copy

        del sys.path[0]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
