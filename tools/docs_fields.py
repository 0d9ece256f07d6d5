"""Format the fields of docstrings, such as `positions: float32, shape (n, 4)`, as a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

FIELD = re.compile(r"^(\w+(?:, \w+)*): (?=\S)")


class Fields(griffe.Extension):
    """Convert fields to items of a Markdown list; indented lines continue an item."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_list(obj.docstring.value)


def as_list(text: str) -> str:
    """Return a docstring with its fields as list items, after its first paragraph."""
    lines: list[str] = []
    is_field = False
    for line in text.splitlines():
        found = FIELD.match(line) if lines else None
        if found:
            lines += [""] if not is_field else []
            lines.append(f"- `{found[1]}`: {line[found.end() :]}")
            is_field = True
            continue
        if is_field and line and not line.startswith(" "):
            lines.append("")
            is_field = False
        lines.append(line)
    return "\n".join(lines)
