"""Pages of a report as data, which the HTML and the Markdown templates both print.

The page of a study has sections; a collection (simulations, checks, calibrations) has parts, each
told in the same way. Another kind of page takes a module that makes a `Collection`, which
`document.build` adds to the others, and whose stem it keeps free of studies (`_OTHER_PAGES`).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from PIL import Image

from gpubench.core.errors import UserError
from gpubench.report import formats
from gpubench.report.vega import FigurePart

WIDTH, QUALITY = 640, 30  # of a picture within a page
THUMBNAIL = 320


@dataclass(frozen=True)
class Item:
    """One cell of a table.

    kind: "number", "name" (left-aligned), "words" (may wrap), or "none" (no time).
    detail: a second, smaller line; mark: a letter that the table's notes explain.
    """

    text: str
    kind: str = "number"
    detail: str = ""
    mark: str = ""
    strong: bool = False


NOTHING = Item(formats.DASH, "none")


@dataclass(frozen=True)
class Row:
    """A row: its heading, which may lead to a page, and its items."""

    head: str
    items: Sequence[Item]
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A table: columns[0] heads the row headings; `over` spans the other columns.

    groups: a heading over some of these each, and how many; all of them together, or none.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    over: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    groups: Sequence[tuple[str, int]] = ()

    @property
    def full_columns(self) -> list[str]:
        """The columns, each with the heading that stands over it."""
        over = [heading for heading, count in self.groups for _ in range(count)]
        over = over or [""] * (len(self.columns) - 1)
        named = zip(over, self.columns[1:], strict=True)
        return [self.columns[0], *(": ".join(filter(None, pair)) for pair in named)]


@dataclass(frozen=True)
class Picture:
    """A picture as PNG, and what it shows in words."""

    png: bytes
    alternative: str

    @classmethod
    def read(cls, path: Path, alternative: str) -> Picture:
        """Read a file; raises UserError where it is missing or no PNG."""
        try:
            found = cls(path.read_bytes(), alternative)
            found.uri()
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise UserError(f"{path} is no picture as PNG: {error}") from error
        return found

    def uri(self, width: int = WIDTH) -> str:
        """Return it as a data URI, so that a page loads nothing: small, as WebP."""
        picture = Image.open(BytesIO(self.png), formats=["PNG"]).convert("RGB")
        picture.thumbnail((width, picture.height))
        small = BytesIO()
        picture.save(small, "WEBP", quality=QUALITY)
        return "data:image/webp;base64," + base64.b64encode(small.getvalue()).decode()

    @property
    def thumbnail(self) -> str:
        """The same, smaller."""
        return self.uri(THUMBNAIL)


@dataclass(frozen=True)
class Section:
    """A stretch of a study's page: figures, then tables, then sentences.

    notes: said of all tables, before them. side_by_side: whether tables stand so.
    in_text: whether the first figure stands in Markdown too.
    """

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[FigurePart] = ()
    notes: Sequence[str] = ()
    side_by_side: bool = False
    in_text: bool = True

    @property
    def drawn(self) -> Sequence[FigurePart]:
        """The figures that stand in Markdown too."""
        return self.figures[: int(self.in_text)]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.sentences or self.tables or self.figures)


@dataclass(frozen=True, kw_only=True)
class Part(Section):
    """One section of a page that is not of a study, and the command that does it again."""

    slug: str
    command: str
    picture: Picture | None = None

    @property
    def drawn(self) -> Sequence[FigurePart]:
        """All figures."""
        return self.figures


@dataclass(frozen=True)
class Collection:
    """A page of parts.

    stem: the name of its file without the ending. gist: a sentence for the front page.
    """

    stem: str
    title: str
    gist: str
    parts: Sequence[Part]
