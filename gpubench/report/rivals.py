"""What a report says of libraries of others beside ours: who wins, by how much, at what price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpubench.contracts import TASKS
from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, Place, Record, Subject
from gpubench.report.crossings import Ratio
from gpubench.report.parts import Section
from gpubench.report.races import Comparison, Field, moved_share, timed
from gpubench.report.tables import NOTHING, Item, Row, Table

SHORT = ("particles", "per_cell")  # axes that a sentence has room for
HABITS = ("overflow", "wrapping", "order", "self_pairs", "ties")  # of an outcome, in words
_WHERE = ("particles", "per_cell", "moved", "distribution", "order")
_MOST_LOSSES = 3  # that a sentence tells one by one
_NOT_TIMED = {"wrong": "wrong", "failed": "failed", "skipped": "not run"}


def verdict(field: Field) -> str:
    """Say where a rival wins, or that ours are first; computed from all that can be compared."""
    compared, short = field.comparisons(), _too_short(field)
    if not compared:
        return (
            "No library of others was timed beside ours here, so nothing is said of who is first."
            f"{short}"
        )
    lost = [each for each in compared if each.ratio.high < 1]
    unclear = [each for each in compared if each.ratio.is_open]
    first = len(compared) - len(lost) - len(unclear)
    if lost:
        parts = _in_full(field) if len(_losses(field)) <= _MOST_LOSSES else _by_task(field)
        said = f"Where a rival wins: {'; '.join(parts)}. Ours are first in {first} of"
        said += f" {len(compared)} comparisons"
    elif unclear:
        said = f"No rival wins. Ours are first in {first} of {len(compared)} comparisons"
    else:
        return f"Ours are first in all {len(compared)} comparisons with libraries of others.{short}"
    if unclear:
        tasks = formats.listing(dict.fromkeys(each.race.task for each in unclear))
        said += f"; in {len(unclear)} it cannot be told ({tasks})"
    return f"{said}.{short}"


def _too_short(field: Field) -> str:
    """Say how many times were left out of all comparisons; empty without any."""
    if not field.too_short:
        return ""
    why = "as too short for the clock, since their 95 % intervals begin at 0"
    return f" Times left out {why}: {field.too_short}."


def _losses(field: Field) -> dict[tuple[str, str], list[Comparison]]:
    """Return the comparisons that a rival wins, by task and rival."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for each in field.comparisons():
        if each.ratio.high < 1:
            groups.setdefault((each.race.task, each.rival.subject.algorithm), []).append(each)
    return groups


def _in_full(field: Field) -> list[str]:
    return [
        f"{rival} in {quoted(task)} at {where([each.race.place for each in own], SHORT)},"
        f" where the best of ours takes {_times([_turned(each.ratio) for each in own])} as long"
        for (task, rival), own in _losses(field).items()
    ]


def _by_task(field: Field) -> list[str]:
    counts = Counter(each.race.task for each in field.comparisons())
    groups: dict[str, list[Comparison]] = {}
    for (task, _), own in _losses(field).items():
        groups.setdefault(task, []).extend(own)
    return [
        f"in {quoted(task)} {formats.listing(names)} on {len(own)} of {counts[task]} inputs,"
        f" where the best of ours takes {_times([_turned(each.ratio) for each in own])} as long"
        for task, own in groups.items()
        for names in [dict.fromkeys(each.rival.subject.algorithm for each in own)]
    ]


def wrong(field: Field) -> list[str]:
    """Name each algorithm that gave a wrong answer, with the reason of the first."""
    found: dict[str, list[Record]] = {}
    for record in field.run.records:
        if record["status"] == "wrong":
            name = f"{record['algorithm']} {record['form']}"
            found.setdefault(name, []).append(record)
    return [
        f"{name} is wrong on {len(records)} {'input' if len(records) == 1 else 'inputs'}:"
        f" {records[0]['reason']}."
        for name, records in found.items()
    ]


def section(field: Field) -> Section:
    """Return the tables of ours and theirs: one for each task, one of what each does."""
    tables = [_table(field, task) for task in field.tasks if field.chosen(task)]
    losses, habits = _losses_table(field), _habits(field)
    return Section(
        "Ours and libraries of others",
        [
            "Only equal work stands in one table: all in it start from the same positions and end"
            " with the same answer, which is held against the oracle before and after timing."
        ],
        [
            *([losses] if len(losses.rows) > 1 else []),
            *tables,
            *([habits] if habits.rows else []),
        ],
    )


