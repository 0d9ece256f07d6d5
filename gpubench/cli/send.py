"""`gpubench send`: write results as the files to contribute to the repository."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated

from gpubench.base.errors import UserError
from gpubench.base.messages import say
from gpubench.cli import require
from gpubench.cli.options import RESULTS
from gpubench.cli.values import arg, opt

SHIPPED = Path("results/measured")


def send(
    results: Annotated[
        list[Path] | None, arg("[RESULT]...", "Results files or folders. Default: results/local.")
    ] = None,
    out: Annotated[Path, opt("DIR", "Folder of all machines' results.")] = SHIPPED,
) -> None:
    """Write results as compressed files to contribute, and print their paths.

    Each is DIR/MACHINE/DATE-COMMIT-STUDY.json.gz. See CONTRIBUTING.md for how to submit them.
    """
    from gpubench.base.writing import write_whole
    from gpubench.evidence.bounds import content_of
    from gpubench.evidence.files import load_results

    require.one_process("send")
    require.folder("--out", out)
    found = load_results(results or [RESULTS])
    for each in found:  # check all before writing the first
        if each.environment["dirty"]:
            raise UserError(
                f"{each.path} was measured by code with local changes:"
                " commit them, and measure again with `gpubench run STUDY`"
            )
    for each in found:
        name = each.path.name.removesuffix(".gz")
        path = out / each.environment["machine"] / f"{name}.gz"
        content = content_of(each.path)
        if path.exists() and content_of(path) != content:
            raise UserError(f"{path} holds other results: give --out another folder")
        write_whole(path, gzip.compress(content, 9, mtime=0))
        print(path)
    say(f"see them with the others: gpubench report {out}; to send them, see CONTRIBUTING.md")
