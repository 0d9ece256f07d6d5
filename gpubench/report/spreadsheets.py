"""The numbers of a report as CSV: all of them are columns of the frame of measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gpubench.evidence.frame import frame
from gpubench.report import crossovers, incremental_updates, ranks, regimes
from gpubench.report.cells import Cell, Record, Subject
from gpubench.report.machines import Machine, StudyRun
from gpubench.report.published import Match, matches
from gpubench.report.rankings import Searches
from gpubench.studies.study import Published

KINDS = ("records", "published", "measured", "phases", "ranks", "crossovers", "moved")
FORMER_KINDS = ("printed", "wins", "steps", "rivals")  # which older versions wrote
Rows = list[dict[str, Any]]


def files(machines: Sequence[Machine], stems: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the CSV files of each study: the text of each by its name.

    stems: what the names of a study's files begin with; each ends with one of KINDS. Tables have
    no columns that are empty in all of a study; a kind without a row has no file.
    """
    every = records(machines)
    found = {}
    for name, stem in stems.items():
        runs = [(m, run) for m in machines for run in m.studies if run.study.name == name]
        published = runs[0][1].study.published
        made: dict[str, Callable[[StudyRun], Rows]] = {"phases": phases, "ranks": speed_ups}
        if published is not None:
            made["measured"] = quantities if published.quantities else measured
        if regimes.tells(runs[0][1]):
            made["crossovers"] = lambda run: crossovers.rows(Searches(run))
            made["moved"] = lambda run: incremental_updates.rows(Searches(run))
        tables = {kind: _of_machines(runs, rows) for kind, rows in made.items()}
        tables["records"] = every[every["study"] == name].dropna(axis="columns", how="all")
        if published is not None:
            tables["published"] = pd.DataFrame(as_published(published))
        found[stem] = {
            f"{stem}-{kind}.csv": str(tables[kind].to_csv(index=False, lineterminator="\n"))
            for kind in KINDS
            if kind in tables and len(tables[kind])
        }
    return found


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
    table = frame([run for machine in machines for run in machine.runs])
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
    }  # fmt: skip


def _of_subject(subject: Subject) -> dict[str, Any]:
    parameters = json.dumps(dict(subject.parameters))
    return {"algorithm": subject.algorithm, "form": subject.form, "parameters": parameters}


def phases(run: StudyRun) -> Rows:
    """Return what the steps of a study are made of: a row for each cell and phase."""
    return [
        {
            "workload": cell.place.workload,
            **_of_subject(cell.subject),
            "particles": cell.place.particles,
            "time_step": cell.place.time_step,
            "skin": cell.place.skin,
            "ranks": cell.place.ranks,
            "decomposition": cell.place.decomposition,
            "mode": cell.mode,
            "step_ms": cell.median_ms,
            "particle_steps_per_s": cell.particle_steps_per_s,
            "phase": phase,
            "phase_ms": phase_ms,
            "share": cell.phase_share(phase) if phase in cell.phases_ms else None,
        }
        for cell in run.timed
        for phase, phase_ms in (cell.headline["phases_ms"] or {}).items()
    ]


def speed_ups(run: StudyRun) -> Rows:
    """Return steps and frames on one rank and on several: a row for each cell timed."""
    if not ranks.ways(run):
        return []
    return [
        {
            "workload": cell.place.workload,
            **_of_subject(cell.subject),
            "particles": cell.place.particles,
            "ranks": cell.place.ranks,
            "decomposition": cell.place.decomposition,
            "mode": cell.mode,
            "step_ms": cell.median_ms,
            "frame_ms": cell.frame_ms,
            "one_rank_step_ms": one.median_ms if one else None,
            "speed_up": ranks.speed_up(one, cell),
            "frame_speed_up": ranks.frame_speed_up(one, cell),
            "communication": cell.communication,
        }
        for cell in run.timed
        for one in [ranks.find(run, cell.subject, ranks.ALONE, cell.place.count)]
    ]


def as_published(published: Published) -> Rows:
    """Return the table as published: a row for each of its rows."""
    names = [f"{published.column_axis}={column}" for column in published.columns]
    return [
        {published.row_axis: row} | dict(zip(names, values, strict=True))
        for row, values in zip(published.rows, published.values, strict=True)
    ]


def quantities(run: StudyRun) -> Rows:
    """Return a published table of quantities as measured: a row for each subject and number."""
    published = run.study.published
    assert published is not None
    return [
        {
            **_of_subject(subject),
            published.row_axis: row,
            "column": column,
            "ranks": quantity.ranks or 1,
            "decomposition": quantity.decomposition,
            "quantity": quantity.what,
            "measured": here,
            "published": theirs,
        }
        for subject in run.subjects
        for row, numbers in zip(published.rows, published.values, strict=True)
        for column, quantity, theirs in zip(
            published.columns, published.quantities, numbers, strict=True
        )
        if (here := ranks.value(run, subject, quantity, row)) is not None
    ]


def measured(run: StudyRun) -> Rows:
    """Return the published table as measured: a row for each subject and cell timed.

    Where the columns are algorithms, each is for the subjects of its algorithm.
    """
    published = run.study.published
    assert published is not None
    rows = []
    for subject in run.subjects:
        own = subject.algorithm if published.algorithms else published.algorithm
        grid = matches(run, published, {own: subject})
        for row, line in zip(published.rows, grid, strict=True):
            for column, match in zip(published.columns, line, strict=True):
                if match.cell is not None and match.cell.ok:
                    rows.append(_measured_row(published, match.cell, row, column, match))
    return rows


def _measured_row(
    published: Published, cell: Cell, row: float, column: Any, match: Match
) -> dict[str, Any]:
    same = cell.subject.algorithm in (published.algorithms or (published.algorithm,))
    over = match.speedup if same else None
    low, high = cell.interval_ms
    return {
        **_of_subject(cell.subject),
        published.row_axis: row,
        "column" if published.algorithms else published.column_axis: column,
        "mode": cell.mode,
        "median_ms": cell.median_ms,
        "low_ms": low,
        "high_ms": high,
        "published_ms": over * cell.median_ms if over else None,
        "published_over_measured": over,
    }
