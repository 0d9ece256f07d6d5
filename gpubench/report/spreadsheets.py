"""The numbers of a report as CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from gpubench.evidence.results import Results, frame, is_waiting
from gpubench.report import crossovers, incremental_updates, libraries, ranks, regimes, time_steps
from gpubench.report.cells import Cell, Machine, Record, StudyRun, Subject
from gpubench.report.rankings import Field
from gpubench.report.verdict import Match, matches
from gpubench.studies.study import Published

KINDS = (
    "records", "printed", "measured", "phases", "ranks", "wins", "crossovers", "moved", "steps",
    "rivals",
)  # fmt: skip


def files(machines: Sequence[Machine], stems: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the CSV files of each study: the text of each by its name.

    stems: what the names of a study's files begin with; each ends with one of KINDS. Records have
    no columns that are empty in all of a study.
    """
    every = records(machines)
    found = {}
    for name, stem in stems.items():
        runs = [run for m in machines for run in m.studies if run.study.name == name]
        tables = {"records": every[every["study"] == name].dropna(axis="columns", how="all")}
        published = runs[0].study.published
        if published is not None:
            rows = quantities if published.quantities else measured
            tables["printed"] = pd.DataFrame(printed(published))
            tables["measured"] = pd.DataFrame(rows(machines, name, published))
        if regimes.tells(runs[0]):
            tables |= of_regimes(machines, name)
        if any(run.phases for run in runs):
            tables["phases"] = pd.DataFrame(phases(machines, name))
            if any(ranks.ways(run) for run in runs):
                tables["ranks"] = pd.DataFrame(speed_ups(machines, name))
        found[stem] = {f"{stem}-{kind}.csv": _csv(table) for kind, table in tables.items()}
    return found


def of_regimes(machines: Sequence[Machine], name: str) -> dict[str, pd.DataFrame]:
    """Return what the figures of neighbour searches show, by the end of the file's name."""
    made: dict[str, Callable[[StudyRun], list[dict[str, Any]]]] = {
        "wins": regimes.win_rows,
        "crossovers": crossovers.rows,
        "moved": incremental_updates.rows,
        "steps": time_steps.rows,
        "rivals": lambda run: libraries.rows(Field.of(run)),
    }
    found = {}
    for kind, rows in made.items():
        table = pd.DataFrame(
            {"machine": machine.environment["machine"], "device_name": machine.device_name, **row}
            for machine in machines
            for run in machine.studies
            if run.study.name == name
            for row in rows(run)
        )
        if len(table):
            found[kind] = table
    return found


def records(machines: Sequence[Machine]) -> pd.DataFrame:
    """Return the newest record of each key on each machine as a flat row.

    Of samples, also of those set aside, there is their number; lists of words are joined, and
    objects are JSON. The state of the device before and after, and what algorithms declare, are in
    the results files alone.
    """
    table = frame([run for machine in machines for run in _newest(machine)])
    for name, times in (("samples", "samples_ms"), ("throttled", "throttled_ms")):
        counts = table[times].map(len, na_action="ignore").astype("Int64")
        table.insert(list(table.columns).index(times), name, counts)
    for name in ("throttled_by", "remarks"):
        table[name] = table[name].map("; ".join, na_action="ignore")
    for name in ("parameters", "cells", "periodic", "clocks_sm_mhz", "phases_ms", "outcome"):
        table[name] = table[name].map(json.dumps, na_action="ignore")
    table["file"] = table["file"].map(lambda path: Path(path).name)
    unshown = ["samples_ms", "throttled_ms", "state_before", "state_after", "declared"]
    return table.drop(columns=unshown)


def _newest(machine: Machine) -> list[Results]:
    """Return the runs of a machine without the records that a later one replaces.

    As in the cells of a page, a record that waits for more ranks replaces none.
    """
    newest: dict[str, Record] = {}
    for run in machine.runs:
        for record in run.records:
            if record["key"] not in newest or not is_waiting(record):
                newest[record["key"]] = record
    return [
        replace(run, records=[r for r in run.records if newest[r["key"]] is r])
        for run in machine.runs
    ]


def phases(machines: Sequence[Machine], name: str) -> list[dict[str, Any]]:
    """Return what the steps of a study are made of: a row for each cell and phase."""
    return [
        {
            "machine": machine.environment["machine"],
            "device_name": machine.device_name,
            "workload": cell.place.workload,
            "algorithm": cell.subject.algorithm,
            "form": cell.subject.form,
            "parameters": json.dumps(dict(cell.subject.parameters)),
            "particles": cell.place.particles,
            "time_step": cell.place.time_step,
            "skin": cell.place.skin,
            "ranks": cell.place.ranks,
            "decomposition": cell.place.decomposition,
            "mode": cell.headline["mode"],
            "median_ms": cell.median_ms,
            "particle_steps_per_s": cell.particle_steps_per_s,
            "phase": phase,
            "phase_ms": phase_ms,
            "share": cell.phase_share(phase) if phase in cell.phases_ms else None,
        }
        for machine in machines
        for run in machine.studies
        if run.study.name == name
        for cell in run.cells.values()
        for phase, phase_ms in (cell.headline["phases_ms"] or {}).items()
        if cell.ok
    ]


