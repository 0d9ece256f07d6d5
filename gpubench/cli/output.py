"""How commands print: tables for people, JSON for programs, both on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 160  # of a table where there is no terminal to ask


def new_table(*columns: str) -> Table:
    """Return an empty table with these headings."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def print_table(table: Table) -> None:
    """Print a table and an empty line."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(table)
    console.print()


def print_json(value: object) -> None:
    """Print a value as JSON; NaN is refused with ValueError."""
    print(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False))
