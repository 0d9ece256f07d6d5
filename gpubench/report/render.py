"""Fill the templates of a report."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpubench import __version__
from gpubench.report import figures, formats, tables
from gpubench.report.document import Document


def html(report: Document) -> dict[str, str]:
    """Return a report as HTML that loads nothing: index.html, and measurements.html beside it."""
    environment = _environment(autoescape=True)
    names = {
        **_names(report),
        "light": figures.css_variables(figures.LIGHT),
        "dark": figures.css_variables(figures.DARK),
    }
    return {
        f"{page}.html": environment.get_template(f"{template}.html.j2").render(**names)
        for page, template in (("index", "page"), ("measurements", "measurements"))
    }


def markdown(report: Document) -> dict[str, str | bytes]:
    """Return a report as Markdown with figures and pictures: content of each file by its name."""
    environment = _environment(autoescape=False)
    environment.filters["md"] = escape_markdown
    files: dict[str, str | bytes] = {
        "report.md": environment.get_template("report.md.j2").render(**_names(report))
    }
    for machine in report.machines:
        for study in machine.studies:
            for figure in study.figures:
                for index, drawing in enumerate(figure.drawings):
                    files[f"figures/{figure.chart.slug}-{index}.svg"] = drawing.standalone
    for part in report.simulations:
        if part.panel is not None:
            files[f"figures/{part.slug}.png"] = part.panel
    figures = [part.figures for part in report.simulations]
    figures += [part.figures for part in report.checks]
    for of_part in figures:
        for chart, drawings in of_part:
            for index, drawing in enumerate(drawings):
                files[f"figures/{chart.slug}-{index}.svg"] = drawing.standalone
    return files


def escape_markdown(text: object) -> str:
    """Escape what Markdown or HTML inside it would take for markup; keep it on one line."""
    flat = " ".join(str(text).split())
    for sign in "\\`*_[]|":
        flat = flat.replace(sign, f"\\{sign}")
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
        "version": __version__,
        "count": formats.count,
        "modes": tables.MODES,
        "backends": {"cuda": "CUDA", "opencl": "OpenCL"},
    }
