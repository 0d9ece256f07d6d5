"""How commands print: tables for people, JSON for programs, both on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH, WIDEST = 160, 240  # of a table where there is no terminal to ask


def new_table(*columns: str) -> Table:
    """Return an empty table with these headings."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def console_on(stream: TextIO) -> Console:
    """Return a console for tables on a stream, as wide as the terminal if it is one."""
    from rich.console import Console

    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table and an empty line, to standard output unless a console is given."""
    console = console or console_on(sys.stdout)
    if not console.is_terminal:
        natural = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
        console.width = max(console.width, natural)
    console.print(table)
    console.print()


def print_json(value: object) -> None:
    """Print a value as JSON; NaN is refused with ValueError."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))
