"""`gpubench show`: results as tables, CSV, JSON or Markdown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from gpubench.base.errors import UserError
from gpubench.cli import require, values
from gpubench.cli.options import ResultsArgument
from gpubench.cli.output import print_json, print_table
from gpubench.cli.report import default_results
from gpubench.cli.values import opt

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


def show(
    results: ResultsArgument = None,
    written: Annotated[
        str,
        opt(
            "FORMAT",
            "One of {formats}; csv and json have all columns of `gpubench.load`.",
            "--format",
            among="formats",
        ),
    ] = "table",
) -> None:
    """Print measured times with intervals, ranked.

    Only algorithms that do equal work, with correct and complete answers, are ranked against each
    other. `=` after a rank: as fast as the best, within the uncertainty.
    """
    from gpubench.cli import measured
    from gpubench.evidence.files import load_results
    from gpubench.evidence.frame import frame

    require.one_process("show")
    if written not in values.FORMATS:
        raise UserError(f"--format takes one of {', '.join(values.FORMATS)}, not {written!r}")
    found = frame(load_results(results or default_results()))
    if written == "csv":
        found.to_csv(sys.stdout, index=False)
    elif written == "json":
        print_json(measured.as_json(found))
    elif written == "markdown":
        print(measured.markdown(found), end="")
    else:
        print_measured(found)


def print_measured(found: pd.DataFrame, console: Console | None = None) -> None:
    """Print a data frame of results as tables, to standard output unless a console is given."""
    from gpubench.cli import measured

    for text in measured.texts(found):
        print_table(text.columns, text.rows, text.title, console)
