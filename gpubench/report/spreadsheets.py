"""The numbers of a report as CSV: all of them are columns of the frame of measurements."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gpubench.evidence.frame import command_of, frame_of
from gpubench.evidence.records import Record
from gpubench.report import crossovers, incremental_updates
from gpubench.report.machines import Machine, StudyRun
from gpubench.report.rankings import Searches

RECORDS = "records.csv.gz"
KINDS = (RECORDS, "phases.csv", "crossovers.csv", "moved.csv")
_OF_STEPS = (
    "workload", "algorithm", "form", "parameters", "particles", "time_step", "skin", "ranks",
    "decomposition", "mode",
)  # fmt: skip
Rows = list[dict[str, Any]]


def files(
    machines: Sequence[Machine], stems: Mapping[str, str]
) -> dict[str, dict[str, str | bytes]]:
    """Return the CSV files of each study: the content of each by its name.

    stems: what the names of a study's files begin with; each ends with one of KINDS. Tables have
    no columns that are empty in all of a study; a kind without a row has no file. The records, of
    which there are thousands, are compressed, which pandas reads as it is.
    """
    every = records(machines)
    found = {}
    for name, stem in stems.items():
        runs = [(m, run) for m in machines for run in m.studies if run.study.name == name]
        made: dict[str, Callable[[StudyRun], Rows]] = {"phases.csv": phases}
        if runs[0][1].study.views:
            made["crossovers.csv"] = lambda run: crossovers.rows(Searches(run))
            made["moved.csv"] = lambda run: incremental_updates.rows(Searches(run))
        tables = {kind: _of_machines(runs, rows) for kind, rows in made.items()}
        tables[RECORDS] = every[every["study"] == name].dropna(axis="columns", how="all")
        found[stem] = {
            f"{stem}-{kind}": _content(kind, tables[kind])
            for kind in KINDS
            if kind in tables and len(tables[kind])
        }
    return found


def _content(kind: str, table: pd.DataFrame) -> str | bytes:
    text = str(table.to_csv(index=False, lineterminator="\n"))
    # Without the time of writing, so that the same results give the same bytes.
    return gzip.compress(text.encode(), mtime=0) if kind == RECORDS else text


def _of_machines(
    runs: Sequence[tuple[Machine, StudyRun]], rows: Callable[[StudyRun], Rows]
) -> pd.DataFrame:
    return pd.DataFrame(
        {"machine": machine.environment["machine"], "device_name": machine.device_name} | row
        for machine, run in runs
        for row in rows(run)
    )


def records(machines: Sequence[Machine]) -> pd.DataFrame:
    """Return the frame of measurements, with what else their records hold, as flat rows.

    Of samples, also of those set aside, there is their number; lists of words are joined, and
    objects are JSON. The state of the device before and after, and what algorithms declare, are in
    the results files alone.
    """
    table = frame_of(race for machine in machines for race in machine.ranked)
    if table.empty:
        return table.assign(study=[])
    more = pd.DataFrame(
        {"machine": machine.environment["machine"], "key": record["key"]} | _more(record)
        for machine in machines
        for run in machine.studies
        for record in run.records
    )
    table = table.merge(more.drop_duplicates(["machine", "key"]), on=["machine", "key"], how="left")
    for name in ("parameters", "periodic"):
        table[name] = table[name].map(json.dumps, na_action="ignore")
    table["file"] = table["file"].map(lambda path: Path(path).name)
    return table.astype(dict.fromkeys(("samples", "throttled", "peak_bytes"), "Int64"))


def _more(record: Record) -> dict[str, Any]:
    plain = ("sweep", "seed", "batch", "stopped", "first_call_ms", "peak_bytes", "bytes_moved")
    counted = {"samples": "samples_ms", "throttled": "throttled_ms"}
    joined = ("throttled_by", "remarks")
    return {
        **{name: record[name] for name in plain},
        **{n: None if record[of] is None else len(record[of]) for n, of in counted.items()},
        **{name: "; ".join(record[name]) if record[name] else None for name in joined},
        "clocks_sm_mhz": json.dumps(record["clocks_sm_mhz"]) if record["clocks_sm_mhz"] else None,
        "outcome": json.dumps(record["outcome"]),
        "command": command_of(record),
    }  # fmt: skip


def phases(run: StudyRun) -> Rows:
    """Return what the steps of a study are made of: a row for each cell and phase."""
    return [
        {name: getattr(cell, name) for name in _OF_STEPS}
        | {
            "parameters": json.dumps(cell.parameters),
            "step_ms": cell.median_ms,
            "particle_steps_per_s": cell.record.particle_steps_per_s,
            "phase": phase,
            "phase_ms": phase_ms,
            "share": cell.phase_share(phase) if phase in cell.phases_ms else None,
        }
        for cell in run.timed
        for phase, phase_ms in (cell.record["phases_ms"] or {}).items()
    ]
