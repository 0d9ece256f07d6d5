"""The numbers of a report as CSV: the frame of measurements and other fields of records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gpubench.evidence.frame import command_of, frame_of
from gpubench.evidence.records import Record
from gpubench.report.machines import Machine

ENDING = "-records.csv.gz"  # suffix of a study's file
_COUNTED = {"samples": "samples_ms", "throttled": "throttled_ms"}
_JOINED = ("throttled_by", "remarks")
_JSON = ("phases_ms", "clocks_sm_mhz", "energy", "counters")


def files(machines: Sequence[Machine], stems: Mapping[str, str]) -> dict[str, bytes]:
    """Return each study's compressed CSV file by name: the frame, and more fields of its records.

    Samples are counted, lists joined, and objects written as JSON. Equal results give equal bytes.
    """
    table = frame_of(race for machine in machines for race in machine.ranked)
    if table.empty:
        return {}
    runs = ((machine.device.machine, run) for machine in machines for run in machine.studies)
    records = ((name, record) for name, run in runs for record in run.records)
    more = pd.DataFrame({"machine": name, "key": r.key} | _more(r) for name, r in records)
    table = table.merge(more.drop_duplicates(["machine", "key"]), on=["machine", "key"], how="left")
    for name in ("parameters", "periodic"):
        table[name] = table[name].map(json.dumps, na_action="ignore")
    table["file"] = table["file"].map(lambda path: Path(path).name)
    table = table.astype(dict.fromkeys(("samples", "throttled", "peak_bytes"), "Int64"))
    found = {}
    for name, stem in stems.items():
        own = table[table["study"] == name].dropna(axis="columns", how="all")
        text = own.to_csv(index=False, lineterminator="\n")
        found[f"{stem}{ENDING}"] = gzip.compress(text.encode(), mtime=0)
    return found


def _more(record: Record) -> dict[str, Any]:
    plain = ("sweep", "seed", "batch", "stopped", "first_call_ms", "peak_bytes", "bytes_moved")
    return {
        **{name: getattr(record, name) for name in plain},
        **{n: None if (v := getattr(record, of)) is None else len(v) for n, of in _COUNTED.items()},
        **{name: "; ".join(v) if (v := getattr(record, name)) else None for name in _JOINED},
        **{name: json.dumps(v) if (v := getattr(record, name)) else None for name in _JSON},
        "outcome": json.dumps(record.outcome),
        "particle_steps_per_s": record.particle_steps_per_s,
        "command": command_of(record),
    }
