"""`gpubench show`: results as tables, CSV, JSON or Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpubench.base.errors import UserError
from gpubench.cli import require, values
from gpubench.cli.output import new_table, print_json, print_table
from gpubench.cli.report import default_results
from gpubench.cli.values import arg, opt

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


def show(
    results: Annotated[
        list[Path] | None,
        arg(
            "[RESULT]...",
            "Results files or folders of them. Default: those of `gpubench run`,"
            " otherwise those of the checkout.",
        ),
    ] = None,
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

    Ranks are among equal work. Only right and complete answers have a rank. `=` after a rank: as
    fast as the best, within the uncertainty.
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
        table = new_table(*text.columns)
        table.title, table.title_justify = text.title, "left"
        for row in text.rows:
            table.add_row(*row)
        print_table(table, console)
