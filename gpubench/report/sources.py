"""The input files of a report, grouped by what they contain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpubench.evidence import calibration, physics_results
from gpubench.evidence.files import ACCOUNT, KINDS, every_file, kind_of
from gpubench.evidence.results import Results, load
from gpubench.report import simulations
from gpubench.report.cells import grouped
from gpubench.report.pages import Section


class Sources(NamedTuple):
    """Results of studies, simulations, checks of workloads, and calibrations."""

    results: Sequence[Results] = ()
    simulations: Sequence[Section] = ()
    checks: Sequence[physics_results.CheckResults] = ()
    calibrations: Sequence[calibration.Calibration] = ()


def sort_out(paths: Sequence[Path]) -> Sources:
    """Read files, and all JSON in and below folders, each once.

    Raises UserError for a file of none of these kinds, and for a folder without any.
    """
    by_kind = grouped(every_file(paths, "results", "gpubench run STUDY"), kind_of)
    measured, checks, calibrations = (by_kind.get(kind, []) for kind in KINDS)
    return Sources(
        list(map(load, [*measured, *by_kind.get("", ())])),  # raises for a file of no kind
        simulations.sections(by_kind.get(ACCOUNT, ())),
        list(map(physics_results.load, checks)),
        list(map(calibration.load, calibrations)),
    )
