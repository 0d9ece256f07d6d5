"""The tables of a report, as data that the HTML and the Markdown templates both print."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpubench.report import formats
from gpubench.report.axes import AXES, COUNTS, SIZES, Axis, describe
from gpubench.report.cells import (
    HEADLINE_MODES,
    LONG,
    Cell,
    Machine,
    Place,
    Record,
    StudyRun,
    Subject,
    told_apart,
)
from gpubench.report.verdict import (
    Ranking,
    Scan,
    best_forms,
    column_algorithm,
    grids,
    lost,
    matches,
    overtakings,
    rankings,
    rivals,
    scans,
)
from gpubench.studies.study import Published

MODES = {
    "graph": "graph (CUDA graph replay, launch gaps removed)",
    "hot": "hot (launches back to back, caches warm)",
    "cold": "cold (a buffer larger than the cache written before each launch)",
}
_MARKS = {"graph": "ᵍ", "hot": "ʰ", "cold": "ᶜ"}
_TIMES = "\N{MULTIPLICATION SIGN}"
_SHORT = "\N{WARNING SIGN}\N{VARIATION SELECTOR-15}"
_SHORT_NOTE = (
    f"{_SHORT} marks a time whose samples are less than {LONG} times as long as one of nothing, so"
    f" that more than {100 // LONG} % of it may be what a measurement adds."
)
_OVERHEAD = (
    "Overhead is what a sample takes in which nothing is launched (older results have it of hot"
    " samples alone: empty launch). It is in every sample once, however many launches the sample"
    " holds, and is not taken off."
)
UNITS = {"us/record": "µs per record"}  # how a unit is written, where not as it is

MOST_ODD = 100  # measurements with remarks that a page lists


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


NOTHING = Item(formats.DASH, "none")
_PHASES = (
    "Phases are timed by themselves after the step, launched one by one with an event between"
    " each two, so they do not add up to it exactly; below each stands its share of their sum."
)


@dataclass(frozen=True)
class Row:
    """A row: its heading, which may lead to a page, and its items."""

    head: str
    items: Sequence[Item]
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A table: columns[0] heads the row headings; `over` spans the other columns.

    groups: a heading over some of these each, and how many; all of them together, or none.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    over: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    groups: Sequence[tuple[str, int]] = ()

    @property
    def full_columns(self) -> list[str]:
        """The columns, each with the heading that stands over it."""
        over = [heading for heading, count in self.groups for _ in range(count)]
        over = over or [""] * (len(self.columns) - 1)
        named = zip(over, self.columns[1:], strict=True)
        return [self.columns[0], *(": ".join(filter(None, pair)) for pair in named)]


def printed(published: Published) -> Table:
    """Return the published table as printed."""
    axis = AXES[published.row_axis]
    rows = [
        Row(axis.count(row), [Item(text) for text in texts])
        for row, texts in zip(published.rows, published.texts, strict=True)
    ]
    notes = [published.note] if published.note else []
    unit = unit_name(published.unit)
    if published.quantities:
        columns = [axis.heading, *map(str, published.columns)]
        return Table(f"As printed: {published.device}, times in {unit}", columns, rows, notes=notes)
    return Table(
        f"As printed: {published.device}, {unit}",
        _columns(published, [""] * len(published.columns)),
        rows,
        _over(published, f"time, {unit}"),
        notes,
    )


def measured(run: StudyRun, published: Published) -> Table | None:
    """Return the published table as measured, each time with the speed-up over the print.

    Each column is of the best form of its algorithm. None where nothing of it was measured.
    """
    forms = best_forms(run, published)
    grid = matches(run, published, forms)
    if not any(match.cell for line in grid for match in line):
        return None
    marks, note = modes(match.cell for line in grid for match in line)
    rows = []
    for row, line in zip(published.rows, grid, strict=True):
        items = []
        for match in line:
            detail = formats.ratio(match.speedup) if match.speedup is not None else ""
            items.append(timed(match.cell, marks, detail, unit=run.unit))
        rows.append(Row(AXES[published.row_axis].count(row), items))
    notes = [note] if note else []
    if any(match.speedup for line in grid for match in line):
        notes.append(
            f"{_TIMES} is the printed time divided by the measured one ({published.device})."
        )
    labels = [
        run.labels[subject] if (subject := forms[column_algorithm(published, i)]) else "not timed"
        for i in range(len(published.columns))
    ]
    median = f"median, {unit_name(run.unit)}"
    shown = "best form of each" if published.algorithms else labels[0]
    return Table(
        f"Measured: {shown}, {median}",
        _columns(published, [f": {label}" for label in labels]),
        rows,
        _over(published, median),
        notes,
    )


def unit_name(unit: str) -> str:
    """Write a unit of time."""
    return UNITS.get(unit, unit)


def _columns(published: Published, labels: Sequence[str]) -> list[str]:
    head = AXES[published.row_axis].heading
    if published.algorithms:
        named = zip(published.columns, labels, strict=True)
        return [head, *(f"{column}{label}" for column, label in named)]
    return [head, *(AXES[published.column_axis].count(c) for c in published.columns)]


def _over(published: Published, what: str) -> str:
    over = "Algorithm" if published.algorithms else AXES[published.column_axis].heading
    return f"{over}; {what}"


def fastest(run: StudyRun) -> Table | None:
    """Return which subject is fastest along the first scan of a study, and by how much."""
    scan = next(iter(scans(run)), None)
    ranked = [r for r in rankings(run, scan) if r.value is not None] if scan else []
    if scan is None or not ranked:
        return None
    marks, note = modes(cell for r in ranked for cell in r.cells[:2])
    axis = AXES[scan.axis]
    kinds = any(r.answer for r in ranked)
    rows = [
        Row(
            axis.count(r.value),
            [*([Item(r.answer or "", "words")] if kinds else []), *_fastest_items(run, r, marks)],
        )
        for r in ranked
    ]
    median = f"Median, {unit_name(run.unit)}"
    head = [axis.heading, *(["Answer"] if kinds else [])]
    columns = [*head, "Fastest", median, "Next", median, "Next / fastest"]
    title = scan.title(lambda axis, value: axis.count(value))
    caption = f"Fastest at {title}" if title else "Fastest"
    return Table(caption, columns, rows, notes=[note] if note else [])


def _fastest_items(run: StudyRun, ranking: Ranking, marks: dict[str, str]) -> list[Item]:
    own = timed(ranking.fastest, marks, unit=run.unit)
    items = [Item(run.labels[ranking.fastest.subject], "name"), own]
    if len(ranking.cells) == 1:
        return [*items, NOTHING, NOTHING, NOTHING]
    second = ranking.cells[1]
    items += [Item(run.labels[second.subject], "name"), timed(second, marks, unit=run.unit)]
    apart = ranking.factor is not None
    text = formats.ratio(ranking.factor) if ranking.factor else "inconclusive"
    return [*items, Item(text, "number" if apart else "none")]


def subjects(run: StudyRun) -> tuple[list[Table], list[str]]:
    """Return the headline time of every subject along each scan, and the notes of the tables.

    Along the particles per cell there is a table for each number of particles.
    """
    filled = [(scan, _by_subject(run, scan)) for scan in grids(run)]
    marks, note = modes(c for _, grid in filled for line in grid.values() for c in line)
    made = []
    for scan, grid in filled:
        best = {id(cell) for ranking in rankings(run, scan) for cell in ranking.tied}
        rows = [
            Row(
                run.labels[subject],
                [
                    timed(cell, marks, _loss(cell), strong=id(cell) in best, unit=run.unit)
                    for cell in line
                ],
            )
            for subject, line in grid.items()
        ]
        axis = AXES[scan.axis]
        columns = ["Algorithm", *(axis.write(value) for value in scan.values(run))]
        over = f"{axis.heading}; median, {unit_name(run.unit)}"
        caption = scan.title(lambda axis, value: axis.count(value)) or axis.heading
        made.append(Table(caption, columns, rows, over))
    bold = (
        "Bold: the fastest of its kind of answer on its input, and what is not known to be slower"
        " (the 95 % interval of the ratio includes 1)."
    )
    return made, [line for line in (note, bold) if line]


def _loss(cell: Cell | None) -> str:
    """Say which part of the particles an answer lacks; empty where it lacks none."""
    if cell is None or not cell.ok or not (number := lost(cell)):
        return ""
    return f"lost {formats.percent(number / cell.place.count)}"


def _by_subject(run: StudyRun, scan: Scan) -> dict[Subject, list[Cell | None]]:
    """Return each subject's cells along a scan, for subjects that have any."""
    lines = {
        subject: [
            run.find(subject, **{**scan.fixed, scan.axis: value}) for value in scan.values(run)
        ]
        for subject in run.subjects
    }
    return {subject: line for subject, line in lines.items() if any(line)}


