"""Fill the templates of a report."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpubench import __version__
from gpubench.report import figures, tables
from gpubench.report.document import MEASUREMENTS, Document

# How the pages of a report are told from other files.
GENERATOR = '<meta name="generator" content="gpubench'
_MOST_ODD = 12  # rows of odd samples; more are folded up
_METHOD = (
    "Device time between events around the launches alone: compiling, allocating and copying lie"
    " outside. Launches too short for an event are timed in batches. Algorithms that are compared"
    " take turns in random order in one run, until the 95 % confidence interval of the ratio of"
    " each to the fastest is narrow enough (in older results that of each median), or the budget"
    " of time is spent. Samples that were taken while the device was throttled are set aside."
    " Answers are checked before timing and after it; a wrong answer never has a time.",
    "Tables and figures show the graph replay where there is one, else the hot time, and mark what"
    " differs. Two medians are told apart where their 95 % intervals do not overlap. What is"
    " compared is the time of what each form does, no more: forms differ in what they leave behind"
    " (linked lists or sorted ranges, with or without reordered positions), so the fastest to"
    " build need not be the best to search afterwards.",
)


def html(report: Document, spreadsheets: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return a report as HTML that loads nothing: the content of each page by its name.

    spreadsheets: names of the CSV files of each study, by its stem.
    """
    environment = _environment(autoescape=True)
    names = {
        **_names(report, spreadsheets),
        "light": figures.css_variables(figures.LIGHT),
        "dark": figures.css_variables(figures.DARK),
    }

    def fill(template: str, **own: object) -> str:
        return environment.get_template(f"{template}.html.j2").render(**names, **own)

    pages = {"index": fill("index")}
    for page in report.studies:
        pages[page.stem] = fill("study", page=page)
        if page.has_measurements:
            pages[f"{page.stem}{MEASUREMENTS}"] = fill("measurements", page=page)
    for collection in report.collections:
        pages[collection.stem] = fill("parts", collection=collection)
    return {f"{stem}.html": page for stem, page in pages.items()}


def markdown(
    report: Document, spreadsheets: Mapping[str, Collection[str]]
) -> dict[str, str | bytes]:
    """Return a report as Markdown with figures and pictures: content of each file by its name."""
    environment = _environment(autoescape=False)
    environment.filters["md"] = escape_markdown
    environment.filters["code"] = code_in_markdown
    names = _names(report, spreadsheets)
    files: dict[str, str | bytes] = {
        "report.md": environment.get_template("report.md.j2").render(**names)
    }
    parts = [part for collection in report.collections for part in collection.parts]
    drawn = [part.figures for part in parts]
    drawn += [study.drawn for machine in report.machines for study in machine.studies]
    for figure in itertools.chain.from_iterable(drawn):
        for index, drawing in enumerate(figure.drawings):
            files[f"figures/{figure.chart.slug}-{index}.svg"] = drawing.standalone
    for part in parts:
        if part.picture is not None:
            files[f"figures/{part.slug}.png"] = part.picture.png
    return files


def escape_markdown(text: object) -> str:
    """Escape what Markdown or HTML inside it would take for markup; keep it on one line."""
    flat = " ".join(str(text).split())
    for sign in "\\`*_[]|":
        flat = flat.replace(sign, f"\\{sign}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code_in_markdown(text: object) -> str:
    """Write a text as code, between more backticks than it has in a row."""
    flat = " ".join(str(text).split())
    fence = "`" * (1 + max(map(len, re.findall("`+", flat)), default=0))
    return f"{fence} {flat} {fence}" if len(fence) > 1 else f"`{flat}`"


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
        "measurements": MEASUREMENTS,
        "method": _METHOD,
        "most_odd": _MOST_ODD,
        "modes": tables.MODES,
        "backends": {"cuda": "CUDA", "opencl": "OpenCL"},
    }
