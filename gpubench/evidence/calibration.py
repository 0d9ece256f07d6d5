"""Results of `gpubench calibrate` on disk: how reliable verdicts on a machine are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpubench.base import paths
from gpubench.base.errors import UserError
from gpubench.evidence import bounds
from gpubench.evidence.bounds import Amount, Count, Environment, Line, Ms, Name, Positive, Share
from gpubench.evidence.records import to_json

Look = Annotated[int, Meta(ge=1, le=1_000_000)]
Pairs = Annotated[float, Meta(ge=0, le=1_000_000)]


class Measured(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One cell (measurement) in a pair of processes, base and head, that run the same code.

    base_ms: median time of base. ratio: head's time over base's, computed as in `compare`.
    slowed: the same ratio with extra launches in head's batches, see compare.calibrate.INJECTED.
    """

    base_ms: Positive
    ratio: Positive
    slowed: Positive


class Rates(Struct, frozen=True, forbid_unknown_fields=True):
    """Results for one cell in comparisons of a code with itself.

    false_alarms: fraction of comparisons that called the cell slower. cannot_tell: fraction that
    left it inconclusive after the last look. slowed: median slow-down due to the extra work. found:
    fraction of comparisons with the extra work in head that called the cell slower. smallest: the
    smallest slow-down (simulated by scaling head's medians) that is found nine times in ten; None
    if no slow-down tried is found that often. between: standard deviation of log ratios of pairs.
    spread: that of log medians of processes.
    """

    false_alarms: Share
    cannot_tell: Share
    slowed: Annotated[float, Meta(ge=-1, le=1e12)]
    found: Share
    smallest: Ms | None
    between: Ms
    spread: Ms


class Verdicts(Struct, frozen=True, forbid_unknown_fields=True):
    """Results of whole comparisons of a code with itself.

    threshold, confidence, looks: parameters of the decision rule, see compare.procedure.
    comparisons: number of comparisons drawn from the pairs.
    false_alarms: fraction that called a cell slower. cannot_tell: fraction of the others that left
        a cell inconclusive. separate: number of comparisons that share no pair; separate_alarms:
        how many of them called a cell slower. pairs_taken: median and 95th percentile of the number
        of pairs per comparison. cells: rates of each cell, by name.
    """

    threshold: Share
    confidence: Share
    looks: Annotated[Sequence[Look], Meta(min_length=1)]
    comparisons: Count
    false_alarms: Share
    cannot_tell: Share
    separate: Amount
    separate_alarms: Amount
    pairs_taken: Annotated[Sequence[Pairs], Meta(min_length=2, max_length=2)]
    cells: Mapping[Line, Rates]


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """A calibration of one machine.

    injected: extra launches in `slowed` as a fraction of the others; caching affects their cost.
    started: start time of each pair. clock_ms: resolution of a sample, by cell name. pairs: results
    by cell name, in order of time; None where a pair has no time for the cell. verdicts: the
    results of comparisons drawn from these pairs.
    """

    environment: Environment
    study: Name
    injected: Positive
    started: Annotated[Sequence[Line], Meta(min_length=1)]
    clock_ms: Mapping[Line, Ms]
    pairs: Mapping[Line, Sequence[Measured | None]]
    verdicts: Verdicts

    def __post_init__(self) -> None:
        _ = self.lasted  # raises for invalid dates

    @property
    def lasted(self) -> timedelta:
        """Time from the start of the first pair to that of the last."""
        begun = [datetime.fromisoformat(each) for each in self.started]
        return max(begun) - min(begun)


class _CalibrationFile(Struct, forbid_unknown_fields=True):
    schema: Literal[1]
    calibration: Calibration


def save(found: Calibration, path: Path) -> None:
    """Write a file, complete or not at all; raises UserError if writing fails."""
    document = {"schema": 1, "calibration": json.loads(to_json(found))}
    bounds.write(path, _CalibrationFile, document, "not what a calibration holds")


def load(path: Path) -> Calibration:
    """Read a file; raises UserError where it is missing or not a calibration."""
    found = bounds.read(path, _CalibrationFile, "a calibration").calibration
    if not found.pairs.keys() == found.clock_ms.keys() == found.verdicts.cells.keys():
        raise UserError(f"{path} is not a calibration: pairs, clock_ms and cells differ in names")
    if len({len(series) for series in found.pairs.values()}) > 1:
        raise UserError(f"{path} is not a calibration: its cells differ in their numbers of pairs")
    return found


def calibrations(machine: str) -> list[Calibration]:
    """Return a machine's calibrations, those shipped and those in results/local, oldest first."""
    folders = [paths.PACKAGE / "calibration", Path("results/local/calibration")]
    if root := paths.repository():
        folders.insert(0, root / "results" / "calibration")
    inside = (bounds.only_ours((folder / machine).glob("*.json*")) for folder in folders)
    found = [load(path) for files in inside for path in files]
    return sorted(found, key=lambda each: list(each.started))


def spreads(machine: str, lasted: timedelta = timedelta(0)) -> dict[str, float]:
    """Return the relative spread between processes of each calibrated cell of a machine, by name.

    Each is from the newest calibration of the cell that lasted at least `lasted`: a shorter one
    says nothing about processes further apart in time. Cells without such a calibration are absent.
    """
    return {
        name: rates.spread
        for each in calibrations(machine)  # the newest comes last, and overrides
        if each.lasted >= lasted
        for name, rates in each.verdicts.cells.items()
    }


def spread_of(known: Mapping[str, float], name: str) -> float | None:
    """Return the spread between processes of the named cell; None if `known` is empty.

    known: spreads of one machine's cells, see `spreads`. A cell that was not calibrated is assumed
    to be as noisy as the noisiest cell of its mode, or of all modes if none has its mode.
    """
    if name in known:
        return known[name]
    mode = name.rpartition(", ")[2]
    alike = [spread for other, spread in known.items() if other.rpartition(", ")[2] == mode]
    return max(alike or known.values(), default=None)
