"""The tables of a study: times, fractions, reported values, reasons for missing times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpubench.evidence.crossover import Ratio, crossings
from gpubench.evidence.declared import legacy
from gpubench.evidence.pooling import STATUSES
from gpubench.evidence.ranking import MODES, Variant
from gpubench.evidence.records import Record
from gpubench.report import formats
from gpubench.report.axes import AXES, between, counts, describe, sizes, varying
from gpubench.report.cells import LONG, InputAxes, MeasurementRow, grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table, number, words
from gpubench.report.scans import Scan, scans

MEANINGS = {
    "graph": "device time (CUDA graph replay)",
    "hot": "launched (called from Python, warm)",
    "cold": "cold (a buffer larger than the cache written before each launch)",
}
_MARKS = {"hot": "ˡ", "cold": "ᶜ"}
LAUNCHED = "Called from Python"
TIMES = "\N{MULTIPLICATION SIGN}"
_OLD = "ᵒ"
_SHORT = "\N{WARNING SIGN}\N{VARIATION SELECTOR-15}"
SHORT_NOTE = (
    f"{_SHORT} marks a time whose samples are less than {LONG} times as long as one of nothing, so"
    f" that more than {100 // LONG} % of it may be what a measurement adds."
)
_BOLD = (
    "Bold: the fastest, and all whose ratio to it has a 95 % interval that includes 1, among equal"
    " answers, where there is more than one."
)
_BOUND = (
    "Small: bytes to move over the time, as a fraction of the copy bandwidth (above 100 %: they"
    " stay in a cache)."
)
_READ = (
    "J: of the whole GPU, by NVML, with idle power; the interval is that of three loops and of the"
    " counter's lag. Counters: by Nsight Compute, beside the timing. Least: what must be moved."
)
_WORDS = 24  # letters; longer texts may wrap


def unit_name(unit: str) -> str:
    """Return the display name of a unit of time."""
    return "µs per record" if unit == "us/record" else unit


def timed(
    cell: MeasurementRow | None,
    marks: Mapping[str, str],
    detail: str = "",
    strong: bool = False,
    unit: str = "ms",
    value: float | None = None,
) -> Item:
    """Return a cell's time (or another value) for a table, or its status if there is none."""
    if cell is None:
        return NOTHING
    if not cell.ok:
        return Item(cell.record.status, "none")
    mark = marks.get(cell.mode, "") + _SHORT * cell.is_short + marks.get(_OLD, "") * cell.is_old
    text = formats.significant(cell.median_ms / cell.unit_ms(unit) if value is None else value)
    return Item(text, "number", detail, mark, strong)


def modes(cells: Iterable[MeasurementRow | None]) -> tuple[dict[str, str], str]:
    """Return marks for all modes that occur except the first, and the note that explains them."""
    known = list(cells)
    timed_cells = [cell for cell in known if cell is not None and cell.ok]
    found = sorted({cell.mode for cell in timed_cells}, key=MODES.index)
    if not found:
        return {}, ""
    marks = {mode: _MARKS[mode] for mode in found[1:]}
    more = (f"; {m} {MEANINGS[mode]}, where that is all there is" for mode, m in marks.items())
    note = f"Timing: {MEANINGS[found[0]]}{''.join(more)}."
    note += f" {SHORT_NOTE}" * any(cell.is_short for cell in timed_cells)
    if 0 < sum(cell.is_old for cell in timed_cells) < len(timed_cells):
        marks[_OLD] = _OLD
        note += f" {_OLD} timed by older code than this version has."
    return marks, note + (f" {formats.DASH} means not measured." if None in known else "")


def launched(run: StudyRun, about: str = "") -> tuple[list[Table], list[str]]:
    """Return tables as `subjects` does, but of launched times, on inputs with device times."""
    places = {cell.place for cell in run.timed if cell.is_timed("graph")}
    hot = run.only(lambda cell: cell.place in places, "hot")
    return subjects(hot, "is_first", f"{about}called from Python, ") if hot.timed else ([], [])


def subjects(
    run: StudyRun, bold: str = "device_is_first", about: str = ""
) -> tuple[list[Table], list[str]]:
    """Return tables of all subjects' times along the scans, without repeats, and their notes.

    about: what their captions begin with.
    """
    lines: list[tuple[Scan, dict[Variant, list[MeasurementRow | None]]]] = []
    seen: set[int] = set()
    for scan in scans(run):
        own = {id(cell) for cell in scan.cells}
        if not own <= seen:
            lines.append((scan, _by_subject(scan)))
            seen |= own
    every = [cell for _, by_subject in lines for line in by_subject.values() for cell in line]
    marks, note = modes(every)

    def item(cell: MeasurementRow | None) -> Item:
        is_first = cell is not None and getattr(cell, bold)
        return timed(cell, marks, _detail(cell, run) if cell else "", is_first, run.unit)

    made = []
    for scan, by_subject in lines:
        able = (s for s, of in by_subject.items() if any(c and c.status != "skipped" for c in of))
        rows = [Row(run.labels[subject], list(map(item, by_subject[subject]))) for subject in able]
        axis = AXES[scan.axis]
        title = about + (f"{scan.title}: " if scan.title else "")
        columns = ["Algorithm", *map(axis.write, scan.columns)]
        made.append(Table(f"{title}{unit_name(run.unit)} by {axis.label}", columns, rows))
    return made, [note, _BOLD, *[_BOUND] * any(c and c.bound is not None for c in every)]


