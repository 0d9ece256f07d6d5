"""What a report is made from: files and folders, sorted by what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubench.core.errors import UserError
from gpubench.evidence import calibration, physics_results
from gpubench.evidence.calibration import Calibration
from gpubench.evidence.physics_results import CheckResults
from gpubench.evidence.results import Results, load
from gpubench.report import simulations
from gpubench.report.pages import Part


@dataclass(frozen=True)
class Sources:
    """Results of studies, simulations, checks of workloads, and calibrations."""

    results: Sequence[Results]
    simulations: Sequence[Part] = ()
    checks: Sequence[CheckResults] = ()
    calibrations: Sequence[Calibration] = ()


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
    checked = [file for file in others if physics_results.is_of_checks(file)]
    calibrated = [file for file in others if calibration.is_calibration(file)]
    measured = [file for file in others if file not in (*checked, *calibrated)]
    return Sources(
        [load(file) for file in measured],
        simulations.parts(accounts),
        [physics_results.load(file) for file in checked],
        [calibration.load(file) for file in calibrated],
    )
