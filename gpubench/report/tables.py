"""The tables of a study: times, shares, what algorithms report, phases of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gpubench.evidence.ranking import Subject
from gpubench.report import formats
from gpubench.report.axes import AXES, COUNTS, SIZES, Axis, describe
from gpubench.report.cells import LONG, MODES, Cell, Place, told_apart
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Table
from gpubench.report.scans import Scan, grids, rankings, scans

MEANINGS = {
    "graph": "graph (CUDA graph replay, launch gaps removed)",
    "hot": "warm (launches back to back)",
    "cold": "cold (a buffer larger than the cache written before each launch)",
}
_MARKS = {"graph": "ᵍ", "hot": "ʷ", "cold": "ᶜ"}
TIMES = "\N{MULTIPLICATION SIGN}"
_SHORT = "\N{WARNING SIGN}\N{VARIATION SELECTOR-15}"
SHORT_NOTE = (
    f"{_SHORT} marks a time whose samples are less than {LONG} times as long as one of nothing, so"
    f" that more than {100 // LONG} % of it may be what a measurement adds."
)
_WORDS = 24  # letters; more may take several lines
_UNITS = {"us/record": "µs per record"}  # how a unit is written, where not as it is


def unit_name(unit: str) -> str:
    """Write a unit of time."""
    return _UNITS.get(unit, unit)


def timed(
    cell: Cell | None,
    marks: Mapping[str, str],
    detail: str = "",
    strong: bool = False,
    unit: str = "ms",
    value: float | None = None,
) -> Item:
    """Return the headline time of a cell or another value, or what stands in its place."""
    if cell is None:
        return NOTHING
    if not cell.ok:
        return Item(cell.record["status"], "none")
    mark = marks.get(cell.mode, "") + (_SHORT if cell.is_short else "")
    text = formats.significant(cell.median_ms / cell.unit_ms(unit) if value is None else value)
    return Item(text, "number", detail, mark, strong)


def modes(cells: Iterable[Cell | None]) -> tuple[dict[str, str], str]:
    """Return the mark of each mode but the first that occurs, and the note that explains them."""
    known = list(cells)
    found = {cell.mode for cell in known if cell is not None and cell.ok}
    timed_modes = [mode for mode in MODES if mode in found]
    if not timed_modes:
        return {}, ""
    marks = {mode: _MARKS[mode] for mode in timed_modes[1:]}
    note = f"Timing: {MEANINGS[timed_modes[0]]}"
    for mode, mark in marks.items():
        note += f"; {mark} {MEANINGS[mode]}, where there is no {timed_modes[0]} timing"
    note += "."
    if any(cell is not None and cell.is_short for cell in known):
        note += f" {SHORT_NOTE}"
    return marks, note + (f" {formats.DASH} stands for not measured." if None in known else "")


def subjects(run: StudyRun) -> tuple[list[Table], list[str]]:
    """Return the headline time of every subject along each scan, and the notes of the tables.

    Along the particles per cell there is a table for each number of particles.
    """
    filled = [(scan, _by_subject(run, scan)) for scan in grids(run)]
    marks, note = modes(c for _, grid in filled for line in grid.values() for c in line)
    made = []
    for scan, grid in filled:
        best = {(c.subject, c.place) for ranking in rankings(run, scan) for c in ranking.tied}
        rows = [
            Row(
                run.labels[subject],
                [
                    timed(
                        cell,
                        marks,
                        _loss(cell) or _share(cell),
                        cell is not None and (subject, cell.place) in best,
                        run.unit,
                    )
                    for cell in line
                ],
            )
            for subject, line in grid.items()
        ]
        axis = AXES[scan.axis]
        columns = ["Algorithm", *(axis.write(value) for value in scan.values(run))]
        title = scan.title(Axis.count)
        caption = f"{title}: " if title else ""
        made.append(Table(f"{caption}{unit_name(run.unit)} by {axis.label}", columns, rows))
    bold = (
        "Bold: the fastest, and all whose ratio to it has a 95 % interval that includes 1, among"
        " equal answers in one mode."
    )
    share = ""
    if any(_share(cell) for _, grid in filled for line in grid.values() for cell in line):
        share = (
            "Small: bytes to move over the time, as a fraction of the copy bandwidth (above 100 %:"
            " they stay in a cache)."
        )
    return made, [line for line in (note, bold, share) if line]


def _loss(cell: Cell | None) -> str:
    """Say which part of the particles an answer lacks; empty where it lacks none."""
    if cell is None or not cell.ok or not cell.lost:
        return ""
    return f"lost {formats.percent(cell.lost / cell.place.count)}"


def _share(cell: Cell | None) -> str:
    """Say which share of the copy bandwidth its least traffic takes; empty where unknown."""
    is_known = cell is not None and cell.ok and cell.bound is not None
    return f"{100 * cell.bound:.0f} %" if is_known and cell else ""


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
    """Return each re-sort's time as a share of its own full sort, beside the published share."""
    shares: dict[Place, dict[Subject, tuple[Cell, Cell]]] = {}
    for cell in run.cells.values() if not run.is_simulation else ():
        full = _full_sort(run, cell)
        if cell.ok and full is not None and full.ok and full.median_ms:
            shares.setdefault(cell.place, {})[cell.subject] = (cell, full)
    if not shares:
        return None
    columns = [s for s in run.subjects if any(s in found for found in shares.values())]
    axes = _varying(list(shares))
    known = {place: _published_share(run, place) for place in shares}
    is_published = any(share is not None for share in known.values())
    rows = []
    for place, found in shares.items():
        share = known[place]
        first = [NOTHING if share is None else Item(formats.percent(share))]
        items = [_saved(*found[s]) if s in found else NOTHING for s in columns]
        items = [*(first if is_published else []), *items]
        rows.append(Row(describe(place, axes, lambda a, v: a.write(v)), items))
    names = [run.labels[subject] for subject in columns]
    return Table(
        "Re-sort as a share of its own full sort",
        ["Input", *(["Published"] if is_published else []), *names],
        rows,
        notes=[
            "A re-sort is divided by the full sort of the same algorithm and form."
            " Bold: less than its full sort, and told apart from it."
        ],
    )


