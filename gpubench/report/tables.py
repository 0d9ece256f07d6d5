"""The tables of a report, as data that the HTML and the Markdown templates both print."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpubench.report import formats
from gpubench.report.cells import HEADLINE_MODES, Cell, Machine, Record, StudyRun, Subject
from gpubench.report.verdict import Ranking, rankings, speedups
from gpubench.studies.study import Published

MODES = {
    "graph": "graph (CUDA graph replay, launch gaps removed)",
    "hot": "hot (launches back to back, caches warm)",
    "cold": "cold (a buffer larger than the cache written before each launch)",
}
_MARKS = {"graph": "ᵍ", "hot": "ʰ", "cold": "ᶜ"}
_TIMES = "\N{MULTIPLICATION SIGN}"
_AXES = {"particles": "Particles", "per_cell": "Particles per cell", "moved": "Moved share"}


@dataclass(frozen=True)
class Item:
    """One cell of a table.

    kind: "number", "name" (left-aligned), "words" (may wrap), "code", or "none" (no time).
    detail: a second, smaller line; mark: a letter that the table's notes explain.
    """

    text: str
    kind: str = "number"
    detail: str = ""
    mark: str = ""
    strong: bool = False


_NOTHING = Item(formats.DASH, "none")


@dataclass(frozen=True)
class Row:
    """A row: its heading and its items."""

    head: str
    items: Sequence[Item]


@dataclass(frozen=True)
class Table:
    """A table: columns[0] heads the row headings; `over` spans the other columns."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    over: str = ""
    notes: Sequence[str] = field(default_factory=tuple)


def printed(published: Published) -> Table:
    """Return the published table as printed."""
    rows = [
        Row(_axis_value(published.row_axis, row), [Item(formats.as_printed(v)) for v in values])
        for row, values in zip(published.rows, published.values, strict=True)
    ]
    notes = [published.note] if published.note else []
    return Table(
        f"As printed: {published.device}, {published.unit}",
        _axes(published),
        rows,
        f"{_axis_name(published.column_axis)}; time, {published.unit}",
        notes,
    )


def measured(run: StudyRun, published: Published, subject: Subject) -> Table:
    """Return the published table as one subject measured it, with the speed-up over the print."""
    ratios = speedups(run, subject)
    grid = [
        [
            run.find(subject, **{published.row_axis: row, published.column_axis: column})
            for column in published.columns
        ]
        for row in published.rows
    ]
    marks, note = _modes(cell for line in grid for cell in line)
    rows = []
    for row, line in zip(published.rows, grid, strict=True):
        items = []
        for column, cell in zip(published.columns, line, strict=True):
            ratio = ratios.get((row, column))
            detail = formats.ratio(ratio) if ratio is not None else ""
            items.append(_time(cell, marks, detail))
        rows.append(Row(_axis_value(published.row_axis, row), items))
    notes = [note] if note else []
    if ratios:
        notes.append(
            f"{_TIMES} is the printed time divided by the measured one ({published.device})."
        )
    return Table(
        f"Measured: {run.labels[subject]}, median, ms",
        _axes(published),
        rows,
        f"{_axis_name(published.column_axis)}; median, ms",
        notes,
    )


def fastest(run: StudyRun, particles: int) -> Table:
    """Return which subject is fastest at each occupancy of one size, and by how much."""
    ranked = [r for r in rankings(run, particles) if r.per_cell is not None]
    marks, note = _modes(cell for r in ranked for cell in r.cells[:2])
    rows = [
        Row(formats.plain(ranking.per_cell), _fastest_items(run, ranking, marks))
        for ranking in ranked
    ]
    columns = ["Per cell", "Fastest", "Median, ms", "Next", "Median, ms", "Next / fastest"]
    return Table(
        f"Fastest at {formats.count(particles)} particles",
        columns,
        rows,
        notes=[note] if note else [],
    )


def _fastest_items(run: StudyRun, ranking: Ranking, marks: dict[str, str]) -> list[Item]:
    items = [Item(run.labels[ranking.fastest.subject], "name"), _time(ranking.fastest, marks)]
    if len(ranking.cells) == 1:
        return [*items, _NOTHING, _NOTHING, _NOTHING]
    second = ranking.cells[1]
    items += [Item(run.labels[second.subject], "name"), _time(second, marks)]
    apart = ranking.factor is not None
    text = formats.ratio(ranking.factor) if ranking.factor else "intervals overlap"
    return [*items, Item(text, "number" if apart else "none")]


