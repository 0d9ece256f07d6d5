"""What a report says of libraries of others beside ours: who wins, by how much, at what price."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from gpubench.core.tasks import TASKS
from gpubench.evidence.crossover import Ratio
from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, Place, Record, Subject
from gpubench.report.pages import Section
from gpubench.report.rankings import Comparison, Field, Race, moved_share, timed
from gpubench.report.tables import NOTHING, Item, Row, Table

SHORT = ("particles", "per_cell")  # axes that a sentence has room for
HABITS = ("overflow", "wrapping", "order", "self_pairs", "ties")  # of an outcome, in words
_WHERE = ("particles", "per_cell", "moved", "distribution", "order")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_TWINS = "two particles at each place"
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
        verb = "is" if len(unclear) == 1 else "are"
        said += f"; {len(unclear)} {verb} inconclusive ({tasks})"
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
        f"{rival} in {quoted(task)} at {_where_unusual(field, [each.race.place for each in own])},"
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
    """Say of each algorithm that gave a wrong answer on which inputs, and the first reason."""
    found: dict[Subject, list[tuple[Place, Record]]] = {}
    checked: dict[Subject, set[Place]] = {}
    for cell in field.run.cells.values():
        for record in cell.by_mode.values():
            if record["status"] in ("ok", "wrong"):
                checked.setdefault(cell.subject, set()).add(cell.place)
            if record["status"] == "wrong":
                found.setdefault(cell.subject, []).append((cell.place, record))
    said = []
    for subject, each in found.items():
        places = list(dict.fromkeys(place for place, _ in each))
        library = _library(field, subject.algorithm)
        name = f"{subject.algorithm} {subject.form}" + (f" ({library})" if library else "")
        axes: Sequence[str] = _WHERE
        twins = ""
        if all(place.distribution == "coincident" for place in places):
            axes, twins = [axis for axis in _WHERE if axis != "distribution"], f", {_TWINS}"
        on = _phrases(places, axes) + twins
        said.append(
            f"Wrong answer, so no time: {name}, on {len(places)} of {len(checked[subject])} inputs"
            f" ({on}): {each[0][1]['reason']}."
        )
    return said


def section(field: Field) -> Section:
    """Return where libraries win, and what each takes beside the best of ours."""
    found = (_losses_table(field), _summary(field))
    shown = [table for table, least in zip(found, (2, 1), strict=True) if len(table.rows) >= least]
    return Section("Ours and libraries of others", tables=shown)


def equal_work(field: Field) -> Section:
    """Return all that was timed on each task, ours and theirs, and what each library does."""
    tables = [_table(field, task) for task in field.tasks if field.chosen(task)]
    tables += [habits] if (habits := _habits(field)).rows else []
    return Section("Equal work", tables=tables)


def _losses_table(field: Field) -> Table:
    """Return where rivals win, a row for each task and rival; what all have in common above."""
    of_task = Counter(each.race.task for each in field.comparisons())
    losses = _losses(field)
    places = {key: [each.race.place for each in own] for key, own in losses.items()}
    told = [axis for axis in _WHERE if len({_ends(p, axis) for p in places.values()}) > 1]
    rows = []
    for (task, rival), own in losses.items():
        items = [
            Item(rival, "name"),
            Item(formats.span([1 / each.ratio.value for each in own])),
            Item(f"{len(own)} of {of_task[task]}"),
        ]
        items += [Item(_ends(places[task, rival], a) or formats.DASH, "words") for a in told]
        rows.append(Row(task, items))
    common = _phrases(
        [place for own in places.values() for place in own], [a for a in _WHERE if a not in told]
    )
    heads = [AXES[axis].heading + (", %" if axis == "moved" else "") for axis in told]
    columns = ["Task", "Rival", "Best of ours over rival", "Inputs", *heads]
    notes = [f"All of these: {common}."] if common else []
    return Table("Where a rival wins", columns, rows, notes=notes)


def _summary(field: Field) -> Table:
    """Return how many times as long each library takes as the best of ours, by task and size."""
    groups, columns, replayed = [], ["Library"], set()
    found: dict[str, list[Item]] = {}
    races = [
        race
        for task in field.tasks
        for race in map(partial(_race, field, task), field.chosen(task))
        if race is not None and _best(field, race, is_rival=False) is not None
    ]
    names = _ranked_rivals(field, races)
    for race in races:
        own, own_replayed = _best(field, race, is_rival=False), _replayed(field, race)
        for name in names:
            cell, item = race.of(name), NOTHING
            if own is not None and cell is not None:
                ratio = timed(cell).over(timed(own))
                detail = ""
                if own_replayed:
                    other = _replayed(field, race, name)
                    replayed |= {name} if other else set()
                    best = min(own_replayed, default=0.0)
                    detail = formats.significant(min(other, default=cell.median_ms) / best)
                item = Item(formats.significant(ratio.value), detail=detail, strong=ratio.high < 1)
            found.setdefault(name, []).append(item)
        columns.append(formats.power(race.place.particles or 0))
    for task in dict.fromkeys(race.task for race in races):
        own_races = [race for race in races if race.task == task]
        groups.append((f"{task}, particles", len(own_races)))
    rows = [
        Row(f"{name} ({library})" if library else name, items)
        for name, items in found.items()
        for library in [_library(field, name)]
    ]
    note = (
        "Time of the library over that of the best of ours, both launched from the host; bold: the"
        " library is faster."
    )
    if any(item.detail for row in rows for item in row.items):
        note += " Below it: the same with the best of ours replayed from a CUDA graph"
        if replayed:
            verb = "is" if len(replayed) == 1 else "are"
            note += f"; {formats.listing(sorted(replayed))} {verb} replayed as well"
        note += "."
    rest = _phrases([race.place for race in races], _WHERE[1:])
    return Table(
        f"Libraries against the best of ours ({rest})", columns, rows, notes=[note], groups=groups
    )


def _race(field: Field, task: str, place: Place) -> Race | None:
    return next((r for r in field.races if r.task == task and r.place == place), None)


def _best(field: Field, race: Race, *, is_rival: bool) -> Cell | None:
    """Return the fastest of ours in a race, or of the rivals."""
    own = (c for c in race.cells if (c.subject.algorithm in field.rivals) == is_rival)
    return next(own, None)


def _replayed(field: Field, race: Race, name: str | None = None) -> list[float]:
    """Return medians of a race from graphs, milliseconds: of an algorithm, or of all of ours."""
    return [
        float(record["median_ms"])
        for cell, _ in field.at(race.task, race.place)
        for record in [cell.by_mode.get("graph")]
        if record is not None and record["status"] == "ok" and cell.ok
        and (cell.subject.algorithm == name if name else cell.subject.algorithm not in field.rivals)
    ]  # fmt: skip


def _ranked_rivals(field: Field, races: Sequence[Race]) -> list[str]:
    """Return the rivals of some races, by how long they take on average over the best of ours."""
    logarithms: dict[str, list[float]] = {}
    for race in races:
        own = _best(field, race, is_rival=False)
        for cell in race.cells:
            if own is not None and cell.subject.algorithm in field.rivals:
                ratio = cell.median_ms / own.median_ms
                logarithms.setdefault(cell.subject.algorithm, []).append(math.log(ratio))
    return sorted(logarithms, key=lambda name: fmean(logarithms[name]))


def _library(field: Field, algorithm: str) -> str | None:
    """Return name and version of the library that an algorithm calls."""
    return next(
        (
            str(record["library"])
            for record in field.run.records
            if record["algorithm"] == algorithm and record["library"] is not None
        ),
        None,
    )


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
    counted = f" ({len(places)} inputs)" if len(places) > 1 else ""
    return f"{_phrases(places, [a for a in _WHERE if a in axes or a == 'moved'])}{counted}"


def _where_unusual(field: Field, places: Sequence[Place]) -> str:
    """Say in short where some inputs lie, with each axis along which they are not as usual."""
    unusual = [
        axis
        for axis, value in field.usual.items()
        if axis in _WHERE and any(getattr(place, axis) != value for place in places)
    ]
    return where(places, (*SHORT, *unusual))


def _phrases(places: Sequence[Place], axes: Sequence[str]) -> str:
    """Say between which ends inputs lie along each of some axes, as far as they have it."""
    phrases = {name: AXES[name].phrase for name in _WHERE} | {"moved": "{} % moved"}
    return ", ".join(phrases[name].format(ends) for name in axes if (ends := _ends(places, name)))


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
    races = [_race(field, task, place) for place in places]
    best = [_best(field, race, is_rival=False) if race else None for race in races]
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
        f"{task.capitalize()} ({rest})",
        columns,
        rows,
        notes=[
            *(_builds(field, places) if task == "build" else []),
            *_reasons(field, found),
            "Over ours: time over that of the best of ours; below 1 the library is faster. First"
            " call: what a process pays first, mostly compilation. Peak memory: at the last size.",
        ],
        groups=groups,
    )


def _builds(field: Field, places: Sequence[Place]) -> list[str]:
    """Say that what is built differs, and what the fastest to build then takes to count."""
    said = "What is built differs: linked lists in one pass, or sorted particles."
    found: dict[str, list[tuple[Place, Ratio]]] = {}
    for place in places:
        built, counted = _race(field, "build", place), _race(field, "count", place)
        if built is not None and counted is not None:
            name = built.winner.subject.algorithm
            cell = counted.of(name)
            if cell is not None and cell is not counted.winner:
                ratio = timed(cell).over(timed(counted.winner))
                found.setdefault(name, []).append((place, ratio))
    for name, each in found.items():
        ratios = formats.listing(formats.significant(ratio.value) for _, ratio in each)
        sizes = formats.listing(formats.power(place.particles or 0) for place, _ in each)
        said += (
            f" To build and count, {name}, the fastest to build, takes {ratios} times as long as"
            f" the fastest at {sizes} particles."
        )
    return [said]


def _reasons(
    field: Field, found: Mapping[Subject, Sequence[tuple[Cell, Record] | None]]
) -> list[str]:
    """Say why some have no time, those with one reason in one sentence."""
    named: dict[str, dict[str, None]] = {}
    for subject, tried in found.items():
        for record in (each[1] for each in tried if each is not None):
            if record["status"] != "ok":
                reason = _reason(field, subject, record)
                named.setdefault(reason, {})[_label(field, subject)] = None
    return [f"{formats.listing(names)}: {reason}." for reason, names in named.items()]


def _reason(field: Field, subject: Subject, record: Record) -> str:
    """Say why there is no time: not what a sweep asks for, of whoever was timed in another."""
    places = field.timed_at(subject)
    if record["status"] == "skipped" and str(record["reason"]).startswith("needs ") and places:
        return f"not run on these inputs; timed at {where(places, SHORT)}"
    return f"{_NOT_TIMED[record['status']]}: {record['reason']}"


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
    first_call, library = _first_call_ms(field, subject.algorithm), last["library"]
    is_rival = subject.algorithm in field.rivals
    memory = last["workspace_bytes"] if last["peak_bytes"] is None else last["peak_bytes"]
    items += [
        Item(library or (formats.DASH if is_rival or not _any_ok(records) else "ours"), "name"),
        NOTHING
        if first_call is None or not _any_ok(records)
        else Item(formats.significant(first_call)),
        Item(formats.size(memory)) if memory else NOTHING,
    ]
    return Row(_label(field, subject), items)


def _first_call_ms(field: Field, algorithm: str) -> float | None:
    """Return the longest first call in the run; its other forms find done what that one did."""
    known = (
        float(record["first_call_ms"])
        for record in field.run.records
        if record["algorithm"] == algorithm and record["first_call_ms"] is not None
    )
    return max(known, default=None)


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


def _habits(field: Field) -> Table:
    """Return what each says that it does in cases on which libraries differ.

    Texts that differ in numbers alone, which may be those of an input, are one: the first.
    """
    found: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, None]]] = {}
    for cell in field.run.cells.values():
        said = tuple(str(cell.reported.get(habit, "")) for habit in HABITS)
        if any(said):
            library = cell.headline["library"] or "ours"
            name = f"{cell.subject.algorithm} ({library})"
            key = (name, *(_NUMBER.sub("0", text) for text in said))
            found.setdefault(key, (said, {}))[1][cell.subject.form] = None
    names = [name for name, *_ in found]
    rows = [
        Row(
            name if names.count(name) == 1 else f"{name}, {formats.listing(forms)}",
            [Item(text or formats.DASH, "words") for text in said],
        )
        for (name, *_), (said, forms) in found.items()
    ]
    columns = ["Algorithm", "Overflow", "Wrapping", "Order", "Self-pairs", "Ties"]
    return Table("What each does where libraries differ", columns, rows)
