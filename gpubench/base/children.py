"""Start Python processes that end with this one and import nothing from the current folder.

`command` is for the process that starts another one, which runs this file as a plain script first:
also with the Python and the package of another commit, so nothing of the package is imported here.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


def command(
    module: str, *arguments: str, python: str = sys.executable, is_ours: bool = True
) -> list[str]:
    """Return the command that runs a module with arguments, as `python -m` does.

    The process is killed when the thread that starts it ends. Python's own variables and installed
    packages decide on what it imports, but for this package, which is the present one.

    is_ours: whether the package is to be this one; else it is what that Python finds.
    """
    package = str(Path(__file__).parents[2]) if is_ours else ""
    return [python, "-P", __file__, str(os.getpid()), package, module, *arguments]


def _run() -> None:
    """Run the module that the command line names, behind the parent and the folder of a package."""
    _, parent, package, module = sys.argv[:4]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(f"process {parent}, for which {module} was to run, has ended")
    del sys.argv[1:4]
    if package:
        sys.path.insert(0, package)
        import gpubench.base  # noqa: F401  # from now on it is known where its modules are

        del sys.path[0]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
