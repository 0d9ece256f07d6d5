"""`gpubench report`: write a report of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gpubench.base import install, paths
from gpubench.base.errors import UserError
from gpubench.cli import require
from gpubench.cli.options import RESULTS, ResultsArgument
from gpubench.cli.values import opt

REPORTED = ("measured", "checks", "simulations", "calibration")  # folders of a checkout's results
REPORT = Path("reports/local")


def report(
    results: ResultsArgument = None,
    out: Annotated[Path, opt("DIR", "Folder of the report.")] = REPORT,
) -> None:
    """Write a report of results, and print its path.

    The report consists of HTML, Markdown, CSV and figures.
    """
    require.one_process("report")
    install.require("report", "gpubench report")
    from gpubench.report import write
    from gpubench.report.sources import sort_out

    require.folder("--out", out)
    print(write(sort_out(results or default_results()), out))


def default_results() -> list[Path]:
    """Return the folder of `gpubench run` or, if it is empty, the folders of the checkout."""
    from gpubench.evidence.files import below

    repository = paths.repository()
    shipped = [repository / "results" / name for name in REPORTED] if repository else []
    for folders in ([RESULTS], shipped):
        if found := [folder for folder in folders if folder.is_dir() and below(folder)]:
            return found
    raise UserError("there are no results yet: make some with `gpubench run STUDY`")
