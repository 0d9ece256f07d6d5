"""What `gpubench calibrate` found, on disk: how far a verdict on a machine can be believed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gpubench.base import paths
from gpubench.base.errors import UserError
from gpubench.evidence import bounds
from gpubench.evidence.bounds import Amount, Count, Environment, Line, Ms, Name, Positive, Share
from gpubench.evidence.records import to_json

Look = Annotated[int, Meta(ge=1, le=1_000_000)]
Pairs = Annotated[float, Meta(ge=0, le=1_000_000)]


class Measured(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One cell in one pair of processes of the same code.

    base_ms: median of base. ratio: head over base, median over turns, as `compare` takes it.
    slowed: the same of batches as long on either side, head's with extra work in them.
    """

    base_ms: Positive
    ratio: Positive
    slowed: Positive


class Rates(Struct, frozen=True, forbid_unknown_fields=True):
    """How one cell fared in comparisons of a code with itself.

    false_alarms, cannot_tell: share of comparisons in which it was called slower, or was
        inconclusive after the last look.
    slowed: by how much the extra work made it slower, at the median.
    found: share of comparisons with the extra work in head's processes that called it slower.
    smallest: the smallest slow-down that is found nine times in ten, where head's medians are
        multiplied; None where none was that was tried.
    between: standard deviation of the log ratios of pairs. spread: of the log medians of processes.
    """

    false_alarms: Share
    cannot_tell: Share
    slowed: Annotated[float, Meta(ge=-1, le=1e12)]
    found: Share
    smallest: Ms | None
    between: Ms
    spread: Ms


class Verdicts(Struct, frozen=True, forbid_unknown_fields=True):
    """What whole comparisons of a code with itself came to.

    threshold, confidence, looks: the rule, see compare.procedure.
    comparisons: how many were drawn from the pairs.
    false_alarms: share that called a cell slower. cannot_tell: share that did not, but left one
        inconclusive. separate_alarms, separate: the same of comparisons that share no pair.
    pairs_taken: by a whole comparison, median and 95th percentile.
    cells: by name.
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

    injected: the share of extra launches in `slowed`. In a cache they may cost less, or more.
    started: when each pair was.
    clock_ms: by the name of a cell, what a sample is known to at best.
    pairs: by the name of a cell, in order of time; None where a pair has no time for it.
    verdicts: what comparisons drawn from these pairs came to.
    """

    environment: Environment
    study: Name
    injected: Positive
    started: Annotated[Sequence[Line], Meta(min_length=1)]
    clock_ms: Mapping[Line, Ms]
    pairs: Mapping[Line, Sequence[Measured | None]]
    verdicts: Verdicts

    def __post_init__(self) -> None:
        _ = self.lasted  # refuses what is no date

    @property
    def lasted(self) -> timedelta:
        """How long after the first pair the last one began."""
        begun = [datetime.fromisoformat(each) for each in self.started]
        return max(begun) - min(begun)

    def as_json(self) -> dict[str, Any]:
        """Return the document of a file."""
        return {"schema": 1, "calibration": json.loads(to_json(self))}


class _CalibrationFile(Struct, forbid_unknown_fields=True):
    schema: Literal[1]
    calibration: Calibration


def save(found: Calibration, path: Path) -> None:
    """Write a file, whole or not at all; raises UserError where that cannot be done."""
    bounds.write(path, _CalibrationFile, found.as_json(), "not what a calibration holds")


def load(path: Path) -> Calibration:
    """Read a file; raises UserError where it is missing or no calibration."""
    found = bounds.read(path, _CalibrationFile, "a calibration").calibration
    if not found.pairs.keys() == found.clock_ms.keys() == found.verdicts.cells.keys():
        raise UserError(f"{path} is not a calibration: pairs, clock_ms and cells differ in names")
    if len({len(series) for series in found.pairs.values()}) > 1:
        raise UserError(f"{path} is not a calibration: its cells differ in their numbers of pairs")
    return found


def calibrations(machine: str) -> list[Calibration]:
    """Return a machine's calibrations of the package and of this checkout, oldest first."""
    folders = [paths.PACKAGE / "calibration", Path("results/local/calibration")]
    if root := paths.repository():
        folders.insert(0, root / "results" / "calibration")
    inside = (bounds.only_ours((folder / machine).glob("*.json*")) for folder in folders)
    found = [load(path) for files in inside for path in files]
    return sorted(found, key=lambda each: list(each.started))


def spreads(machine: str, lasted: timedelta = timedelta(0)) -> dict[str, float]:
    """Return the spread between processes of every cell that was calibrated on a machine.

    Relative, by the cell's name; of its newest calibration that lasted so long: it knows nothing
    of processes further apart. Empty where there is none.
    """
    return {
        name: rates.spread
        for each in calibrations(machine)  # the newest comes last, and counts
        if each.lasted >= lasted
        for name, rates in each.verdicts.cells.items()
    }


def spread_of(known: Mapping[str, float], name: str) -> float | None:
    """Return the spread between processes of a cell, by its name; None where nothing is known.

    known: of the cells of one machine, see `spreads`. A cell that was not calibrated is taken to
    be as restless as the most restless one of its mode, or of all where none has its mode.
    """
    if name in known:
        return known[name]
    mode = name.rpartition(", ")[2]
    alike = [spread for other, spread in known.items() if other.rpartition(", ")[2] == mode]
    return max(alike or known.values(), default=None)