def resorts(run: StudyRun) -> Table | None:
    """Return each re-sort's time as a share of its own full sort, beside the printed share."""
    shares: dict[Place, dict[Subject, tuple[Cell, Cell]]] = {}
    for cell in in_order(run) if not run.is_simulation else ():
        full = _full_sort(run, cell)
        if cell.ok and full is not None and full.ok and full.median_ms:
            shares.setdefault(cell.place, {})[cell.subject] = (cell, full)
    if not shares:
        return None
    columns = [s for s in run.subjects if any(s in found for found in shares.values())]
    axes = _varying(list(shares))
    print_of = {place: _printed_share(run, place) for place in shares}
    has_print = any(share is not None for share in print_of.values())
    rows = []
    for place, found in shares.items():
        share = print_of[place]
        items = (
            [Item(formats.percent(share)) if share is not None else NOTHING] if has_print else []
        )
        for subject in columns:
            if subject not in found:
                items.append(NOTHING)
                continue
            cell, full = found[subject]
            text = formats.percent(cell.median_ms / full.median_ms)
            items.append(Item(text, strong=told_apart(cell, full)))
        rows.append(Row(describe(place, axes, lambda a, v: a.write(v)), items))
    names = [run.labels[subject] for subject in columns]
    return Table(
        "Re-sort as a share of its own full sort",
        ["Input", *(["As printed"] if has_print else []), *names],
        rows,
        notes=[
            "A re-sort is divided by the full sort of the same algorithm and form."
            " Bold: less than its full sort, and told apart from it."
        ],
    )


