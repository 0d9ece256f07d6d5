"""Fill the templates of a report."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpubench import __version__
from gpubench.core.markdown import code, escaped
from gpubench.report import figures, tables, vega
from gpubench.report.document import MEASUREMENTS, Document

# How the pages of a report are told from other files.
GENERATOR = '<meta name="generator" content="gpubench'
_METHOD = (
    "Times are of the device, between events around the launches alone. Every answer is checked"
    " before it is timed and again after; a wrong one never has a time. Intervals are 95 % of the"
    " median. A graph replay counts where there is one, else warm launches.",
)


def html(report: Document, spreadsheets: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return a report as HTML that loads the script beside it alone: each page by its name.

    spreadsheets: names of the CSV files of each study, by its stem.
    """
    environment = _environment(autoescape=True)
    names = {
        **_names(report, spreadsheets),
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
        if any(study.every_record for _, study in page.of_machines):
            pages[f"{page.stem}{MEASUREMENTS}"] = fill("measurements", page=page)
    for collection in report.collections:
        pages[collection.stem] = fill("parts", collection=collection)
    return {f"{stem}.html": page for stem, page in pages.items()} | {vega.SCRIPT: vega.script()}


def markdown(
    report: Document, spreadsheets: Mapping[str, Collection[str]]
) -> dict[str, str | bytes]:
    """Return a report as Markdown with figures and pictures: content of each file by its name."""
    environment = _environment(autoescape=False)
    environment.filters |= {"md": escaped, "code": code}
    names = _names(report, spreadsheets)
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


def _names(report: Document, spreadsheets: Mapping[str, Collection[str]]) -> dict[str, object]:
    return {
        "report": report,
        "spreadsheets": spreadsheets,
        "version": __version__,
        "generator": GENERATOR,
        "script": vega.SCRIPT,
        "measurements": MEASUREMENTS,
        "method": _METHOD,
        "modes": tables.MEANINGS,
        "backends": {"cuda": "CUDA", "opencl": "OpenCL"},
    }
