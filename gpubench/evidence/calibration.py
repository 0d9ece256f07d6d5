"""What `gpubench calibrate` found, on disk: how far a verdict on a machine can be believed.

Imports no device, so that a report can be made of it anywhere.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gpubench.core import paths
from gpubench.core.errors import UserError
from gpubench.core.writing import whole_file
from gpubench.evidence import results

SCHEMA_FILE = Path(__file__).with_name("calibration.schema.json")


@dataclass(frozen=True)
class Measured:
    """One cell in one pair of processes of the same code.

    base_ms: median of base. ratio: head over base, median over turns, as `compare` takes it.
    slowed: the same of batches as long on either side, head's with extra work in them.
    """

    base_ms: float
    ratio: float
    slowed: float


@dataclass(frozen=True)
class Rates:
    """How one cell fared in comparisons of a code with itself.

    false_alarms, cannot_tell: share of comparisons in which it was called slower, or stayed open
        after the last look.
    slowed: by how much the extra work made it slower, at the median.
    found: share of comparisons with the extra work in head's processes that called it slower.
    smallest: the smallest slow-down that is found nine times in ten, where head's medians are
        multiplied; None where none was that was tried.
    between: standard deviation of the log ratios of pairs. spread: of the log medians of processes.
    """

    false_alarms: float
    cannot_tell: float
    slowed: float
    found: float
    smallest: float | None
    between: float
    spread: float


@dataclass(frozen=True)
class Verdicts:
    """What whole comparisons of a code with itself came to.

    threshold, confidence, looks: the rule, see compare.procedure.
    comparisons: how many were drawn from the pairs.
    false_alarms: share that called a cell slower. cannot_tell: share that did not, but left one
        open. separate_alarms, separate: the same of comparisons that share no pair.
    pairs_taken: by a whole comparison, median and 95th percentile.
    cells: by name.
    """

    threshold: float
    confidence: float
    looks: Sequence[int]
    comparisons: int
    false_alarms: float
    cannot_tell: float
    separate: int
    separate_alarms: int
    pairs_taken: Sequence[float]
    cells: Mapping[str, Rates]


@dataclass(frozen=True)
class Calibration:
    """A calibration of one machine.

    injected: the share of extra launches in `slowed`. In a cache they may cost less, or more.
    started: when each pair was.
    clock_ms: by the name of a cell, what a sample is known to at best.
    pairs: by the name of a cell, in order of time; None where a pair has no time for it.
    verdicts: what comparisons drawn from these pairs came to.
    """

    environment: Mapping[str, Any]
    study: str
    injected: float
    started: Sequence[str]
    clock_ms: Mapping[str, float]
    pairs: Mapping[str, Sequence[Measured | None]]
    verdicts: Verdicts

    def as_json(self) -> dict[str, Any]:
        """Return the document that calibration.schema.json describes."""
        plain = dataclasses.asdict(self)
        # Lists are shorter than objects, of which there are thousands.
        plain["pairs"] = {
            name: [None if each is None else list(dataclasses.astuple(each)) for each in series]
            for name, series in self.pairs.items()
        }
        document: dict[str, Any] = json.loads(_json({"schema": 1, "calibration": plain}))
        return document


def save(found: Calibration, path: Path) -> None:
    """Write a file, whole or not at all; raises UserError where that cannot be done."""
    document = found.as_json()
    offence = results.offence_in(document, SCHEMA_FILE)
    if offence:
        raise ValueError(f"not what a calibration holds: {offence}")
    body = document["calibration"]
    # One cell a line, for files that can be read and compared.
    pairs = ",\n".join(
        f"  {_json(name)}: {_json(series)}" for name, series in body["pairs"].items()
    )
    cells = body["verdicts"]["cells"]
    rates = ",\n".join(f"  {_json(name)}: {_json(each)}" for name, each in cells.items())
    rest = {**body, "pairs": "@pairs", "verdicts": {**body["verdicts"], "cells": "@cells"}}
    text = json.dumps({"schema": 1, "calibration": rest}, indent=1, ensure_ascii=False)
    text = text.replace('"@pairs"', f"{{\n{pairs}\n }}").replace('"@cells"', f"{{\n{rates}\n }}")
    with whole_file(path) as file:
        file.write(text.encode() + b"\n")


def is_calibration(path: Path) -> bool:
    """Tell a calibration from other results; raises UserError where it is no JSON."""
    document = results.read_json(path)
    return isinstance(document, dict) and "calibration" in document


def load(path: Path) -> Calibration:
    """Read a file; raises UserError where it is missing or no calibration."""
    document = results.read_json(path)
    offence = results.offence_in(document, SCHEMA_FILE)
    if offence:
        raise UserError(f"{path} is not a calibration: {offence}")
    body = document["calibration"]
    cells = body["pairs"].keys()
    if not cells == body["clock_ms"].keys() == body["verdicts"]["cells"].keys():
        raise UserError(f"{path} is not a calibration: pairs, clock_ms and cells differ in names")
    if len({len(series) for series in body["pairs"].values()}) > 1:
        raise UserError(f"{path} is not a calibration: its cells differ in their numbers of pairs")
    body["pairs"] = {
        name: [None if each is None else Measured(*each) for each in series]
        for name, series in body["pairs"].items()
    }
    rates = {name: Rates(**each) for name, each in body["verdicts"]["cells"].items()}
    body["verdicts"] = Verdicts(**{**body["verdicts"], "cells": rates})
    return Calibration(**body)


def calibrations(machine: str) -> list[Calibration]:
    """Return the calibrations of a machine, oldest first.

    Of those that came with the package and those of this checkout; none where it was never
    calibrated.
    """
    folders = [paths.PACKAGE / "calibration", Path("results/local/calibration")]
    if root := paths.repository():
        folders.insert(0, root / "results" / "calibration")
    found = [load(path) for folder in folders for path in (folder / machine).glob("*.json")]
    return sorted(found, key=lambda each: list(each.started))


def spreads(machine: str) -> dict[str, float]:
    """Return the spread between processes of every cell that was calibrated on a machine.

    Relative, by the cell's name; of its newest calibration. Empty where the machine was never
    calibrated.
    """
    return {
        name: rates.spread
        for each in calibrations(machine)  # the newest comes last, and counts
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


def pace(machine: str) -> tuple[float, int] | None:
    """Return how many seconds a pair of processes took on a machine, and for how many cells.

    Of its newest calibration; None where that does not tell.
    """
    newest = calibrations(machine)[-1:]
    times = [datetime.fromisoformat(text) for each in newest for text in each.started]
    steps = [(after - before).total_seconds() for before, after in itertools.pairwise(times)]
    cells = sum(len(each.pairs) for each in newest)
    return (statistics.median(steps), cells) if steps and cells else None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