def _full_sort(run: StudyRun, cell: Cell) -> Cell | None:
    """Return the full sort that a re-sort saves: on the same input, or on one that never moved."""
    full = run.full_sort(cell.subject)
    if full is None:
        return None
    sizes = {name: getattr(cell.place, name) for name in SIZES}
    return run.cells.get((full, cell.place)) or run.find(full, **sizes)


def _printed_share(run: StudyRun, place: Place) -> float | None:
    published = run.study.published
    if published is None or not place.has(**published.axes):
        return None
    for index, name in enumerate(published.algorithms):
        full = run.full_sorts.get(name)
        row = getattr(place, published.row_axis)
        if full in published.algorithms and row in published.rows:
            values = published.values[published.rows.index(row)]
            return values[index] / values[published.algorithms.index(full)]
    return None


def crossovers(run: StudyRun) -> Table | None:
    """Return where each rival overtakes the algorithm that a study is about."""
    found = overtakings(run)
    if not found:
        return None
    axis = AXES[scans(run)[0].axis]
    rows = [
        Row(
            run.labels[each.subject],
            [
                Item(each.where(axis), "words"),
                Item(formats.significant(each.crossing)) if each.crossing else NOTHING,
            ],
        )
        for each in found
    ]
    name = rivals(run)[0][0].algorithm
    return Table(
        f"Where each rival is faster than {name}",
        ["Rival", "Faster", f"Medians equal at, {axis.label}"],
        rows,
        notes=[
            f"Against the form of {name} that is fastest at each place; faster where the 95 %"
            " intervals do not overlap. Where the medians are equal is read off a line between"
            " the two nearest measurements that can be told apart, both axes logarithmic."
        ],
    )


def outcomes(run: StudyRun) -> Table | None:
    """Return what the subjects report beside their answers, as far as the study names it.

    That is at the largest value of the study's first scan, below the times there. None where
    nothing of it was reported.
    """
    scan = next(iter(scans(run)), None)
    if scan is None:
        return None
    value = scan.values(run)[-1]
    cells = [cell for cell in scan.at(run, value) if cell.ok]
    named = run.study.outcomes
    if not any(named.keys() & cell.reported.keys() for cell in cells):
        return None
    marks, note = modes(cells)
    rows = [
        Row(f"Median, {unit_name(run.unit)}", [timed(cell, marks, unit=run.unit) for cell in cells])
    ]
    for name in COUNTS:
        rates = [_per_second(cell, name) for cell in cells]
        if any(rate is not NOTHING for rate in rates):
            rows.append(Row(f"{AXES[name].heading} per second, 10⁹", rates))
    for name, heading in named.items():
        found = [cell.reported.get(name) for cell in cells]
        if any(number is not None for number in found):
            rows.append(Row(heading, [_reported(number) for number in found]))
    title = ", ".join(t for t in (scan.title(Axis.count), AXES[scan.axis].say(value)) if t)
    columns = ["", *(run.labels[cell.subject] for cell in cells)]
    if len(cells) > len(rows):  # a table is rather long than wide
        headings = ["", *(row.head for row in rows)]
        turned = zip(*(row.items for row in rows), strict=True)
        rows = [Row(label, list(items)) for label, items in zip(columns[1:], turned, strict=True)]
        columns = headings
    return Table(
        f"What the algorithms report at {title}", columns, rows, notes=[note] if note else []
    )