def subjects(run: StudyRun) -> tuple[list[Table], list[str]]:
    """Return the headline time of every subject by occupancy, a table a size, and their notes."""
    grids = {size: _by_subject(run, size) for size in run.values("particles")}
    marks, note = _modes(c for grid in grids.values() for line in grid.values() for c in line)
    made = []
    for size, grid in grids.items():
        best = {id(cell) for ranking in rankings(run, size) for cell in ranking.tied}
        rows = [
            Row(
                run.labels[subject],
                [_time(cell, marks, strong=id(cell) in best) for cell in line],
            )
            for subject, line in grid.items()
        ]
        columns = ["Algorithm", *(formats.plain(p) for p in _occupancies(run, size))]
        over = "Particles per cell; median, ms"
        made.append(Table(f"{formats.count(size)} particles", columns, rows, over))
    bold = (
        "Bold: the fastest of its size and occupancy, and what cannot be told apart from it"
        " (95 % intervals of the medians overlap)."
    )
    return made, [line for line in (note, bold) if line]


def _occupancies(run: StudyRun, size: int) -> list[float]:
    return [p for p in run.values("per_cell") if run.at(particles=size, per_cell=p)]


def _by_subject(run: StudyRun, size: int) -> dict[Subject, list[Cell | None]]:
    """Return each subject's cells of one size by occupancy, for subjects that have any."""
    lines = {
        subject: [run.find(subject, particles=size, per_cell=p) for p in _occupancies(run, size)]
        for subject in run.subjects
    }
    return {subject: line for subject, line in lines.items() if any(line)}


def headline_cells(run: StudyRun) -> Table:
    """Return the headline median and interval of every cell, by the axes of the study."""
    marks, note = _modes(run.cells.values())
    axes = _varying_axes(run)
    rows = []
    for cell in _in_order(run):
        low_high = cell.interval_ms if cell.ok else None
        rows.append(
            Row(
                run.labels[cell.subject],
                [
                    *(Item(_axis_value(a, getattr(cell.place, a))) for a in axes),
                    _time(cell, marks),
                    _interval(low_high),
                ],
            )
        )
    return Table(
        "Medians, ms",
        ["Algorithm", *(_axis_name(a) for a in axes), "Median, ms", "95 % interval, ms"],
        rows,
        notes=[note] if note else [],
    )


def every_record(run: StudyRun) -> Table:
    """Return one row for each record: all modes, with the command that repeats it."""
    columns = ["Algorithm", "Form", "Particles", "Per cell", "Order", "Mode", "Median, ms"]
    columns += ["95 % interval, ms", "Samples", "Batch", "Workspace", "Copy bandwidth", "Repeat"]
    rows = [
        _record_row(cell, cell.by_mode[mode])
        for cell in _in_order(run)
        for mode in HEADLINE_MODES
        if mode in cell.by_mode
    ]
    return Table("Every cell in every mode", columns, rows)


def _record_row(cell: Cell, record: Record) -> Row:
    timed = record["status"] == "ok"
    alone = Cell(cell.subject, cell.place, {record["mode"]: record}, cell.bandwidths)
    share = alone.copy_share
    parameters = ", ".join(f"{name}={value:g}" for name, value in cell.subject.parameters)
    form = f"{record['form']} ({parameters})" if parameters else record["form"]
    return Row(
        record["algorithm"],
        [
            Item(form, "name"),
            Item(formats.plain(record["particles"])),
            Item(formats.plain(record["per_cell"])),
            Item(formats.plain(record["order"]), "name"),
            Item(record["mode"], "name"),
            _time(alone, {}),
            _interval(alone.interval_ms if timed else None),
            Item(formats.plain(len(record["samples_ms"]) if timed else None)),
            Item(formats.plain(record["batch"])),
            Item(formats.size(record["workspace_bytes"])),
            Item(formats.DASH if share is None else f"{formats.significant(100 * share)} %"),
            Item(command(record), "code"),
        ],
    )


def command(record: Record) -> str:
    """Return the command that measures the cell of a record again."""
    words = ["gpubench", "run", record["study"], "--device", record["device"]]
    words += ["--algorithms", record["algorithm"]]
    if record["particles"] is not None:
        words += ["--particles", str(record["particles"])]
    if record["per_cell"] is not None:
        words += ["--per-cell", f"{record['per_cell']:g}"]
    return shlex.join(words)