def _losses_table(field: Field) -> Table:
    """Return where rivals win, a row for each task and rival."""
    of_task = Counter(each.race.task for each in field.comparisons())
    rows = []
    for (task, rival), own in _losses(field).items():
        places = [each.race.place for each in own]
        items = [Item(rival, "name"), Item(f"{len(own)} of {of_task[task]}")]
        items += [Item(_ends(places, axis) or formats.DASH, "words") for axis in _WHERE]
        items.append(Item(formats.span([1 / each.ratio.value for each in own])))
        rows.append(Row(task, items))
    heads = [AXES[axis].heading for axis in _WHERE]
    heads[_WHERE.index("moved")] += ", %"
    columns = ["Task", "Rival", "Inputs", *heads, "Best of ours over rival"]
    return Table("Where a rival wins", columns, rows)


def rows(field: Field) -> list[dict[str, Any]]:
    """Return each comparison of ours and a rival, for the CSV."""
    return [
        {
            "task": each.race.task,
            **place_columns(each.race.place),
            "ours": each.ours.subject.algorithm,
            "ours_form": each.ours.subject.form,
            "ours_median_ms": each.ours.median_ms,
            "rival": each.rival.subject.algorithm,
            "rival_form": each.rival.subject.form,
            "rival_median_ms": each.rival.median_ms,
            "library": each.rival.headline["library"],
            "rival_over_ours": each.ratio.value,
            "ratio_low": each.ratio.low,
            "ratio_high": each.ratio.high,
        }
        for each in field.comparisons()
    ]


def place_columns(place: Place) -> dict[str, Any]:
    """Return the columns that tell an input of a search from others."""
    return {
        "particles": place.particles,
        "per_cell": place.per_cell,
        "distribution": place.distribution,
        "order": place.order,
        "moved_share": moved_share(place),
        "destination": place.destination,
    }


def where(places: Sequence[Place], axes: Sequence[str] = _WHERE) -> str:
    """Say where some inputs lie along some axes: the ends of each, or the names."""
    phrases = {name: AXES[name].phrase for name in _WHERE} | {"moved": "{} % moved"}
    parts = [
        phrases[name].format(ends)
        for name in _WHERE
        if (name in axes or name == "moved") and (ends := _ends(places, name))
    ]
    counted = f" ({len(places)} inputs)" if len(places) > 1 else ""
    return f"{', '.join(parts)}{counted}"


def _ends(places: Sequence[Place], axis: str) -> str:
    """Write the least and greatest value along an axis, or all names; empty without any."""
    if axis == "moved":
        shares = sorted({100 * share for p in places if (share := moved_share(p)) is not None})
        return " to ".join(dict.fromkeys(f"{share:.3g}" for share in (*shares[:1], *shares[-1:])))
    values = AXES[axis].order([v for p in places if (v := getattr(p, axis)) is not None])
    if axis not in SHORT:
        return formats.listing(values) if values else ""
    values = sorted(values)
    written = (AXES[axis].write(value) for value in (*values[:1], *values[-1:]))
    return " to ".join(dict.fromkeys(written))


def interval(ratio: Ratio) -> str:
    """Write the ends of a ratio's interval."""
    return f"{formats.significant(ratio.low)} to {formats.significant(ratio.high)}"


def quoted(task: str) -> str:
    """Write the name of a task in a sentence."""
    return f"\N{LEFT DOUBLE QUOTATION MARK}{task}\N{RIGHT DOUBLE QUOTATION MARK}"


def _turned(ratio: Ratio) -> Ratio:
    return Ratio(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)


def _times(ratios: Sequence[Ratio]) -> str:
    if len(ratios) == 1:
        return f"{formats.significant(ratios[0].value)} times ({interval(ratios[0])})"
    return f"{formats.span([ratio.value for ratio in ratios])} times"


def _table(field: Field, task: str) -> Table:
    places = field.chosen(task)
    found: dict[Subject, list[tuple[Cell, Record] | None]] = {}
    for index, place in enumerate(places):
        for cell, record in field.at(task, place):
            found.setdefault(cell.subject, [None] * len(places))[index] = (cell, record)
    best = [_best_of_ours(field, task, place) for place in places]
    columns, groups = ["Algorithm"], []
    for place in places:
        columns += ["Median, ms", "Over ours"]
        groups.append((AXES["particles"].say(place.particles), 2))
    columns += ["Library", "First call, ms", "Peak memory"]
    groups.append(("", 3))
    rows = [
        _row(field, subject, tried, best)
        for subject, tried in sorted(found.items(), key=lambda each: _rank(each[1]))
    ]
    rest = where(places[-1:]).partition(", ")[2]
    return Table(
        f"Equal work only, {task}: {TASKS[task]} ({rest})",
        columns,
        rows,
        notes=[
            *_reasons(field, found),
            "Over ours: time over that of the best of ours, with the interval that the 95 %"
            " intervals of both medians allow; below 1 a library is faster. First call:"
            " making it and its first launch, compilation included. Peak memory: of the device at"
            " the last size, the library's own pool included where it has one.",
        ],
        groups=groups,
    )


