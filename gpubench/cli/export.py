"""`gpubench export`: the source of a search, to take into other code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpubench.cli import require, values


def export(
    search: Annotated[str, typer.Argument(metavar="SEARCH", help="See `gpubench list search`.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the files.")],
    task: Annotated[str, typer.Option(metavar="TASK", help="What to do: count or list.")] = "list",
    periodic: Annotated[
        str,
        typer.Option(
            metavar="AXES", help="Axes along which the box repeats: some of xyz, or none."
        ),
    ] = "",
    parts: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=values.whole,
            help="Cells along x to a cutoff, 1 to 5: about as many as there are particles in a"
            " cube of the cutoff.",
        ),
    ] = 3,
    neighbours: Annotated[
        float,
        typer.Option(
            metavar="K",
            parser=values.number,
            help="Of a particle, about: many are listed by several threads.",
        ),
    ] = 16,
) -> None:
    """Write the source of a search, to take into your own code.

    A header for CUDA C++ that needs the CUDA runtime alone, an example with
    CMakeLists.txt, and a file for CuPy. Prints their paths.
    """
    from gpubench.neighbours.export.folder import write

    require.one_process("export")
    require.folder("--out", out)
    for path in write(out, search, task, periodic, parts, neighbours):
        print(path)
