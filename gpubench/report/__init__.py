"""Turn results and published numbers into HTML, Markdown, CSV and figures.

Nothing here opens a device, so a report can be rebuilt anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpubench.report import document, render, spreadsheets
from gpubench.report.cells import machines
from gpubench.results import Results


def write(results: Sequence[Results], out: Path) -> Path:
    """Write a report on results and return the path of its page.

    Writes `index.html` (self-contained), `report.md` with `figures/*.svg`, and as CSV
    `records.csv` (all records, without samples) and, for each study with a published table,
    `<study>-printed.csv` and `<study>-measured.csv`, for each with simulation steps
    `<study>-phases.csv`. Each file is replaced whole or not at all;
    figures of an earlier report are removed.
    """
    found = machines(results)
    report = document.build(found)
    files = {
        **spreadsheets.files(results, found),
        **render.markdown(report),
        "index.html": render.html(report),
    }
    for name, text in files.items():
        _replace(out / name, text)
    for figure in (out / "figures").glob("*.svg"):
        if f"figures/{figure.name}" not in files:
            figure.unlink()
    return out / "index.html"


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