def _reasons(
    field: Field, found: Mapping[Subject, Sequence[tuple[Cell, Record] | None]]
) -> list[str]:
    """Say why some have no time, those with one reason in one sentence."""
    named: dict[str, dict[str, None]] = {}
    for subject, tried in found.items():
        for record in (each[1] for each in tried if each is not None):
            if record["status"] != "ok":
                reason = f"{_NOT_TIMED[record['status']]}: {record['reason']}"
                named.setdefault(reason, {})[_label(field, subject)] = None
    return [f"{formats.listing(names)}: {reason}." for reason, names in named.items()]


def _row(
    field: Field,
    subject: Subject,
    tried: Sequence[tuple[Cell, Record] | None],
    best: Sequence[Cell | None],
) -> Row:
    items: list[Item] = []
    records = [each[1] for each in tried if each is not None]
    for each, own in zip(tried, best, strict=True):
        if each is None:
            items += [NOTHING, NOTHING]
            continue
        cell, record = each
        if record["status"] != "ok":
            items += [Item(_NOT_TIMED[record["status"]], "none"), NOTHING]
            continue
        cell = cell.in_mode(record["mode"])
        low, high = cell.interval_ms
        within = f"{formats.significant(low)} to {formats.significant(high)}"
        items.append(Item(formats.significant(cell.median_ms), detail=within))
        items.append(NOTHING if own is None else _ratio(cell, own))
    last = records[-1]
    first_call, library = last["first_call_ms"], last["library"]
    is_rival = subject.algorithm in field.rivals
    memory = last["workspace_bytes"] if last["peak_bytes"] is None else last["peak_bytes"]
    items += [
        Item(library or (formats.DASH if is_rival or not _any_ok(records) else "ours"), "name"),
        NOTHING if first_call is None else Item(formats.significant(first_call)),
        Item(formats.size(memory)) if memory else NOTHING,
    ]
    return Row(_label(field, subject), items)


def _label(field: Field, subject: Subject) -> str:
    """Name a subject within the table of its task, which its form would only repeat."""
    label = field.run.labels[subject]
    return label.replace(f" {subject.form}", "") if subject.form in TASKS else label


def _ratio(cell: Cell, own: Cell) -> Item:
    if cell.subject == own.subject:
        return Item("1", detail="best of ours")
    ratio = timed(cell).over(timed(own))
    return Item(formats.significant(ratio.value), detail=interval(ratio), strong=ratio.high < 1)


def _any_ok(records: Sequence[Record]) -> bool:
    return any(record["status"] == "ok" for record in records)


def _rank(tried: Sequence[tuple[Cell, Record] | None]) -> tuple[int, float]:
    """Sort by the time at the last size; what is wrong, failed or did not run comes last."""
    known = [each[1] for each in tried if each is not None]
    times = [record["median_ms"] for record in known if record["status"] == "ok"]
    return ("ok", "wrong", "failed", "skipped").index(known[-1]["status"]), (times or [0.0])[-1]


def _best_of_ours(field: Field, task: str, place: Place) -> Cell | None:
    race = next((r for r in field.races if r.task == task and r.place == place), None)
    own = [c for c in race.cells if c.subject.algorithm not in field.rivals] if race else []
    return own[0] if own else None


def _habits(field: Field) -> Table:
    """Return what each says that it does in cases on which libraries differ."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for cell in field.run.cells.values():
        outcome = cell.headline["outcome"] or {}
        said = tuple(str(outcome[habit]) if habit in outcome else "" for habit in HABITS)
        if any(said):
            library = cell.headline["library"] or "ours"
            key = (f"{cell.subject.algorithm} ({library})", *said)
            found.setdefault(key, {})[cell.subject.form] = None
    names = [key[0] for key in found]
    rows = [
        Row(
            key[0] if names.count(key[0]) == 1 else f"{key[0]}, {formats.listing(forms)}",
            [Item(said, "words") if said else Item(formats.DASH, "words") for said in key[1:]],
        )
        for key, forms in found.items()
    ]
    columns = ["Algorithm", "Overflow", "Wrapping", "Order", "Self-pairs", "Ties"]
    return Table("What each does where libraries differ", columns, rows)