def _by_subject(scan: Scan) -> dict[Variant, list[MeasurementRow | None]]:
    found: dict[Variant, list[MeasurementRow | None]] = {}
    for index, cells in enumerate(scan.columns.values()):
        for cell in cells:
            found.setdefault(cell.subject, [None] * len(scan.columns))[index] = cell
    return found


def _detail(cell: MeasurementRow, run: StudyRun) -> str:
    """Return the fraction of lost particles, else the only outcome, else the bandwidth fraction."""
    if cell.ok and cell.lost:
        return f"lost {formats.percent(cell.lost / cell.place.count)}"
    for name, heading in run.study.outcomes.items():
        if cell.ok and len(run.study.outcomes) == 1 and name in cell.reported:
            return f"{formats.plain(cell.reported[name])} {heading.lower()}"
    return f"{100 * cell.bound:.0f} %" if cell.ok and cell.bound is not None else ""


def break_evens(run: StudyRun) -> Table:
    """Return the fraction moved up to which each re-sort is faster than a full sort.

    As published, then than its own full sort and than the fastest that answers alike.
    """
    rows = _published_break_evens(run)
    for scan in (each for each in scans(run) if each.axis == "moved"):
        for subject, cells in grouped(scan.cells, lambda cell: cell.subject).items():
            name = ", ".join(filter(None, [run.labels[subject], scan.title]))
            own = [cell for cell in cells if cell.ok and cell.replaces]
            for against, find in (("its own", _full_sort), ("the fastest", _fastest_sort)):
                fulls = ((cell, find(run, cell)) for cell in own)
                known = ((c.place, c.over(full)) for c, full in fulls if full and full.ok)
                shares = [(p.moved / p.count, share) for p, share in known if share and share.low]
                rows += _break_even(name, f"{against} full sort", shares)
    columns = ["Re-sort", "Compared with", "Faster up to, moved", "95 % interval"]
    note = "Between measured fractions the logarithm of the ratio is interpolated."
    return Table("Up to where a re-sort pays", columns, rows, [note])


def _published_break_evens(run: StudyRun) -> list[Row]:
    """Return those of a published table with columns of a re-sort and of what it replaces."""
    published, rows = run.study.published, list[Row]()
    replaced = {cell.subject.algorithm: cell.replaces for cell in run.timed}
    if published and published.row_axis == "moved":
        count = next(published.axes[axis] for axis in counts() if axis in published.axes)
        for own, name in enumerate(published.algorithms):
            if (full := replaced.get(name)) in published.algorithms:
                of = published.algorithms.index(full)
                ratios = [Ratio(*[row[own] / row[of]] * 3) for row in published.values]
                pairs = list(zip((row / count for row in published.rows), ratios, strict=True))
                rows += _break_even("published", f"{published.columns[of]}, full", pairs)
    return rows


def _break_even(name: str, against: str, ratios: Sequence[tuple[float, Ratio]]) -> list[Row]:
    """Return a row, given times of a re-sort over those of a full sort; none for less than two."""
    if len(ratios) < 2:
        return []
    found = crossings([share for share, _ in ratios], [ratio for _, ratio in ratios])
    for each in found[:1]:
        low, high = ("beyond" if end is None else formats.percent(end) for end in each[1:3])
        interval = f"{low} to {high}" if low != high else formats.DASH
        return [Row(name, [*map(words, (against, formats.percent(each.at), interval))])]
    is_always = all(ratio.high < 1 for _, ratio in ratios)
    is_never = all(ratio.low > 1 for _, ratio in ratios)
    told = "all measured" if is_always else "none measured" if is_never else "inconclusive"
    return [Row(name, [*map(words, (against, told, formats.DASH))])]


def _fastest_sort(run: StudyRun, cell: MeasurementRow) -> MeasurementRow | None:
    """Return the fastest full sort of the same input whose answer is alike."""
    able = (each for each in run.ranked_at(cell.place) if not each.replaces)
    return next((c for c in able if c.ranked.group.answer == cell.ranked.group.answer), None)


def _full_sort(run: StudyRun, cell: MeasurementRow) -> MeasurementRow | None:
    """Return the full sort that a re-sort replaces, on the same input or one of the same size."""
    full = Variant(cell.replaces, cell.subject.form)
    at = {name: getattr(cell.place, name) for name in sizes()}
    return run.cells.get((full, cell.place)) or run.find(full, **at)