def speed_ups(machines: Sequence[Machine], name: str) -> list[dict[str, Any]]:
    """Return steps and frames of a study on one rank and on several: a row for each cell timed."""
    return [
        {
            "machine": machine.environment["machine"],
            "device_name": machine.device_name,
            "workload": cell.place.workload,
            "algorithm": cell.subject.algorithm,
            "form": cell.subject.form,
            "parameters": json.dumps(dict(cell.subject.parameters)),
            "particles": cell.place.particles,
            "ranks": cell.place.ranks,
            "decomposition": cell.place.decomposition,
            "mode": cell.headline["mode"],
            "step_ms": cell.median_ms,
            "frame_ms": cell.frame_ms,
            "steps_per_s": 1e3 / cell.median_ms if cell.median_ms else None,
            "frames_per_s": 1e3 / cell.frame_ms if cell.frame_ms else None,
            "one_rank_step_ms": one.median_ms if one else None,
            "speed_up": ranks.Shared(cell, one).speed_up if one else None,
            "frame_speed_up": ranks.Shared(cell, one).frame_speed_up if one else None,
            "communication": cell.communication,
        }
        for machine in machines
        for run in machine.studies
        if run.study.name == name
        for cell in run.cells.values()
        if cell.ok
        for one in [ranks.find(run, cell.subject, ranks.ALONE, cell.place.count)]
    ]


def quantities(
    machines: Sequence[Machine], name: str, published: Published
) -> list[dict[str, Any]]:
    """Return a published table of quantities as measured: a row for each subject and number."""
    return [
        {
            "machine": machine.environment["machine"],
            "device_name": machine.device_name,
            "algorithm": subject.algorithm,
            "form": subject.form,
            "parameters": json.dumps(dict(subject.parameters)),
            published.row_axis: row,
            "column": column,
            "ranks": quantity.ranks or 1,
            "decomposition": quantity.decomposition,
            "quantity": quantity.what,
            "measured": here,
            "printed": printed,
        }
        for machine in machines
        for run in machine.studies
        if run.study.name == name
        for subject in run.subjects
        for row, numbers in zip(published.rows, published.values, strict=True)
        for column, quantity, printed in zip(
            published.columns, published.quantities, numbers, strict=True
        )
        if (here := ranks.value(run, subject, quantity, row)) is not None
    ]


def printed(published: Published) -> list[dict[str, Any]]:
    """Return the published table as printed: a row for each printed row."""
    names = [f"{published.column_axis}={column}" for column in published.columns]
    return [
        {published.row_axis: row} | dict(zip(names, values, strict=True))
        for row, values in zip(published.rows, published.values, strict=True)
    ]


def measured(machines: Sequence[Machine], name: str, published: Published) -> list[dict[str, Any]]:
    """Return the published table as measured: a row for each machine, subject and cell timed.

    Where the columns are algorithms, each is for the subjects of its algorithm.
    """
    return [
        _measured_row(machine, match.cell, published, row, column, match.speedup)
        for machine in machines
        for run in machine.studies
        if run.study.name == name
        for subject in run.subjects
        for row, line in zip(published.rows, _grid(run, published, subject), strict=True)
        for column, match in zip(published.columns, line, strict=True)
        if match.cell is not None and match.cell.ok
    ]


def _grid(run: StudyRun, published: Published, subject: Subject) -> list[list[Match]]:
    own = subject.algorithm if published.algorithms else published.algorithm
    return matches(run, published, {own: subject})


def _measured_row(
    machine: Machine,
    cell: Cell,
    published: Published,
    row: float,
    column: Any,
    speedup: float | None,
) -> dict[str, Any]:
    record = cell.headline
    same = record["algorithm"] in (published.algorithms or (published.algorithm,))
    over = speedup if same else None
    return {
        "machine": machine.environment["machine"],
        "device_name": machine.device_name,
        "algorithm": record["algorithm"],
        "form": record["form"],
        "parameters": json.dumps(record["parameters"]),
        published.row_axis: row,
        "column" if published.algorithms else published.column_axis: column,
        "mode": record["mode"],
        "median_ms": record["median_ms"],
        "ci95_low_ms": record["ci95_low_ms"],
        "ci95_high_ms": record["ci95_high_ms"],
        "printed_ms": over * record["median_ms"] if over else None,
        "printed_over_measured": over,
    }


def _csv(table: pd.DataFrame) -> str:
    return str(table.to_csv(index=False, lineterminator="\n"))
