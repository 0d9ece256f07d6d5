"""Escaped Markdown for reports, comments on pull requests, and tables in a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence


def escaped(text: object) -> str:
    """Escape Markdown and HTML markup; keep the text on one line."""
    flat = " ".join(str(text).split())
    for sign in "\\`*_[]|":
        flat = flat.replace(sign, f"\\{sign}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: object) -> str:
    """Format a text as inline code; the delimiter is longer than any run of backticks in it."""
    flat = " ".join(str(text).split())
    fence = "`" * (1 + max(map(len, re.findall("`+", flat)), default=0))
    return f"{fence} {flat} {fence}" if len(fence) > 1 else f"`{flat}`"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the cells of `rows` are escaped, `columns` are not."""
    lines = [columns, [":---"] * len(columns), *([escaped(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
