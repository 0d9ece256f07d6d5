"""Write reports on results and published numbers: HTML, Markdown, CSV, figures. Needs no device."""

from __future__ import annotations

from pathlib import Path

from gpubench.report import document, folder, render, spreadsheets
from gpubench.report.machines import machines
from gpubench.report.sources import Sources


def write(sources: Sources, out: Path) -> Path:
    """Write a report, and return the path of its front page.

    Pages load only `gpubench.js` and pictures from the same folder, which also gets `report.md`,
    its `figures/`, and CSV (see `spreadsheets.files`). Raises UserError as `folder.replace` does.
    """
    folder.require_own(out)
    found = machines(sources.results)
    stems = document.stems(found)
    pages = document.build(found, stems, sources)
    files = spreadsheets.files(found, stems) | render.markdown(pages) | render.html(pages)
    folder.replace(out, files)
    return out / "index.html"
