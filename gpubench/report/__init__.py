"""Turn results and published numbers into HTML, Markdown, CSV and figures.

Nothing here opens a device, so a report can be rebuilt anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpubench.check_results import CheckResults
from gpubench.report import document, render, spreadsheets
from gpubench.report.cells import machines
from gpubench.report.simulations import SimulationPart
from gpubench.results import Results


def write(
    results: Sequence[Results],
    out: Path,
    simulations: Sequence[SimulationPart] = (),
    checks: Sequence[CheckResults] = (),
) -> Path:
    """Write a report on results, simulations and checks, and return the path of its page.

    Writes `index.html` and `measurements.html`, which load nothing, `report.md` with
    `figures/*.svg`, and as CSV `records.csv` (all records, without samples), for each study with a
    published table `<study>-printed.csv` and `<study>-measured.csv`, for each with simulation
    steps `<study>-phases.csv`, and for each of several ranks `<study>-ranks.csv`. Each file is
    replaced whole or not at all; figures and pictures of an earlier report are removed.
    """
    found = machines(results)
    report = document.build(found, simulations, checks)
    files: dict[str, str | bytes] = {
        **spreadsheets.files(results, found),
        **render.markdown(report),
        **render.html(report),
    }
    for name, content in files.items():
        _replace(out / name, content)
    for pattern in ("*.svg", "simulation-*.png"):
        for figure in (out / "figures").glob(pattern):
            if f"figures/{figure.name}" not in files:
                figure.unlink()
    return out / "index.html"


def _replace(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)
