"""Render pages as HTML, by a template, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpubench.base.markdown import code, escaped
from gpubench.base.version import __version__
from gpubench.report import figures, vega
from gpubench.report.pages import Item, Page, Section, Table

# Identifies the pages of a report among other files.
GENERATOR = '<meta name="generator" content="gpubench'


def html(pages: Sequence[Page]) -> dict[str, str]:
    """Return HTML files by name; they load only the script and pictures of the same folder."""
    template = Environment(
        loader=PackageLoader("gpubench.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).get_template("page.html.j2")
    palette = list(zip(figures.LIGHT, figures.DARK, strict=True))
    names = {"version": __version__, "generator": GENERATOR, "script": vega.SCRIPT}

    def fill(page: Page) -> str:
        said: set[tuple[str, str]] = set()

        def fresh(note: str, machine: str) -> bool:
            """Whether a note has not appeared on this page for this machine yet."""
            known = not note or (note, machine) in said
            said.add((note, machine))
            return not known

        return template.render(**names, palette=palette, page=page, fresh=fresh)

    return {f"{page.stem}.html": fill(page) for page in pages} | {vega.SCRIPT: vega.script()}


def markdown(pages: Sequence[Page]) -> dict[str, str | bytes]:
    """Return the Markdown file and its pictures by name, with each section's first figure."""
    texts: list[str] = []
    files: dict[str, str | bytes] = {}
    for page in pages:
        texts += [f"# {escaped(page.title)}", escaped(page.lead)]
        for section in page.sections:
            texts += _texts(section)
            for figure in section.figures[:1]:
                files[f"figures/{figure.chart.slug}.svg"] = figure.svg
            if section.picture:
                files[f"figures/{section.slug}.png"] = section.picture
    return files | {"report.md": "\n\n".join(filter(None, texts)) + "\n"}


def _texts(section: Section) -> Iterator[str]:
    yield f"{'#' * section.level} {escaped(section.title)}" if section.title else ""
    yield f"> **{section.alert}**" if section.alert else ""
    yield escaped(section.verdict)
    if section.picture:
        yield f"![{escaped(section.seen)}](figures/{section.slug}.png)"
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
