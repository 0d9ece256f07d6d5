"""Pages as HTML, by a template, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpubench.base.markdown import code, escaped
from gpubench.base.version import __version__
from gpubench.report import figures, vega
from gpubench.report.pages import Item, Page, Section, Table

# How the pages of a report are told from other files.
GENERATOR = '<meta name="generator" content="gpubench'


def html(pages: Sequence[Page]) -> dict[str, str]:
    """Return pages as HTML that load the script and pictures beside them alone, by their names."""
    template = Environment(
        loader=PackageLoader("gpubench.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).get_template("page.html.j2")
    palettes = {"light": figures.LIGHT, "dark": figures.DARK}
    names = {"version": __version__, "generator": GENERATOR, "script": vega.SCRIPT}

    def fill(page: Page) -> str:
        said: set[str] = {""}

        def fresh(note: str) -> bool:
            """Whether a note is new on this page."""
            known = note in said
            said.add(note)
            return not known

        return template.render(**names, palettes=palettes, page=page, fresh=fresh)

    return {f"{page.stem}.html": fill(page) for page in pages} | {vega.SCRIPT: vega.script()}


def markdown(pages: Sequence[Page]) -> dict[str, str | bytes]:
    """Return pages as Markdown with the first figure of each section: files by their names."""
    texts: list[str] = []
    files: dict[str, str | bytes] = {}
    for page in pages:
        texts += [f"# {escaped(page.title)}", escaped(page.lead)]
        for section in page.sections:
            texts += _texts(section)
            for figure in section.figures[:1]:
                files[f"figures/{figure.chart.slug}.svg"] = figure.svg
            if section.picture is not None:
                files[f"figures/{section.slug}.png"] = section.picture.png
    return files | {"report.md": "\n\n".join(filter(None, texts)) + "\n"}


def _texts(section: Section) -> Iterator[str]:
    yield f"{'#' * section.level} {escaped(section.title)}" if section.title else ""
    yield f"> **{section.alert}**" if section.alert else ""
    yield escaped(section.verdict)
    if section.picture is not None:
        yield f"![{escaped(section.picture.alternative)}](figures/{section.slug}.png)"
    for figure in section.figures[:1]:
        yield f"![{escaped(figure.description)}](figures/{figure.chart.slug}.svg)"
    yield from map(escaped, section.notes)
    for table in section.tables:
        yield from (f"**{escaped(table.caption)}**", _table(table), *map(escaped, table.notes))
    yield from map(escaped, section.sentences)
    yield from (f"[{escaped(text)}]({place})" for text, place in section.links.items())
    yield code(section.command) if section.command else ""


def _table(table: Table) -> str:
    def text(item: Item) -> str:
        plain = escaped(item.text.replace("\n", "; "))
        shown = f"**{plain}**" if item.strong else plain
        return shown + item.mark + (f" ({escaped(item.detail)})" if item.detail else "")

    rows = [[escaped(row.head), *map(text, row.items)] for row in table.rows]
    lines = [list(map(escaped, table.columns)), [":---"] * len(table.columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
