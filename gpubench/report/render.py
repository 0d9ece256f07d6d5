"""Fill the templates of a report."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpubench import __version__
from gpubench.core.markdown import code, escaped
from gpubench.report import figures, spreadsheets, tables, vega
from gpubench.report.document import Document

# How the pages of a report are told from other files.
GENERATOR = '<meta name="generator" content="gpubench'
_METHOD = (
    "Times are of the device, between events around the launches alone. Every answer is checked"
    " before it is timed and again after; a wrong one never has a time. Intervals are 95 % of the"
    " median. A graph replay counts where there is one, else warm launches.",
)


def html(report: Document) -> dict[str, str]:
    """Return a report as HTML that loads the script beside it alone: each page by its name."""
    environment = _environment(autoescape=True)
    names = {
        **_names(report),
        "light": figures.css_variables(figures.LIGHT),
        "dark": figures.css_variables(figures.DARK),
    }

    def fill(template: str, **own: object) -> str:
        said: set[str] = set()

        def fresh(note: str) -> bool:
            """Say whether a note of a table is new on this page."""
            known = note in said
            said.add(note)
            return not known

        page = environment.get_template(f"{template}.html.j2")
        return page.render(**names, fresh=fresh, **own)

    pages = {"index": fill("index")}
    for page in report.studies:
        pages[page.stem] = fill("study", page=page)
    for collection in report.collections:
        pages[collection.stem] = fill("parts", collection=collection)
    return {f"{stem}.html": page for stem, page in pages.items()} | {vega.SCRIPT: vega.script()}


def markdown(report: Document) -> dict[str, str | bytes]:
    """Return a report as Markdown with figures and pictures: content of each file by its name."""
    environment = _environment(autoescape=False)
    environment.filters |= {"md": escaped, "code": code}
    names = _names(report)
    files: dict[str, str | bytes] = {
        "report.md": environment.get_template("report.md.j2").render(**names)
    }
    parts = [part for collection in report.collections for part in collection.parts]
    sections = [s for m in report.machines for study in m.studies for s in study.sections]
    figures = [figure for section in (*parts, *sections) for figure in section.drawn]
    figures += [map for m in report.machines for part in m.answers for *_, map in part.tasks]
    for figure in figures:
        files[f"figures/{figure.chart.slug}.svg"] = figure.svg
    for part in parts:
        if part.picture is not None:
            files[f"figures/{part.slug}.png"] = part.picture.png
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


def _names(report: Document) -> dict[str, object]:
    return {
        "report": report,
        "csv": spreadsheets.ENDING,
        "version": __version__,
        "generator": GENERATOR,
        "script": vega.SCRIPT,
        "method": _METHOD,
        "modes": tables.MEANINGS,
        "backends": {"cuda": "CUDA", "opencl": "OpenCL"},
    }
