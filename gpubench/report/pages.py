"""A report as data: pages of sections, rendered as both HTML and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from gpubench.report import formats
from gpubench.report.vega import FigurePart

T = TypeVar("T")
_HALF, _LETTER, _PADDING = 480, 9, 16  # pixels: half a page, a letter, cell padding


class Item(NamedTuple):
    """A table cell. kind: "number", "words" (may wrap), or "none" (no time).

    detail: a second, smaller line; mark: a letter that the table's notes explain.
    """

    text: str
    kind: str = "number"
    detail: str = ""
    mark: str = ""
    strong: bool = False


NOTHING = Item(formats.DASH, "none")


def number(
    value: float | None, write: Callable[[float], str] = formats.significant, detail: str = ""
) -> Item:
    """Return the cell of a number, or a dash for None."""
    return NOTHING if value is None else Item(write(value), detail=detail)


def words(text: str, detail: str = "") -> Item:
    """Return the cell of a text."""
    return Item(text, "words", detail)


class Row(NamedTuple):
    """A table row: its heading, which may link to a page, and its cells."""

    head: str
    items: Sequence[Item]
    link: str = ""


class Table(NamedTuple):
    """A table: columns[0] is above the row headings; notes are printed below the table."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        caption: str,
        shown: Iterable[T],
        head: tuple[str, Callable[[T], str]],
        columns: Mapping[str, Callable[[T], Item | str]],
        notes: Sequence[str] = (),
    ) -> Table:
        """Make a row for each item shown; columns: headings, and functions that make the cells."""
        rows = []
        for each in shown:
            made = (write(each) for write in columns.values())
            items = [item if isinstance(item, Item) else Item(item) for item in made]
            rows.append(Row(head[1](each), items))
        return cls(caption, [head[0], *columns], rows, notes)

    @property
    def is_wide(self) -> bool:
        """Whether it may be too wide to share the page with another table."""
        first = self.rows[0].items if self.rows else ()
        cells = [[row.head, *(item.text + item.mark for item in row.items)] for row in self.rows]
        heads = [max(heading.split() or [""], key=len) for heading in self.columns]
        letters = sum(max(map(len, each)) for each in zip(heads, *cells, strict=True))
        room = letters * _LETTER + len(heads) * _PADDING
        return room > _HALF or any(item.kind == "words" for item in first)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page, which shows its fields in this order.

    slug: anchor, and the picture's file name. measured: environments of the measurements shown.
    machine: only one machine's sections show at a time. style: "half" (width) or "abreast"
    (figures side by side). picture: a PNG; seen: what it shows. command: repeats the measurements.
    """

    title: str = ""
    level: int = 3
    slug: str = ""
    measured: Sequence[Mapping[str, Any]] = ()
    machine: str = ""
    style: str = ""
    alert: str = ""
    verdict: str = ""
    picture: bytes = b""
    seen: str = ""
    figures: Sequence[FigurePart] = ()
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    sentences: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", [table for table in self.tables if table.rows])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.verdict or self.sentences or self.tables or self.figures or self.links)


class Page(NamedTuple):
    """One HTML file, named by its stem, and one chapter of the Markdown file."""

    stem: str
    title: str
    lead: str
    sections: Sequence[Section]
