"""Run the command line, and kill rank 1 when it imports the module of the first argument.

The second argument is a folder, in which ranks say that they have come as far as that.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path

WHEN, FOLDER = sys.argv[1], Path(sys.argv[2])
RANK = int(os.environ["PMI_RANK"])


class Importing(MetaPathFinder):
    """Kills rank 1 at the import of a module, when rank 0 has come to it as well."""

    def find_spec(self, name, path, target=None):
        if name == WHEN:
            (FOLDER / str(RANK)).touch()
            while not (FOLDER / "0").exists():
                time.sleep(0.001)
            if RANK == 1:
                os.kill(os.getpid(), signal.SIGKILL)


sys.meta_path.insert(0, Importing())
sys.argv[1:] = ["run", "no-such-study", "--spread"]

from gpubench.__main__ import main  # noqa: E402

main()