def _per_second(cell: Cell, name: str) -> Item:
    number = getattr(cell.place, name)
    if number is None or not cell.median_ms:
        return NOTHING
    return Item(formats.significant(number / cell.median_ms * 1e-6))


def _reported(value: float | str | None) -> Item:
    if value is None:
        return NOTHING
    return Item(formats.significant(value) if isinstance(value, float) else formats.plain(value))


def phases(run: StudyRun) -> list[Table]:
    """Return what steps are made of, with the fewest ranks.

    There is a table for each size and time step of a workload, with a row for each algorithm in
    the order of the step times; or where there are more sizes than algorithms, a table for each
    of these, with a row for each size.
    """
    names = ("workload", *(() if run.has_many_sizes else ("particles",)), "time_step")
    groups: dict[str, list[Cell]] = {}
    for cell in in_order(run):
        if cell.phases_ms and cell.place.ranks == run.common["ranks"]:
            caption = describe(cell.place, names, Axis.count)
            if run.has_many_sizes:
                caption += f", {run.labels[cell.subject]}"
            groups.setdefault(caption, []).append(cell)
    made = [_phases(run, caption, cells) for caption, cells in groups.items()]
    return [*made[:-1], *(replace(last, notes=[*last.notes, _PHASES]) for last in made[-1:])]


def _phases(run: StudyRun, caption: str, cells: Sequence[Cell]) -> Table:
    marks, note = modes(cells)
    axes = [name for name in ("skin",) if name in _varying([cell.place for cell in cells])]
    named = [name for name in run.phases if any(name in cell.phases_ms for cell in cells)]
    if not run.has_many_sizes:
        cells = sorted(cells, key=lambda cell: cell.median_ms)
    size = AXES["particles"]
    rows = [
        Row(
            size.count(cell.place.particles) if run.has_many_sizes else run.labels[cell.subject],
            [
                *(_axis_item(cell.place, name) for name in axes),
                timed(cell, marks),
                _millions(cell.particle_steps_per_s),
                *(phase(cell, name) for name in named),
            ],
        )
        for cell in cells
    ]
    columns = [size.heading if run.has_many_sizes else "Algorithm"]
    columns += [*(AXES[name].heading for name in axes), "Step, ms"]
    columns += ["Particle-steps/s, 10⁶", *(f"{name.capitalize()}, ms" for name in named)]
    steps = [int(done) for cell in cells if (done := cell.number("steps_done"))]
    notes = [note]
    if len(steps) == len(cells):
        notes.append(
            f"With the last check the simulations had done {formats.counts(steps)} steps. Where"
            " particles stay in their places, the order in memory that they began in decays."
        )
    return Table(f"Phases of {caption}", columns, rows, notes=notes)


def _millions(rate: float | None) -> Item:
    return NOTHING if rate is None else Item(formats.significant(rate / 1e6))


def phase(cell: Cell, name: str) -> Item:
    """Return the time of a phase in milliseconds, with its share of the step."""
    share = cell.phase_share(name)
    if name not in cell.phases_ms or share is None:
        return NOTHING
    return Item(formats.significant(cell.phases_ms[name]), detail=formats.percent(share))


def headline_cells(run: StudyRun) -> Table:
    """Return the headline median and interval of every cell, by the axes of the study."""
    marks, note = modes(run.cells.values())
    axes = _shown_axes(run, {*COUNTS})
    rows = []
    for cell in in_order(run):
        low_high = cell.interval_ms if cell.ok else None
        rows.append(
            Row(
                run.labels[cell.subject],
                [
                    *(_axis_item(cell.place, a) for a in axes),
                    timed(cell, marks),
                    _interval(low_high),
                ],
            )
        )
    return Table(
        "Medians, ms",
        ["Algorithm", *(AXES[a].heading for a in axes), "Median, ms", "95 % interval, ms"],
        rows,
        notes=[note] if note else [],
    )


