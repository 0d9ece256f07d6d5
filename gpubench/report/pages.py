"""Pages of a report beside those of studies: a collection of parts, each told in the same way.

Simulations and checks are such collections. Another kind of page takes a module that makes a
`Collection`, which `document.build` adds to the others, and whose stem it keeps free of studies
(`_OTHER_PAGES`); the templates print any.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image

from gpubench.core.errors import UserError
from gpubench.report.tables import Table
from gpubench.report.vega import FigurePart

WIDTH, QUALITY = 640, 30  # of a picture within a page
THUMBNAIL = 320


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
    """A stretch of a study's page that is told in its own way; folded: tables that open."""

    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[FigurePart] = ()
    folded: Sequence[Table] = ()


@dataclass(frozen=True)
class Part:
    """One section of a page: what is said, shown and drawn, and the command that does it again."""

    slug: str
    title: str
    sentences: Sequence[str]
    tables: Sequence[Table]
    figures: Sequence[FigurePart]
    command: str
    picture: Picture | None = None


@dataclass(frozen=True)
class Collection:
    """A page of parts.

    stem: the name of its file without the ending. gist: a sentence for the front page.
    """

    stem: str
    title: str
    gist: str
    parts: Sequence[Part]
