"""What a report is made from: files and folders, sorted by what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubench.base.errors import UserError
from gpubench.evidence import calibration, physics_results
from gpubench.evidence.calibration import Calibration
from gpubench.evidence.files import ACCOUNT, below, kind_of
from gpubench.evidence.physics_results import CheckResults
from gpubench.evidence.results import Results, load
from gpubench.report import simulations
from gpubench.report.cells import grouped
from gpubench.report.pages import Section


@dataclass(frozen=True)
class Sources:
    """Results of studies, simulations, checks of workloads, and calibrations."""

    results: Sequence[Results]
    simulations: Sequence[Section] = ()
    checks: Sequence[CheckResults] = ()
    calibrations: Sequence[Calibration] = ()


def sort_out(paths: Sequence[Path]) -> Sources:
    """Read files, and every file of JSON in and below folders, each once.

    Raises UserError for a file that is no results, no account of a simulation, no calibration,
    and nothing that checks found, and for a folder without any.
    """
    files: dict[Path, Path] = {}
    for path in paths:
        if not (inside := below(path)):
            raise UserError(f"no results in {path}: make some with `gpubench run STUDY`")
        for file in inside:
            files.setdefault(file.resolve(), file)
    by_kind = grouped(files.values(), kind_of)
    accounts, checks, calibrations = (
        by_kind.pop(kind, []) for kind in (ACCOUNT, "checks", "calibration")
    )
    return Sources(
        [load(file) for measured in by_kind.values() for file in measured],
        simulations.sections(accounts),
        [physics_results.load(file) for file in checks],
        [calibration.load(file) for file in calibrations],
    )
