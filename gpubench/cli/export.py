"""`gpubench export`: the source of a search, to take into other code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpubench.cli import require, values
from gpubench.cli.options import PeriodicOption


def export(
    search: Annotated[
        str, typer.Argument(metavar="SEARCH", help="A search; another name lists all of them.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the files.")],
    task: Annotated[str, typer.Option(metavar="TASK", help="Task: count or list.")] = "list",
    periodic: PeriodicOption = "",
    parts: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=values.whole,
            help="Cells per cutoff along x, 1 to 5: best about the number of particles in a cube"
            " whose edge is the cutoff.",
        ),
    ] = 3,
    neighbours: Annotated[
        float,
        typer.Option(
            metavar="K",
            parser=values.number,
            help="Neighbours per particle, about: bits that mark them get so much room.",
        ),
    ] = 16,
) -> None:
    """Write the source of a search, to take into your own code.

    A header for CUDA C++ that needs only the CUDA runtime, an example with
    CMakeLists.txt, and a file for CuPy. Prints their paths.
    """
    from gpubench.neighbours.export.folder import write

    require.one_process("export")
    require.folder("--out", out)
    for path in write(out, search, task, periodic, parts, neighbours):
        print(path)
