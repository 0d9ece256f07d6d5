"""Measurements as one pandas data frame, one row per measurement.

>>> import gpubench
>>> times = gpubench.load("results/measured")
>>> times.query("task == 'count' and is_first").algorithm.value_counts()
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpubench import problems
from gpubench.base.arguments import path_of
from gpubench.evidence import inputs
from gpubench.evidence.declared import declared, lost
from gpubench.evidence.files import load_results
from gpubench.evidence.pooling import by_device, pool
from gpubench.evidence.ranking import Ranked, Variant, rank
from gpubench.evidence.records import Record
from gpubench.evidence.results import Results

if TYPE_CHECKING:
    import pandas as pd


def load(*paths: str | Path) -> pd.DataFrame:
    """Return the measurements in the given results files and folders as a data frame.

    Raises UserError for a file that cannot be read, and for a folder without results files.
    """
    return frame(load_results([path_of("load", path) for path in paths]))


def frame(results: Iterable[Results]) -> pd.DataFrame:
    """Return a data frame with a row for each measurement of each machine.

    Times are in milliseconds: `median_ms` with the 95 % interval `low_ms` to `high_ms`, pooled over
    `timings` of the newest `version` of the timed code, and widened to cover the time of a later
    run (see `pooling`). `is_older`: the study has newer code, timed on other inputs. `rank` and
    `over_best` compare equal work on the same input in the same mode; measurements that are wrong,
    incomplete (`lost`) or untimed have none. `is_first`: has rivals, none of them known faster.
    `device_rank`, `device_over_best` and `device_is_first` compare device times, of CUDA graphs; an
    entrant without a graph is placed by its launched time over that of the fastest. `bound`: the
    minimum memory traffic over the time, as a fraction of the copy bandwidth.
    """
    return frame_of(race for each in by_device(results).values() for race in rank(pool(each)))


def frame_of(ranked: Iterable[Sequence[Ranked]]) -> pd.DataFrame:
    """Return the data frame described in `frame`, given the result of `rank` for each machine."""
    import pandas as pd

    rows = [row_of(each) for race in ranked for each in race]
    found = pd.DataFrame(rows, columns=None if rows else pd.Index(["machine"]))
    whole = (name for name, each in problems.axes().items() if each.is_whole)
    names = (inputs.INPUTS, "rank", "device_rank", *whole)
    return found.astype({name: "Int64" for name in names if name in found})


def row_of(each: Ranked) -> dict[str, Any]:
    """Return the columns of one measurement, see `frame`."""
    record, environment = each.measurement.record, each.measurement.results.environment
    moved, ms, bandwidth = record.bytes_moved, record.median_ms, environment["copy_bandwidth_gb_s"]
    standings: dict[str, Any] = {}
    for prefix, standing in (("", each.in_mode), ("device_", each.by_device_time)):
        standings[f"{prefix}rank"] = standing and standing.rank
        standings[f"{prefix}over_best"] = standing and standing.ratio.value
        standings[f"{prefix}is_first"] = bool(standing and standing.is_first)
    return {
        "machine": environment["machine"],
        "device": environment["device"]["name"],
        "backend": record.device,
        "date": str(environment["started"])[:10],
        "commit": environment["commit"],
        "study": record.study,
        **each.group._asdict(),
        **{name: getattr(record, name) for name in Variant._fields},
        "library": record.library,
        "library_part": declared(record).library_part,
        "replaces": declared(record).replaces,
        **record.axes,
        **{name: getattr(record, name) for name in ("mode", "status", "reason")},
        "median_ms": record.median_ms,
        "low_ms": record.ci95_low_ms,
        "high_ms": record.ci95_high_ms,
        "timings": len(each.measurement.timings),
        "version": each.measurement.version,
        "is_older": each.measurement.is_older,
        "bound": moved / (ms * 1e6) / bandwidth if moved and ms and bandwidth else None,
        "lost": lost(record),
        **standings,
        "workspace_bytes": record.workspace_bytes,
        "key": record.key,
        "file": str(each.measurement.results.path),
    }


def command_of(record: Record) -> str:
    """Return the command that measures a record's input again."""
    ranks, per_cell = record.at("ranks"), record.at("per_cell")
    words = [] if ranks is None else ["mpirun", "-n", str(ranks)]
    words += ["gpubench", "run", record.study, "--device", record.device]
    words += ["--algorithms", record.algorithm]
    size = record.input.size if record.input else None
    words += [] if size is None else ["--particles", str(size)]
    words += [] if per_cell is None else ["--per-cell", f"{per_cell:g}"]
    words += [] if record.inputs is None else ["--inputs", str(record.inputs)]
    return shlex.join(words)
