"""How commands print: tables for people, JSON for programs, both on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH, WIDEST = 160, 240  # default and maximum width of a table without a terminal


def console_on(stream: TextIO) -> Console:
    """Return a console for tables on a stream, as wide as the terminal if it is one."""
    from rich.console import Console

    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_table(
    columns: Iterable[str],
    rows: Iterable[Iterable[str | None]],
    title: str | None = None,
    console: Console | None = None,
) -> None:
    """Print a table and an empty line, to standard output unless a console is given."""
    from rich.table import Column, Table

    headings = [Column(name, overflow="fold") for name in columns]
    table = Table(*headings, title=title, title_justify="left", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console = console or console_on(sys.stdout)
    if not console.is_terminal:
        natural = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
        console.width = max(console.width, natural)
    console.print(table)
    console.print()


def print_json(value: object) -> None:
    """Print a value as JSON; NaN raises ValueError."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))
