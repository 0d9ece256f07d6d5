"""Every measurement of a study: with its command, what is unusual about it, why it has no time."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.evidence.frame import command_of
from gpubench.evidence.records import Record
from gpubench.report import formats
from gpubench.report.axes import AXES, COUNTS, SIZES, between, describe
from gpubench.report.cells import MODES, Cell, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Item, Row, Table
from gpubench.report.tables import SHORT_NOTE, in_order, shown_axes, timed

MOST_ODD = 12  # measurements with remarks that a page lists


def every_record(run: StudyRun) -> Table:
    """Return one row for each record: all modes, with the command that repeats it."""
    axes = shown_axes(run, {*COUNTS, "per_cell", "order"})
    columns = ["Algorithm", "Form", *(AXES[a].heading for a in axes), "Mode", "Median, ms"]
    columns += ["95 % interval, ms", "Samples", "Batch", "Workspace", "Copy bandwidth", "Repeat"]
    cells = _in_each_mode(run)
    rows = [_record_row(cell, axes) for cell in cells]
    notes = [SHORT_NOTE] if any(cell.is_short for cell in cells) else []
    return Table("Every cell in every mode", columns, rows, notes=notes)


def _record_row(cell: Cell, axes: Sequence[str]) -> Row:
    record, values = cell.record, [getattr(cell.place, name) for name in axes]
    interval = map(formats.significant, cell.interval_ms if cell.ok else ())
    numbers = [
        f" {formats.DASH} ".join(interval) or formats.DASH,
        formats.plain(len(record.samples_ms or ()) or None),
        formats.plain(record.batch),
        formats.size(record.workspace_bytes),
        formats.DASH if cell.bound is None else formats.percent(cell.bound),
    ]
    return Row(
        record.algorithm,
        [
            Item(cell.subject.label.removeprefix(f"{record.algorithm} "), "name"),
            *(Item(formats.plain(v), "name" if isinstance(v, str | tuple) else "number")
              for v in values),
            Item(record.mode, "name"),
            timed(cell, {}),
            *map(Item, numbers),
            Item(command_of(record), "code"),
        ],
    )  # fmt: skip


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
