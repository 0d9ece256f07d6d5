"""Turn results and published numbers into HTML, Markdown, CSV and figures.

Nothing here opens a device, so a report can be rebuilt anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpubench.calibration import Calibration
from gpubench.check_results import CheckResults
from gpubench.report import document, render, spreadsheets
from gpubench.report.cells import machines
from gpubench.report.parts import Part
from gpubench.results import Results


def write(
    results: Sequence[Results],
    out: Path,
    simulations: Sequence[Part] = (),
    checks: Sequence[CheckResults] = (),
    calibrations: Sequence[Calibration] = (),
) -> Path:
    """Write a report on all that is given, and return the path of its front page.

    Writes pages that load nothing: `index.html`, for each study `<study>.html` and
    `<study>-measurements.html`, and `simulations.html`, `checks.html` and `calibration.html` where
    there are any.
    Beside them `report.md` with `figures/*.svg`, and as CSV `<study>-records.csv` (the newest
    record of each key on each machine, without samples, states of the device and empty columns),
    for each study with a published table `<study>-printed.csv` and `<study>-measured.csv`, for each
    with simulation steps `<study>-phases.csv`, for each of several ranks `<study>-ranks.csv`, and
    for neighbour searches what their figures show (`spreadsheets.KINDS`). Each file is replaced
    whole or not at all; what an earlier report left in the folder is removed.
    """
    found = machines(results)
    stems = document.stems(found)
    texts = spreadsheets.files(found, stems)
    report = document.build(found, stems, simulations, checks, calibrations)
    files: dict[str, str | bytes] = {
        **{name: text for of_study in texts.values() for name, text in of_study.items()},
        **render.markdown(report, texts),
        **render.html(report, texts),
    }
    earlier = list(_of_earlier_report(out))
    for name, content in files.items():
        _replace(out / name, content)
    for path in earlier:
        if path.name not in files:
            path.unlink(missing_ok=True)
    for pattern in ("*.svg", "simulation-*.png"):
        for figure in (out / "figures").glob(pattern):
            if f"figures/{figure.name}" not in files:
                figure.unlink()
    return out / "index.html"


def _of_earlier_report(out: Path) -> Iterator[Path]:
    """Yield what the front page of an earlier report leads to, without figures."""
    index = out / "index.html"
    html = index.read_text(encoding="utf-8", errors="replace") if index.is_file() else ""
    if render.GENERATOR not in html:
        return
    endings = [".html", f"{document.MEASUREMENTS}.html"]
    endings += [f"-{kind}.csv" for kind in spreadsheets.KINDS]
    for stem in set(re.findall(r'href="([a-z0-9-]+)\.html', html)):
        yield from (out / f"{stem}{ending}" for ending in endings)


def _replace(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)