def outcomes(run: StudyRun) -> list[Table]:
    """Return tables of values that algorithms report beside answers, with the study's headings.

    They cover the last value of the first scan, and every value along axes that tell each.
    """
    first, *more = scans(run)
    told = [(first, list(first.columns)[0 if AXES[first.axis].tells_each else -1 :])]
    told += [(scan, list(scan.columns)) for scan in more if AXES[scan.axis].tells_each]
    return [table for scan, values in told if (table := _outcomes(run, scan, values)) is not None]


def _outcomes(run: StudyRun, scan: Scan, values: Sequence[Any]) -> Table | None:
    axis = AXES[scan.axis]
    at = [(value, cell) for value in values for cell in scan.columns[value] if cell.ok]
    tried = Counter(cell.subject for _, cell in at)
    at = [(value, cell) for value, cell in at if tried[cell.subject] == max(tried.values())]
    cells = [cell for _, cell in at]
    named = run.study.outcomes
    if not any(named.keys() & cell.reported.keys() for cell in cells):
        return None
    marks, note = modes(cells)
    shown = {f"Median, {unit_name(run.unit)}": [timed(c, marks, unit=run.unit) for c in cells]}
    rates = run.study.rates or {name: AXES[name].heading for name in counts()}
    shown |= {f"{of} per second, 10⁹": [_rate(c, n) for c in cells] for n, of in rates.items()}
    shown |= {head: [_reported(c.reported.get(n)) for c in cells] for n, head in named.items()}
    shown = {head: own for head, own in shown.items() if {*own} - {NOTHING}}
    names = [run.labels[c.subject] + f", {axis.say(v)}" * (len(values) > 1) for v, c in at]
    rows = [Row(*row) for row in zip(names, zip(*shown.values(), strict=True), strict=True)]
    where = [scan.title] if len(values) > 1 else [scan.title, axis.say(*values)]
    title = f"What the algorithms report at {', '.join(filter(None, where))}"
    return Table(title, ["Algorithm", *shown], rows, [note])


def hardware(run: StudyRun) -> Table:
    """Return a table of joules and counters, with a row for each input on which any was read."""
    cells = [cell for cell in run.timed if cell.hardware]
    names = varying(cell.place for cell in cells) or sizes()
    read = dict.fromkeys(heading for cell in cells for heading in cell.hardware)
    head = "Where", lambda c: f"{run.labels[c.subject]}, {describe(c.place, names)}"
    columns = {name: lambda c, n=name: _reported(c.hardware.get(n)) for name in read}
    return Table.of("What the hardware did", cells, head, columns, [_READ])


def _rate(cell: MeasurementRow, name: str) -> Item:
    amount = cell.reported.get(name) or getattr(cell.place, name, None)
    return number(amount / cell.median_ms * 1e-6 if amount and cell.median_ms else None)


def _reported(value: float | str | None) -> Item:
    if value is None or isinstance(value, float):
        return number(value)
    text = formats.plain(value)
    return Item(text, "words" if len(text) > _WORDS else "number")


def kind(run: StudyRun) -> str:
    """Describe the properties of inputs that titles of scans leave out."""
    untold = {*sizes(), "workload", "ranks", "decomposition", "moved"}
    axes = (axis for axis in run.common if axis not in untold)
    return ", ".join(AXES[n].say(run.common[n]) for n in axes if run.common[n] is not None)


def oddities(run: StudyRun) -> list[str]:
    """Return a note on the number of measurements with unusual samples; empty if there are none."""
    counts = Counter(
        legacy()["remarks"].get(word := remark.partition(":")[0], word)
        for record in run.records
        for remark in (*(record.remarks or ()), *(["throttled"] if record.throttled_ms else ()))
    )
    found = ", ".join(f"{kind} in {count}" for kind, count in counts.most_common())
    return [
        f"Unusual samples, which the CSV file names: {found}. Drift: samples grow or shrink with"
        " time. Bimodal: the median may fall into either of two modes. Samples of a throttled"
        " device are left out."
    ] if counts else []  # fmt: skip


def troubles(run: StudyRun) -> Table:
    """Return a table of measurements without a time, with a row per status and reason."""
    records = [record for record in run.records if record.status != "ok"]
    groups = grouped(records, lambda record: (record.status, str(record.reason)))
    return Table.of(
        "Measurements without a time",
        sorted(groups.items(), key=lambda each: STATUSES.index(each[0][0])),
        ("Status", lambda each: each[0][0]),
        {
            "Count": lambda each: str(len(each[1])),
            "Algorithm and form": lambda each: words(
                formats.listing(dict.fromkeys(f"{r.algorithm} {r.form}" for r in each[1]))
            ),
            "Where": lambda each: words(_where(each[1])),
            "Reason": lambda each: words(each[0][1]),
        },
    )


def _where(records: Sequence[Record]) -> str:
    modes = formats.listing(dict.fromkeys(record.mode for record in records))
    places = [InputAxes({name: record.at(name) for name in sizes()}) for record in records]
    return ", ".join(filter(None, (between(places, sizes()), modes)))
