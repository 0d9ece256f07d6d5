"""What a report is made from: files and folders, sorted by what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubench.core.errors import UserError
from gpubench.evidence import calibration, physics_results
from gpubench.evidence.calibration import Calibration
from gpubench.evidence.physics_results import CheckResults
from gpubench.evidence.results import Results, load, read_json
from gpubench.report import simulations
from gpubench.report.pages import Part


@dataclass(frozen=True)
class Sources:
    """Results of studies, simulations, checks of workloads, and calibrations."""

    results: Sequence[Results]
    simulations: Sequence[Part] = ()
    checks: Sequence[CheckResults] = ()
    calibrations: Sequence[Calibration] = ()


_KINDS = ("checks", "calibration")  # what a file holds that is not of measurements


def _kind(file: Path) -> str:
    """Tell which of these a file holds; raises UserError where it may, and is no JSON."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # `load` says why
    named = [kind for kind in _KINDS if f'"{kind}"' in text]  # to parse all takes seconds
    document = read_json(file) if named else None
    return next((kind for kind in named if isinstance(document, dict) and kind in document), "")


def sort_out(paths: Sequence[Path]) -> Sources:
    """Read files, and every .json file in and below folders, each once.

    Raises UserError for a file that is no results, no account of a simulation, no calibration,
    and nothing that checks found, and for a folder without any.
    """
    files: dict[Path, Path] = {}
    for path in paths:
        inside = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not inside:
            raise UserError(f"no results in {path}: make some with `gpubench run STUDY`")
        for file in inside:
            files.setdefault(file.resolve(), file)
    accounts = [file for file in files.values() if file.name == simulations.ACCOUNT]
    others = [file for file in files.values() if file.name != simulations.ACCOUNT]
    kinds = {file: _kind(file) for file in others}
    checked, calibrated, measured = (
        [file for file in others if kinds[file] == kind] for kind in (*_KINDS, "")
    )
    return Sources(
        [load(file) for file in measured],
        simulations.parts(accounts),
        [physics_results.load(file) for file in checked],
        [calibration.load(file) for file in calibrated],
    )
