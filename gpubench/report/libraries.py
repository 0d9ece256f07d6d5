"""What a report says of libraries beside ours: which wins, by how much, at what price."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from gpubench.core.tasks import TASKS
from gpubench.evidence.ranking import Subject
from gpubench.evidence.records import Record
from gpubench.report import formats
from gpubench.report.axes import AXES, between
from gpubench.report.cells import Cell, Place, grouped
from gpubench.report.figures import Axis, Chart, Point, line_chart, panel
from gpubench.report.pages import NOTHING, Item, Row, Section, Table
from gpubench.report.rankings import Comparison, Race, Searches, lines_over, moved_share, task
from gpubench.report.vega import draw_all

HABITS = {
    "overflow": "Overflow", "wrapping": "Wrapping", "order": "Order", "self_pairs": "Self-pairs",
    "ties": "Ties",
}  # fmt: skip
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_BUILDS = (
    "What is built differs: linked lists in one pass, or sorted particles; the time of a count has"
    " both in it."
)
_NOT_TIMED = {"wrong": "wrong", "failed": "failed", "skipped": "not run"}


def verdict(searches: Searches) -> str:
    """Say where a library wins, or that ours are first; computed from all that can be compared."""
    compared, short = searches.comparisons, ""
    if searches.too_short:  # counted whatever they would be compared with
        short = (
            " Times left out as too short for the clock, since their 95 % intervals begin at 0:"
            f" {searches.too_short}."
        )
    if not compared:
        return (
            f"No library was timed beside ours here, so nothing is said of which is first.{short}"
        )
    unclear = [each for each in compared if each.ratio.is_open]
    lost = [each for each in compared if each.ratio.high < 1]
    first, every = len(compared) - len(lost) - len(unclear), len(compared)
    said = f"Where a library wins: {'; '.join(_by_task(lost, compared))}. " if lost else ""
    which = f"all {every}" if first == every else f"{first} of {every}"
    said += f"Ours are first in {which} comparisons with libraries"
    if unclear:
        tasks = formats.listing(dict.fromkeys(task(each.ours) for each in unclear))
        said += f"; inconclusive in {len(unclear)} ({tasks})"
    return f"{said}.{short}"


def _by_task(lost: Sequence[Comparison], compared: Sequence[Comparison]) -> list[str]:
    """Say which libraries win each task, on how many inputs, and by how much."""
    counts = Counter(task(each.ours) for each in compared)
    said = []
    for name, own in grouped(lost, lambda each: task(each.ours)).items():
        times = [1 / each.ratio.value for each in own]
        rivals = formats.listing(dict.fromkeys(each.rival.subject.algorithm for each in own))
        said.append(
            f"in \u201c{name}\u201d {rivals} on {len(own)} of {counts[name]} inputs,"
            f" where the best of ours takes {formats.span(times)} times as long"
        )
    return said


def section(searches: Searches, slug: str) -> Section:
    """Return what each library takes beside the best of ours."""
    return Section(title="Ours and libraries", figures=draw_all([chart(searches, slug)]))


def equal_work(searches: Searches) -> Section:
    """Return all that was timed on each task, ours and theirs, and what each library does."""
    tables = [_table(searches, task) for task in searches.tasks if searches.chosen(task)]
    tables += [habits] if (habits := _habits(searches)).rows else []
    return Section(title="Equal work", tables=tables)


def chart(searches: Searches, slug: str) -> Chart | None:
    """Draw the time of each library over that of the best of ours, a panel for each task."""

    def over_ours(race: Race, cell: Cell) -> Point | None:
        ours = searches.ours(race)
        if not ours or cell.subject.algorithm not in searches.rivals:
            return None
        ratio = cell.over(ours[0])
        return Point(cell.place.particles or 0, ratio.value, ratio.low, ratio.high, cell.told)

    what = "Library over the best of ours"
    panels = []
    for name in searches.tasks:
        per_cell = searches.usual_per_cell(name)
        races = searches.usual_races(name, per_cell=per_cell)
        by_place = {race[0].place: race for race in races}
        lines = lines_over(
            searches,
            [(race[0].place.particles or 0, race) for race in races],
            lambda _, cell, by_place=by_place: over_ours(by_place[cell.place], cell),  # type: ignore[misc]
        )
        panels.append(panel(f"{name}, {AXES['per_cell'].say(per_cell)}", lines, what, "times"))
    return line_chart(
        f"{slug}-libraries",
        "Libraries against the best of ours",
        "Above the dotted line ours are faster.",
        Axis("particles", "size"),
        Axis("time over that of the best of ours", "number"),
        panels,
        reference=1,
    )


def _where(places: Sequence[Place], *names: str) -> str:
    """Say where some inputs lie along some axes, and which share of the particles moved."""
    shares = [100 * share for p in places if (share := moved_share(p)) is not None]
    moved = f"{formats.span(shares)} % moved" if shares else ""
    counted = f" ({len(places)} inputs)" if len(places) > 1 else ""
    return ", ".join(filter(None, (between(places, names), moved))) + counted


# A subject's cell and record on each of some inputs; None where it was not tried.
Tried = Sequence[tuple[Cell, Record] | None]


def _table(searches: Searches, task: str) -> Table:
    places = searches.chosen(task)
    found: dict[Subject, list[tuple[Cell, Record] | None]] = {}
    for index, place in enumerate(places):
        for cell, record in searches.at(task, place):
            found.setdefault(cell.subject, [None] * len(places))[index] = (cell, record)
    best = [next(iter(searches.ours(searches.race(task, place))), None) for place in places]
    rows = [
        _row(searches, subject, tried, best)
        for subject, tried in sorted(found.items(), key=lambda each: _last(each[1]))
    ]
    rest = _where(places[-1:], "per_cell", "distribution", "order")
    return Table(
        f"{task.capitalize()} ({rest})",
        ["Algorithm",
         *(f"{AXES['particles'].write(place.particles)}: {what}" for place in places
           for what in ("median, ms", "over ours")),
         "Library", "First call, ms", "Peak memory"],
        rows,
        notes=[
            *([_BUILDS] if task == "build" else []),
            *_reasons(searches, found),
            "Graph: the same replayed from a CUDA graph. Over ours: time over that of the best of"
            " ours, both launched from the host; below 1 the library is faster. First call: what a"
            " process pays first, mostly compilation. Peak memory: at the last size.",
        ],
    )  # fmt: skip


def _reasons(searches: Searches, found: Mapping[Subject, Tried]) -> list[str]:
    """Say why some have no time, those with one reason in one sentence."""
    why = [
        (_reason(searches, subject, each[1]), _label(searches, subject))
        for subject, tried in found.items()
        for each in tried
        if each is not None and each[1]["status"] != "ok"
    ]
    return [
        f"{formats.listing(dict.fromkeys(name for _, name in own))}: {reason}."
        for reason, own in grouped(why, lambda pair: pair[0]).items()
    ]


def _reason(searches: Searches, subject: Subject, record: Record) -> str:
    """Say why there is no time: not what a sweep asks for, of what was timed in another."""
    places = searches.timed_at(subject)
    if record["status"] == "skipped" and str(record["reason"]).startswith("needs ") and places:
        return f"not run on these inputs; timed at {_where(places, 'particles', 'per_cell')}"
    return f"{_NOT_TIMED[record['status']]}: {record['reason']}"


def _row(searches: Searches, subject: Subject, tried: Tried, best: Sequence[Cell | None]) -> Row:
    items: list[Item] = []
    for each, own in zip(tried, best, strict=True):
        items += [NOTHING, NOTHING] if each is None else _times_of(*each, own)
    last, record = [each for each in tried if each is not None][-1]
    name = subject.algorithm
    has_time = any(each is not None and each[1]["status"] == "ok" for each in tried)
    other = formats.DASH if name in searches.rivals or not has_time else "ours"
    calls = [r["first_call_ms"] for r in searches.run.records if r["algorithm"] == name]
    # The longest of the run: other forms find done what one did first.
    longest = max((ms for ms in calls if ms is not None), default=None)
    memory = last.modes[record["mode"]].memory_bytes
    items += [
        Item(record["library"] or other, "words"),
        Item(formats.significant(longest)) if longest is not None and has_time else NOTHING,
        Item(formats.size(memory)) if memory else NOTHING,
    ]
    return Row(_label(searches, subject), items)


def _times_of(cell: Cell, record: Record, own: Cell | None) -> list[Item]:
    """Return a time, and what it is over that of the best of ours."""
    if record["status"] != "ok":
        return [Item(_NOT_TIMED[record["status"]], "none"), NOTHING]
    replayed = cell.modes["graph"] if cell.is_timed("graph") else None
    cell = cell.modes[record["mode"]]
    detail = " to ".join(map(formats.significant, cell.interval_ms))
    if replayed:
        detail += f"; graph {formats.significant(replayed.median_ms)}"
    median = Item(formats.significant(cell.median_ms), detail=detail)
    if own is None:
        return [median, NOTHING]
    if cell.subject == own.subject:
        return [median, Item("1", detail="best of ours")]
    ratio = cell.over(own)
    text, low, high = map(formats.significant, (ratio.value, ratio.low, ratio.high))
    return [median, Item(text, detail=f"{low} to {high}", strong=ratio.high < 1)]


def _label(searches: Searches, subject: Subject) -> str:
    """Name a subject within the table of its task, which its form would only repeat."""
    label = searches.run.labels[subject]
    return label.replace(f" {subject.form}", "") if subject.form in TASKS else label


def _last(tried: Tried) -> tuple[int, float]:
    """Sort by the time at the last size; what is wrong, failed or did not run comes last."""
    known = [each[1] for each in tried if each is not None]
    times = [record["median_ms"] for record in known if record["status"] == "ok"]
    return ("ok", "wrong", "failed", "skipped").index(known[-1]["status"]), (times or [0.0])[-1]


def _habits(searches: Searches) -> Table:
    """Return what each says that it does in cases on which libraries differ.

    Texts that differ in numbers alone, which may be those of an input, are one: the first.
    """

    def said(cell: Cell) -> tuple[str, ...]:
        return tuple(str(cell.reported.get(habit, "")) for habit in HABITS)

    def key(cell: Cell) -> tuple[str, ...]:
        name = f"{cell.subject.algorithm} ({cell.record['library'] or 'ours'})"
        return name, *(_NUMBER.sub("0", text) for text in said(cell))

    found = grouped((cell for cell in searches.run.cells.values() if any(said(cell))), key)
    names = [name for name, *_ in found]
    rows = []
    for (name, *_), cells in found.items():
        forms = formats.listing(dict.fromkeys(cell.subject.form for cell in cells))
        items = [Item(text or formats.DASH, "words") for text in said(cells[0])]
        rows.append(Row(name if names.count(name) == 1 else f"{name}, {forms}", items))
    columns = ["Algorithm", *HABITS.values()]
    return Table("What each does where libraries differ", columns, rows)