def every_record(run: StudyRun) -> Table:
    """Return one row for each record: all modes, with the command that repeats it."""
    axes = _shown_axes(run, {*COUNTS, "per_cell", "order"})
    columns = ["Algorithm", "Form", *(AXES[a].heading for a in axes), "Mode", "Median, ms"]
    columns += ["95 % interval, ms", "Samples", "Set aside", "Stopped by", "Batch", "SM clock, MHz"]
    columns += ["Workspace", "Copy bandwidth", "Remarks", "Repeat"]
    rows = [
        _record_row(cell.in_mode(mode), axes)
        for cell in in_order(run)
        for mode in HEADLINE_MODES
        if mode in cell.by_mode
    ]
    notes = [
        "Set aside: samples that were taken while the device was throttled, and count for nothing."
        " Stopped by: why there are no more samples. SM clock: lowest and highest that was read"
        " around blocks of samples."
    ]
    if any(cell.in_mode(mode).is_short for cell in run.cells.values() for mode in cell.by_mode):
        notes.append(_SHORT_NOTE)
    return Table("Every cell in every mode", columns, rows, notes=notes)


def _record_row(cell: Cell, axes: Sequence[str]) -> Row:
    record, share = cell.headline, cell.copy_share
    clocks = dict.fromkeys(record["clocks_sm_mhz"] or ())
    parameters = ", ".join(f"{name}={value:.12g}" for name, value in cell.subject.parameters)
    form = f"{record['form']} ({parameters})" if parameters else record["form"]
    return Row(
        record["algorithm"],
        [
            Item(form, "name"),
            *(
                Item(formats.plain(getattr(cell.place, a)), _axis_item(cell.place, a).kind)
                for a in axes
            ),
            Item(record["mode"], "name"),
            timed(cell, {}),
            _interval(cell.interval_ms if cell.ok else None),
            Item(formats.plain(len(record["samples_ms"]) if cell.ok else None)),
            # Older results do not know of any, and have no reason why sampling stopped.
            Item(formats.plain(len(record["throttled_ms"] or ()) if record["stopped"] else None)),
            Item(record["stopped"] or formats.DASH, "name"),
            Item(formats.plain(record["batch"])),
            Item(" to ".join(map(formats.plain, clocks)) or formats.DASH),
            Item(formats.size(record["workspace_bytes"])),
            Item(formats.DASH if share is None else f"{formats.significant(100 * share)} %"),
            Item("; ".join(_remarks(record)) or formats.DASH, "name"),
            Item(command(record), "code"),
        ],
    )


def _remarks(record: Record) -> list[str]:
    """Say what is odd about the samples of a record: what was remarked, and what was set aside."""
    found = list(record["remarks"] or ())
    if record["throttled_ms"]:
        out, left = len(record["throttled_ms"]), len(record["samples_ms"] or ())
        why = formats.listing(record["throttled_by"] or ["reason not known"])
        found.append(f"throttled: {out} of {out + left} samples set aside ({why})")
    return found


def oddities(run: StudyRun) -> Table | None:
    """Return what is odd about the samples of each measurement; None where nothing is."""
    axes = _shown_axes(run, {*COUNTS})
    rows = [
        Row(
            f"{run.labels[cell.subject]}, {describe(cell.place, axes)}, {mode}",
            [timed(cell.in_mode(mode), {}), Item("; ".join(found), "words")],
        )
        for cell in in_order(run)
        for mode in HEADLINE_MODES
        if mode in cell.by_mode and (found := _remarks(cell.by_mode[mode]))
    ]
    if not rows:
        return None
    more = [f"The first {MOST_ODD} of {len(rows)}; the CSV has all."] if rows[MOST_ODD:] else []
    return Table(
        "What is odd about these samples",
        ["Measurement", "Median, ms", "Remark"],
        rows[:MOST_ODD],
        notes=[
            *more,
            "Drift: the samples grow or shrink while they are taken. Bimodal: they gather around"
            " two times, and the median can be either. The times stand as they were measured;"
            " samples taken while the device was throttled are not in them.",
        ],
    )


