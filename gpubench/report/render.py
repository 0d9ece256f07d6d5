"""Fill the templates of a report."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpubench import __version__
from gpubench.core.markdown import code, escaped
from gpubench.report import figures, vega
from gpubench.report.pages import Page

# How the pages of a report are told from other files.
GENERATOR = '<meta name="generator" content="gpubench'


def html(pages: Sequence[Page]) -> dict[str, str]:
    """Return pages as HTML that load the script and pictures beside them alone, by their names."""
    template = _environment(autoescape=True).get_template("page.html.j2")
    names = {
        "version": __version__,
        "generator": GENERATOR,
        "script": vega.SCRIPT,
        "light": figures.css_variables(figures.LIGHT),
        "dark": figures.css_variables(figures.DARK),
    }

    def fill(page: Page) -> str:
        said: set[str] = {""}

        def fresh(note: str) -> bool:
            """Say whether a note is new on this page."""
            known = note in said
            said.add(note)
            return not known

        return template.render(**names, page=page, fresh=fresh)

    return {f"{page.stem}.html": fill(page) for page in pages} | {vega.SCRIPT: vega.script()}


def markdown(pages: Sequence[Page]) -> dict[str, str | bytes]:
    """Return pages as Markdown with the first figure of each section: files by their names."""
    environment = _environment(autoescape=False)
    environment.filters |= {"md": escaped, "code": code}
    text = environment.get_template("report.md.j2").render(pages=pages)
    files: dict[str, str | bytes] = {"report.md": text}
    for section in (section for page in pages for section in page.sections):
        for figure in section.figures[:1]:
            files[f"figures/{figure.chart.slug}.svg"] = figure.svg
        if section.picture is not None:
            files[f"figures/{section.slug}.png"] = section.picture.png
    return files


def _environment(autoescape: bool) -> Environment:
    return Environment(
        loader=PackageLoader("gpubench.report", "."),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
