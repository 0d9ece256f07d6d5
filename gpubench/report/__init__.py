"""Write reports on results and published numbers: HTML, Markdown, CSV, figures. Needs no device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpubench.evidence.calibration import Calibration
from gpubench.evidence.physics_results import CheckResults
from gpubench.evidence.results import Results
from gpubench.report import document, folder, render, spreadsheets
from gpubench.report.machines import machines
from gpubench.report.pages import Section


def write(
    results: Sequence[Results],
    out: Path,
    simulations: Sequence[Section] = (),
    checks: Sequence[CheckResults] = (),
    calibrations: Sequence[Calibration] = (),
) -> Path:
    """Write a report, and return the path of its front page.

    Pages load only `gpubench.js` and pictures from the same folder, which also gets `report.md`,
    its `figures/`, and CSV (see `spreadsheets.files`). Raises UserError as `folder.replace` does.
    """
    folder.require_own(out)
    found = machines(results)
    stems = document.stems(found)
    pages = document.build(found, stems, simulations, checks, calibrations)
    files: dict[str, str | bytes] = {
        **spreadsheets.files(found, stems),
        **render.markdown(pages),
        **render.html(pages),
    }
    folder.replace(out, files)
    return out / "index.html"