def command(record: Record) -> str:
    """Return the command that measures the cell of a record again."""
    launcher = [] if record["ranks"] is None else ["mpirun", "-n", str(record["ranks"])]
    words = [*launcher, "gpubench", "run", record["study"], "--device", record["device"]]
    words += ["--algorithms", record["algorithm"]]
    sizes = [record[name] for name in COUNTS if record[name] is not None]
    if sizes:
        words += ["--particles", str(sizes[0])]
    if record["per_cell"] is not None:
        words += ["--per-cell", f"{record['per_cell']:g}"]
    if record["inputs"] is not None:
        words += ["--inputs", str(record["inputs"])]
    return shlex.join(words)


def troubles(run: StudyRun) -> Table:
    """Return what has no time, one row for each status and reason."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for cell in in_order(run):
        for record in cell.by_mode.values():
            if record["status"] != "ok":
                groups.setdefault((record["status"], _reason(run, record)), []).append(record)
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


def _reason(run: StudyRun, record: Record) -> str:
    """Say why there is no time; of a sweep that was not run as a whole, that the sweep is why."""
    reason = str(record["reason"])
    requires = {f for s in run.study.sweeps if s.name == record["sweep"] for f in s.requires}
    if any(reason.lower().startswith(f"needs {feature}") for feature in requires):
        return f"the sweep {record['sweep']} {reason}"
    return reason


def _where(records: Sequence[Record]) -> str:
    parts = []
    for name in SIZES:
        values = sorted({r[name] for r in records if r[name] is not None})
        if values and AXES[name].kind == "size":
            ends = dict.fromkeys((values[0], values[-1]))
            parts.append(AXES[name].phrase.format(" to ".join(AXES[name].write(v) for v in ends)))
        elif values:
            parts.append(AXES[name].phrase.format(", ".join(map(formats.plain, values))))
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
    rows = [Row(label, [Item(_together(values), "words")]) for label, values in found.items()]
    rows += [Row(label, [Item(value, "words")]) for label, value in _states(machine)]
    known = [key for run in machine.runs for key, value in run.environment.items() if value]
    is_known = "overhead_ms" in known or "empty_launch_ms" in known
    notes = [_OVERHEAD] if is_known else []
    return Table("The machine", ["What", "Value"], rows, notes=notes)


def _together(values: Sequence[str]) -> str:
    """Write what several runs had: the least and the greatest time or rate, or all else."""
    for unit in (" ms", " GB/s"):
        if len(values) > 2 and all(value.endswith(unit) for value in values):
            numbers = {float(v.removesuffix(unit).replace(",", "")): v for v in values}
            return f"{numbers[min(numbers)].removesuffix(unit)} to {numbers[max(numbers)]}"
    return "; ".join(values)


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
    """Return one study on several machines at their largest common size, in the middle of it."""
    pairs = [(m, run) for m in machines for run in m.studies if run.study.name == name]
    common = set.intersection(*({p for (_, p), c in run.cells.items() if c.ok} for _, run in pairs))
    usual = [place for place in common if place.kind == pairs[0][1].kind] or list(common)
    if len(pairs) < 2 or not usual:
        return None
    size = max(place.count for place in usual)
    largest = sorted(
        (place for place in usual if place.count == size),
        key=lambda place: [value or 0 for value in (place.per_cell, place.kept, place.moved)],
    )
    place = largest[len(largest) // 2]
    found = [{c.subject: c for (_, p), c in run.cells.items() if p == place} for _, run in pairs]
    marks, note = modes(cell for cells in found for cell in cells.values())
    labels = {s: label for _, run in reversed(pairs) for s, label in run.labels.items()}
    known = [s for s in labels if any(s in cells for cells in found)]
    rows = []
    for subject in known:
        cells = [by_subject.get(subject) for by_subject in found]
        base = cells[0]
        items = [timed(base, marks)]
        for cell in cells[1:]:
            both = base is not None and cell is not None and base.ok and cell.ok
            ratio = (
                formats.ratio(cell.median_ms / base.median_ms)
                if both and base and cell and base.median_ms
                else ""
            )
            items.append(timed(cell, marks, ratio))
        rows.append(Row(labels[subject], items))
    first = pairs[0][0].device_name
    return Table(
        f"{pairs[0][1].study.title}: "
        + describe(place, (*SIZES, "moved", "inputs"), lambda axis, value: axis.count(value)),
        ["Algorithm", *(m.device_name + (" (CPU)" if m.is_cpu else "") for m, _ in pairs)],
        rows,
        "Median, ms",
        [*([note] if note else []), f"{_TIMES} is the time divided by that of {first}."],
    )


def timed(
    cell: Cell | None,
    marks: dict[str, str],
    detail: str = "",
    strong: bool = False,
    unit: str = "ms",
) -> Item:
    """Return the headline time of a cell, or what stands in its place."""
    if cell is None:
        return NOTHING
    if not cell.ok:
        return Item(cell.headline["status"], "none")
    mark = marks.get(cell.headline["mode"], "") + (_SHORT if cell.is_short else "")
    text = formats.significant(cell.median_ms / cell.unit_ms(unit))
    return Item(text, "number", detail, mark, strong)


def _interval(low_high: tuple[float, float] | None) -> Item:
    if low_high is None:
        return NOTHING
    return Item(f" {formats.DASH} ".join(formats.significant(v) for v in low_high))


def modes(cells: Iterable[Cell | None]) -> tuple[dict[str, str], str]:
    """Return the mark of each mode but the first that occurs, and the note that explains them."""
    known = list(cells)
    found = {cell.headline["mode"] for cell in known if cell is not None and cell.ok}
    timed_modes = [mode for mode in HEADLINE_MODES if mode in found]
    if not timed_modes:
        return {}, ""
    marks = {mode: _MARKS[mode] for mode in timed_modes[1:]}
    note = f"Timing: {MODES[timed_modes[0]]}"
    for mode, mark in marks.items():
        note += f"; {mark} {MODES[mode]}, where there is no {timed_modes[0]} timing"
    note += "."
    if any(cell is not None and cell.is_short for cell in known):
        note += f" {_SHORT_NOTE}"
    return marks, note + (f" {formats.DASH} stands for not measured." if None in known else "")


def kind(run: StudyRun) -> str:
    """Describe the kind of input that the tables hold fixed."""
    common = run.common
    names = (
        "workload", "time_step", "skin", "record_bytes", "nulls", "distribution", "order",
        "destination", "periodic", "inputs",
    )  # fmt: skip
    return ", ".join(AXES[name].say(common[name]) for name in names if common[name] is not None)


def _varying(places: Sequence[Place]) -> list[str]:
    return [a for a in AXES if len({getattr(place, a) for place in places}) > 1]


def _shown_axes(run: StudyRun, always: set[str]) -> list[str]:
    """Return the axes that vary, and those of `always` that the inputs have."""
    places = [cell.place for cell in run.cells.values()]
    varying = _varying(places)
    had = {a for a in AXES if any(getattr(place, a) is not None for place in places)}
    return [a for a in AXES if a in varying or a in always & had]


def _axis_item(place: Place, name: str) -> Item:
    value = getattr(place, name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Item(AXES[name].count(value), "number" if number or value is None else "name")


def in_order(run: StudyRun) -> list[Cell]:
    """Return the cells by size, then the usual input before others, then by subject."""
    rank = {subject: index for index, subject in enumerate(run.subjects)}

    def key(cell: Cell) -> tuple[Any, ...]:
        place = cell.place
        sizes = (getattr(place, name) for name in SIZES)
        others = (place.distribution, place.record_bytes, place.nulls, place.destination)
        return (
            *(size or 0 for size in sizes),
            *(getattr(place, name) != run.common[name] for name in ("order", "destination")),
            str((*others, place.periodic, place.order, place.workload)),
            *(value or 0 for value in (place.moved, place.time_step, place.skin, place.ranks)),
            str(place.decomposition),
            place.inputs or 1,
            rank[cell.subject],
        )

    return sorted(run.cells.values(), key=key)


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


UNIT_ENDINGS = ("_bytes", "_gb_s", "_ms")


def _flat(environment: dict[str, Any]) -> list[tuple[str, str]]:
    """Flatten an environment into labelled values, without what the table of runs shows."""
    rows = []
    for name, value in environment.items():
        if name in ("started", "commit", "dirty", "code_hash"):
            continue
        if isinstance(value, dict):
            unit_of = name if name.endswith(UNIT_ENDINGS) else ""
            rows += [
                (f"{_words(name)}: {_words(key)}", _measure(unit_of or key, item))
                for key, item in value.items()
            ]
        else:
            rows.append((_words(name), _measure(name, value)))
    return rows


def _words(name: str) -> str:
    for ending in UNIT_ENDINGS:
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