def troubles(run: StudyRun) -> Table:
    """Return what has no time, one row for each status and reason."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for cell in _in_order(run):
        for record in cell.by_mode.values():
            if record["status"] != "ok":
                groups.setdefault((record["status"], record["reason"]), []).append(record)
    rank = ("wrong", "failed", "skipped")
    rows = [
        Row(
            status,
            [
                Item(str(len(records))),
                Item(
                    formats.listing(_distinct(f"{r['algorithm']} {r['form']}" for r in records)),
                    "words",
                ),
                Item(_where(records), "words"),
                Item(reason, "words"),
            ],
        )
        for (status, reason), records in sorted(groups.items(), key=lambda g: rank.index(g[0][0]))
    ]
    return Table(
        "Measurements without a time",
        ["Status", "Count", "Algorithm and form", "Where", "Reason"],
        rows,
    )


def _where(records: Sequence[Record]) -> str:
    sizes = sorted({r["particles"] for r in records if r["particles"] is not None})
    occupancies = sorted({r["per_cell"] for r in records if r["per_cell"] is not None})
    parts = []
    if sizes:
        ends = dict.fromkeys((formats.power(sizes[0]), formats.power(sizes[-1])))
        parts.append(f"{' to '.join(ends)} particles")
    if occupancies:
        parts.append(f"{', '.join(formats.plain(p) for p in occupancies)} per cell")
    parts.append(f"{', '.join(_distinct(r['mode'] for r in records))}")
    return "; ".join(parts)


def environment(machine: Machine) -> Table:
    """Return what the machine was: device, host, libraries, state of the clocks."""
    found: dict[str, list[str]] = {}
    for run in machine.runs:
        for label, value in _flat(run.environment):
            values = found.setdefault(label, [])
            if value not in values:
                values.append(value)
    rows = [Row(label, [Item("; ".join(values), "words")]) for label, values in found.items()]
    rows += [Row(label, [Item(value, "words")]) for label, value in _states(machine)]
    return Table("The machine", ["What", "Value"], rows)


def runs(machine: Machine) -> Table:
    """Return the runs that the numbers come from."""
    rows = []
    for run in machine.runs:
        environment = run.environment
        commit = formats.plain(environment["commit"])[:12]
        rows.append(
            Row(
                run.path.name,
                [
                    Item(environment["started"], "name"),
                    Item(
                        ", ".join(_distinct(r["study"] for r in run.records)) or formats.DASH,
                        "name",
                    ),
                    Item(f"{commit} (with changes)" if environment["dirty"] else commit, "name"),
                    Item(environment["code_hash"], "name"),
                    Item(str(len(run.records))),
                ],
            )
        )
    columns = ["Results file", "Started", "Studies", "Commit", "Hash of the code", "Records"]
    return Table("Runs", columns, rows)


def comparison(machines: Sequence[Machine], name: str) -> Table | None:
    """Return one study on several machines at their largest common size and a middle occupancy."""
    pairs = [(m, run) for m in machines for run in m.studies if run.study.name == name]
    places = set.intersection(
        *(
            {(p.particles, p.per_cell) for (_, p), c in run.cells.items() if c.ok}
            for _, run in pairs
        )
    )
    sizes = [size for size, _ in places if size is not None]
    if len(pairs) < 2 or not sizes:
        return None
    size = max(sizes)
    occupancies = sorted(p for s, p in places if s == size and p is not None)
    occupancy = occupancies[len(occupancies) // 2] if occupancies else None
    found = [{c.subject: c for c in run.at(particles=size, per_cell=occupancy)} for _, run in pairs]
    marks, note = _modes(cell for cells in found for cell in cells.values())
    labels = {s: label for _, run in reversed(pairs) for s, label in run.labels.items()}
    known = [s for s in labels if any(s in cells for cells in found)]
    rows = []
    for subject in known:
        cells = [by_subject.get(subject) for by_subject in found]
        base = cells[0]
        items = [_time(base, marks)]
        for cell in cells[1:]:
            both = base is not None and cell is not None and base.ok and cell.ok
            ratio = (
                formats.ratio(cell.median_ms / base.median_ms)
                if both and base and cell and base.median_ms
                else ""
            )
            items.append(_time(cell, marks, ratio))
        rows.append(Row(labels[subject], items))
    first = pairs[0][0].device_name
    return Table(
        f"{pairs[0][1].study.title}: {formats.count(size)} particles"
        + (f", {formats.plain(occupancy)} per cell" if occupancy is not None else ""),
        ["Algorithm", *(m.device_name + (" (CPU)" if m.is_cpu else "") for m, _ in pairs)],
        rows,
        "Median, ms",
        [*([note] if note else []), f"{_TIMES} is the time divided by that of {first}."],
    )


def _time(cell: Cell | None, marks: dict[str, str], detail: str = "", strong: bool = False) -> Item:
    if cell is None:
        return _NOTHING
    if not cell.ok:
        return Item(cell.headline["status"], "none")
    mark = marks.get(cell.headline["mode"], "")
    return Item(formats.significant(cell.median_ms), "number", detail, mark, strong)


def _interval(low_high: tuple[float, float] | None) -> Item:
    if low_high is None:
        return _NOTHING
    return Item(f" {formats.DASH} ".join(formats.significant(v) for v in low_high))


def _modes(cells: Iterable[Cell | None]) -> tuple[dict[str, str], str]:
    """Return the mark of each mode but the first that occurs, and the note that explains them."""
    known = list(cells)
    found = {cell.headline["mode"] for cell in known if cell is not None and cell.ok}
    modes = [mode for mode in HEADLINE_MODES if mode in found]
    if not modes:
        return {}, ""
    marks = {mode: _MARKS[mode] for mode in modes[1:]}
    note = f"Timing: {MODES[modes[0]]}"
    for mode, mark in marks.items():
        note += f"; {mark} {MODES[mode]}, where there is no {modes[0]} timing"
    dash = f" {formats.DASH} stands for not measured." if None in known else ""
    return marks, f"{note}.{dash}"


def kind(run: StudyRun) -> str:
    """Describe the kind of input that the tables hold fixed."""
    common = run.common
    parts = []
    if common["distribution"]:
        parts.append(str(common["distribution"]))
    if common["order"]:
        parts.append(f"{common['order']} order")
    if common["moved"] is not None:
        parts.append(f"{formats.plain(100 * common['moved'])} % moved")
    if common["periodic"] is not None:
        parts.append("periodic box" if any(common["periodic"]) else "open box")
    return ", ".join(parts)


def _varying_axes(run: StudyRun) -> list[str]:
    places = [cell.place for cell in run.cells.values()]
    axes = list(run.common)
    return [a for a in axes if len({getattr(p, a) for p in places}) > 1 or a == "particles"]


def _in_order(run: StudyRun) -> list[Cell]:
    rank = {subject: index for index, subject in enumerate(run.subjects)}

    def key(cell: Cell) -> tuple[Any, ...]:
        place = cell.place
        return (
            place.particles or 0,
            place.per_cell or 0,
            place.order != run.common["order"],
            str((place.distribution, place.order, place.moved, place.periodic)),
            rank[cell.subject],
        )

    return sorted(run.cells.values(), key=key)


def _axes(published: Published) -> list[str]:
    columns = [_axis_value(published.column_axis, c) for c in published.columns]
    return [_axis_name(published.row_axis), *columns]


def _axis_name(axis: str) -> str:
    return _AXES.get(axis, axis.replace("_", " ").capitalize())


def _axis_value(axis: str, value: Any) -> str:
    if axis == "particles" and value is not None:
        return formats.count(int(value))
    return formats.plain(value)


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _flat(environment: dict[str, Any]) -> list[tuple[str, str]]:
    """Flatten an environment into labelled values, without what the table of runs shows."""
    rows = []
    for name, value in environment.items():
        if name in ("started", "commit", "dirty", "code_hash"):
            continue
        if isinstance(value, dict):
            rows += [(f"{name}: {_words(key)}", _measure(key, item)) for key, item in value.items()]
        else:
            rows.append((_words(name), _measure(name, value)))
    return rows


def _words(name: str) -> str:
    for ending in ("_bytes", "_gb_s", "_ms"):
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def _measure(name: str, value: Any) -> str:
    if value is None:
        return "not known"
    if name.endswith("_bytes"):
        return formats.size(int(value))
    if name.endswith("_gb_s"):
        return f"{formats.significant(value)} GB/s"
    if name.endswith("_ms"):
        return f"{formats.significant(value)} ms"
    if isinstance(value, dict):
        return ", ".join(f"{_words(k)} {_measure(k, v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(formats.plain(v) for v in value) or "none"
    return formats.plain(value)


def _states(machine: Machine) -> list[tuple[str, str]]:
    """Summarise the state read before and after each measurement: least to greatest, or all."""
    found: dict[str, list[Any]] = {}
    for run in machine.runs:
        for record in run.records:
            for state in (record["state_before"], record["state_after"]):
                for name, value in (state or {}).items():
                    found.setdefault(name, []).append(value)
    rows = []
    for name, values in found.items():
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) == len(values):
            ends = dict.fromkeys((formats.plain(min(numbers)), formats.plain(max(numbers))))
            text = " to ".join(ends)
        else:
            flat = [w for v in values for w in (v if isinstance(v, list) else [v])]
            text = ", ".join(_distinct(formats.plain(w) for w in flat if w is not None)) or "none"
        rows.append((f"while measuring: {name.replace('_', ' ')}", text))
    return rows
