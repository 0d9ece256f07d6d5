"""`gpubench tune`: time the searches on a user's own particles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpubench.base.messages import say
from gpubench.cli import require
from gpubench.cli.check import axes_in, box_in, triple
from gpubench.cli.options import RESULTS, CellOption, DeviceOption
from gpubench.cli.values import arg, opt

if TYPE_CHECKING:
    from gpubench.neighbours.tune import Tuned


def tune(
    positions: Annotated[
        Path,
        arg(
            "FILE",
            "An array of shape (particles, 3) in a .npy file, or a trajectory: .gsd, .xyz,"
            " .extxyz, .xyz.gz, or .npy of shape (frames, particles, 3).",
        ),
    ],
    cutoff: Annotated[float, opt("S", "The cutoff, in the unit of the positions.")],
    box: Annotated[
        str | None,
        opt(
            "X,Y,Z",
            "Edges of the box. Default: where it repeats, those in the file, otherwise those of"
            " the smallest box around the particles.",
        ),
    ] = None,
    cell: CellOption = None,
    low: Annotated[
        str | None,
        opt(
            "X,Y,Z",
            "Lower corner of the box. Default: that of the file, otherwise the origin or,"
            " without --box, that of the smallest box.",
        ),
    ] = None,
    periodic: Annotated[
        str | None,
        opt(
            "AXES",
            "Axes along which the box repeats: some of xyz, or none. Default: those that the"
            " file names, otherwise none.",
        ),
    ] = None,
    task: Annotated[
        str, opt("TASK", "What to time: build, count, ten-counts or list.", among="tasks")
    ] = "list",
    device: DeviceOption = "auto",
    out: Annotated[Path, opt("DIR", "Folder of the results.")] = RESULTS,
) -> None:
    """Time all searches on your own particles.

    The last line printed is the code to use. With a trajectory, also evaluate updates and skins.
    Exit 1 if an answer is wrong.
    """
    from gpubench.neighbours.tune import tune as tuned

    require.one_process("tune")
    require.folder("--out", out)
    found = tuned(
        positions,
        cutoff,
        box_in(box, cell),
        None if periodic is None else axes_in(periodic),
        low=None if low is None else triple("--low", low),
        task=task,
        device=device,
        out=out,
    )
    _print(found)
    if not found.is_sound:
        raise typer.Exit(1)


def _print(found: Tuned) -> None:
    """Print the ranking, the results for a trajectory, and last the line of code to use."""
    from gpubench.cli.output import print_table
    from gpubench.cli.show import print_measured
    from gpubench.evidence.frame import frame_of

    print_measured(frame_of([found.ranked]))
    if found.moved_share is not None:
        print(f"{found.moved_share:.2%} of the particles change cells from frame to frame")
        print_measured(frame_of([found.updates]))
        rows = []
        for each in found.skins:
            frames = f"{'at least ' if each.outlasts else ''}{each.frames:.3g}"
            both = (each.list_ms, each.ms_per_frame)
            ms, mean = ("" if value is None else f"{value:.4g}" for value in both)
            rows.append((f"{each.skin:g}", frames, ms, mean))
        print_table(("skin", "frames a list serves", "list ms", "list ms per frame"), rows)
    say(f"records: {found.path}")
    print(found.code or "no method of gpubench.NeighbourList ran on these particles")