def _saved(cell: Cell, full: Cell) -> Item:
    share = cell.median_ms / full.median_ms
    return Item(formats.percent(share), strong=told_apart(cell, full))


def _full_sort(run: StudyRun, cell: Cell) -> Cell | None:
    """Return the full sort that a re-sort saves: on the same input, or on one that never moved."""
    algorithm = run.full_sorts.get(cell.subject.algorithm)
    if algorithm is None:
        return None
    full = Subject(algorithm, cell.subject.form)
    sizes = {name: getattr(cell.place, name) for name in SIZES}
    return run.cells.get((full, cell.place)) or run.find(full, **sizes)


def _published_share(run: StudyRun, place: Place) -> float | None:
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


def outcomes(run: StudyRun) -> list[Table]:
    """Return what the subjects report beside their answers, as far as the study names it.

    That is at the largest value of the study's first scan, below the times there; of steps, for
    each workload, and at each time step. Empty where nothing of it was reported.
    """
    told = [scan for scan in scans(run) if scan.axis in ("particles", "time_step")]
    along = told if run.is_simulation else scans(run)[:1]
    return [table for scan in along if (table := _outcomes(run, scan)) is not None]


def _outcomes(run: StudyRun, scan: Scan) -> Table | None:
    axis = AXES[scan.axis]
    values = scan.values(run)[slice(None) if scan.axis == "time_step" else slice(-1, None)]
    at = [(value, cell) for value in values for cell in scan.at(run, value) if cell.ok]
    if len(values) > 1:
        tried = Counter(cell.subject for _, cell in at)
        at = [(value, cell) for value, cell in at if tried[cell.subject] > 1]
    cells = [cell for _, cell in at]
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
    title = scan.title(Axis.count)
    columns = [run.labels[cell.subject] for cell in cells]
    if len(values) == 1:
        title = ", ".join(filter(None, (title, axis.say(*values))))
    else:
        columns = [f"{label}, {axis.say(v)}" for label, (v, _) in zip(columns, at, strict=True)]
    return Table(f"What the algorithms report at {title}", ["", *columns], rows, notes=[note])


def _per_second(cell: Cell, name: str) -> Item:
    number = getattr(cell.place, name)
    if number is None or not cell.median_ms:
        return NOTHING
    return Item(formats.significant(number / cell.median_ms * 1e-6))


def _reported(value: float | str | None) -> Item:
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return Item(formats.significant(value))
    text = formats.plain(value)
    return Item(text, "words" if len(text) > _WORDS else "number")


def kind(run: StudyRun) -> str:
    """Describe the kind of input that all tables hold fixed, besides what their captions say."""
    common = run.common
    told = {name for scan in grids(run) for name in scan.fixed}
    names = (
        "workload", "time_step", "skin", "record_bytes", "nulls", "distribution", "order",
        "destination", "periodic", "inputs",
    )  # fmt: skip
    fixed = [name for name in names if name not in told and common[name] is not None]
    return ", ".join(AXES[name].say(common[name]) for name in fixed)


def _varying(places: Sequence[Place]) -> list[str]:
    return [a for a in AXES if len({getattr(place, a) for place in places}) > 1]
