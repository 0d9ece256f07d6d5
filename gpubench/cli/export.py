"""`gpubench export`: write the source of a search, for use in other code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gpubench.cli import require
from gpubench.cli.options import PeriodicOption
from gpubench.cli.values import arg, opt


def export(
    search: Annotated[str, arg("SEARCH", "search-counting-sort.")],
    out: Annotated[Path, opt("DIR", "Folder of the files.")],
    task: Annotated[str, opt("TASK", "list, which also counts.")] = "list",
    periodic: PeriodicOption = "",
    neighbours: Annotated[
        float, opt("K", "Expected neighbours of a particle, for which the source is fastest.")
    ] = 16,
) -> None:
    """Write the source of a search, for use in your own code.

    A header for CUDA C++ that needs only the CUDA runtime, an example with
    CMakeLists.txt, and a file for CuPy. Prints their paths.
    """
    from gpubench.neighbours.export.folder import write

    require.one_process("export")
    require.folder("--out", out)
    axes = "" if periodic == "none" else periodic
    for path in write(out, search, task, axes, neighbours):
        print(path)
