"""What is unusual about the measurements of a study, and why some have no time."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.evidence.records import Record
from gpubench.report import formats
from gpubench.report.axes import COUNTS, SIZES, between, describe
from gpubench.report.cells import MODES, Cell, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Item, Row, Table
from gpubench.report.tables import in_order, shown_axes, timed

MOST_ODD = 12  # measurements with remarks that a page lists


def _remarks(record: Record) -> list[str]:
    """Say what is unusual about the samples of a record: remarks, and what was set aside."""
    found = list(record["remarks"] or ())
    if record["throttled_ms"]:
        out, left = len(record["throttled_ms"]), len(record["samples_ms"] or ())
        why = formats.listing(record["throttled_by"] or ["reason not known"])
        found.append(f"throttled: {out} of {out + left} samples set aside ({why})")
    return found


def oddities(run: StudyRun) -> Table | None:
    """Return what is unusual about the samples of each measurement; None where nothing is."""
    axes = shown_axes(run, {*COUNTS})
    rows = [
        Row(
            f"{run.labels[cell.subject]}, {describe(cell.place, axes)}, {cell.mode}",
            [timed(cell, {}), Item("; ".join(found), "words")],
        )
        for cell in _in_each_mode(run)
        if (found := _remarks(cell.record))
    ]
    more = [f"The first {MOST_ODD} of {len(rows)}; the CSV has all."] if rows[MOST_ODD:] else []
    return Table(
        "Unusual samples",
        ["Measurement", "Median, ms", "Remark"],
        rows[:MOST_ODD],
        notes=[
            *more,
            "Drift: samples grow or shrink with time. Bimodal: they have two modes, and the median"
            " may fall into either. Samples of a throttled device are left out.",
        ],
    ) if rows else None  # fmt: skip


def _in_each_mode(run: StudyRun) -> list[Cell]:
    return [cell.modes[mode] for cell in in_order(run) for mode in MODES if mode in cell.modes]


def troubles(run: StudyRun) -> Table | None:
    """Return what has no time, one row for each status and reason; None where all has."""
    records = [r for cell in in_order(run) for r in cell.every_record if r["status"] != "ok"]
    groups = grouped(records, lambda record: (record["status"], _reason(run, record)))
    rank = ("wrong", "failed", "skipped")
    rows = []
    for (status, reason), own in sorted(groups.items(), key=lambda each: rank.index(each[0][0])):
        names = formats.listing(dict.fromkeys(f"{r['algorithm']} {r['form']}" for r in own))
        words = [Item(text, "words") for text in (names, _where(own), reason)]
        rows.append(Row(status, [Item(str(len(own))), *words]))
    columns = ["Status", "Count", "Algorithm and form", "Where", "Reason"]
    return Table("Measurements without a time", columns, rows) if rows else None


def _reason(run: StudyRun, record: Record) -> str:
    """Say why there is no time; of a sweep that was not run as a whole, that the sweep is why."""
    reason = str(record["reason"])
    requires = {f for s in run.study.sweeps if s.name == record["sweep"] for f in s.requires}
    if any(reason.lower().startswith(f"needs {feature}") for feature in requires):
        return f"the sweep {record['sweep']} {reason}"
    return reason


def _where(records: Sequence[Record]) -> str:
    modes = formats.listing(dict.fromkeys(record.mode for record in records))
    return ", ".join(filter(None, (between(records, SIZES), modes)))
