"""Report pages of neighbour searches: recommendations, maps of the fastest, libraries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gpubench.report import formats, maps, tables, verdict
from gpubench.report.axes import AXES, describe, sizes, varying
from gpubench.report.cells import grouped
from gpubench.report.figures import Chart, Curve, Point, Scale, panel
from gpubench.report.machines import StudyRun
from gpubench.report.pages import NOTHING, Item, Row, Section, Table, number, words
from gpubench.report.rankings import Contest, Searches, question
from gpubench.report.study_charts import charts
from gpubench.report.vega import draw_all
from gpubench.report.verdict import Choice, Race, choose

_USUAL_PER_CELL = 4  # occupancy shown in figures, if it was measured
_BALL = 4 * math.pi / 3  # the volume of a ball whose radius is a cell's edge


def answer(searches: Searches, task: str) -> tuple[Choice, Table] | None:
    """Return the best choice for a task on inputs without moved particles, and a table of costs."""
    races = [race for race in searches.by_question.get(task, []) if race[0].place.moved is None]
    best = choose(races, lambda cell: cell.subject.algorithm) if races else None
    if best is None:
        return None
    rows = []
    for rule in best.rules:
        costs = (f"{cost:.2f}" for cost in np.quantile(rule.costs, (0.5, 0.95, 1.0)))
        items = [Item(cost, strong=rule is best.rules[0]) for cost in costs]
        rows.append(Row(f"{rule.first} alone" if rule.up_to is None else "this rule", items))
    inputs = f"{len(best.rules[0].costs)} inputs"
    caption = f"Time of a choice over that of the fastest search, on {inputs}"
    return best, Table(caption, ["Choice", "median", "95th percentile", "worst"], rows)


def gist(searches: Searches) -> str:
    """Recommend an algorithm for each question, with its risk; list wrong answers."""
    views = searches.run.study.views
    found = {name: answer(searches, name) for name in searches.by_question}
    first = [name for name in found if views and name in views.answers] or list(found)
    able = {name.replace(": ", " of "): choice for name in first if (choice := found[name])}
    parts = {name: f"{choice.take}: {choice.risk}" for name, (choice, _) in able.items()}
    said = verdict.told(parts, verdict.wrong(searches.run)) if parts else verdict.gist(searches.run)
    return f"{_smallest(searches)} {said}".strip() if views and views.first == "libraries" else said


def sections(searches: Searches, slug: str) -> list[Section]:
    """Return the sections of the study's page."""
    drawn = draw_all([libraries_chart(searches, slug)])
    said = libraries_verdict(searches)
    beside = Section(title="Ours and libraries", figures=drawn, sentences=[said])
    views = searches.run.study.views
    if views is not None and views.first == "libraries":
        work = []
        for name in searches.by_question:
            found, notes = tables.subjects(searches.of(name), about=f"{name}, ")
            work.append(Section(title=f"Equal work: {name}", tables=found, notes=notes))
        title = "The lead over the fastest library, input by input"
        led = Section(title=title, tables=leads(searches))
        told = (*tables.outcomes(searches.run), tables.hardware(searches.run))
        last = Section(tables=[*told, libraries_table(searches)])
        return [beside, led, *work, _launched(searches), last]
    title = f"The fastest {searches.run.clock}, input by input"
    tiled = filter(None, (maps.figure(searches, name, slug) for name in searches.by_question))
    moved = searches.of("update")
    steps = searches.run.only(lambda cell: cell.place.workload is not None)
    stepped, varied = ("time_step", "skin"), ("contrast", "radii")
    uneven = searches.run.only(lambda cell: any(getattr(cell.place, n) for n in varied))
    return [
        Section(title=title, figures=list(tiled)),
        _along(uneven, "Where densities or radii vary", f"{slug}-uneven", varied),
        _along(moved, "Where particles have moved: update or rebuild", f"{slug}-moved", ("moved",)),
        _along(steps, "Whole steps: rebuild, re-sort, or a skin", f"{slug}-steps", stepped),
        beside,
        _launched(searches),
    ]


def _smallest(searches: Searches) -> str:
    """Say where our best leads the fastest library's best method by least, or is behind most."""
    if not (found := searches.comparisons(searches.rivals)):
        return ""
    least = min(found, key=lambda each: each.ratio.value)
    against = f"{least.rival.subject.label}, {least.rival.how}"
    return f"The {_said(found)} is over {against}: the best method of the fastest library."


def leads(searches: Searches) -> list[Table]:
    """Return tables of our lead, by particles and neighbours, over each input's fastest library.

    Each cell names the library's best method there; the notes say what the methods write besides.
    """
    found, made = searches.comparisons(searches.rivals), []
    told = [axis for axis in varying(each.ours.place for each in found) if axis not in sizes()]
    marks, note = tables.modes(each.rival for each in found)
    writes = {e.rival.subject.label: e.rival.reported.get("writes") for e in found}
    beside = [f"{name} also writes {what}." for name, what in sorted(writes.items()) if what]
    groups = grouped(found, lambda e: (question(e.ours), describe(e.ours.place, told)))
    for about, own in groups.items():
        at = {(each.ours.place.count, each.ours.place.per_cell): each for each in own}
        down, across = (sorted({*values}) for values in zip(*at, strict=True))
        heads = [f"{_BALL * n:.2g} neighbours, {AXES['per_cell'].say(n)}" for n in across]
        lines = {size: [_led(at.get((size, n)), marks) for n in across] for size in down}
        rows = [Row(AXES["particles"].write(size), line) for size, line in lines.items()]
        caption = f"{', '.join(filter(None, about))}: times as fast as the fastest library"
        made.append(Table(caption, [AXES["particles"].heading, *heads], rows, [note, *beside]))
    return made


def _led(each: Contest | None, marks: Mapping[str, str]) -> Item:
    if each is None:
        return NOTHING
    detail = each.rival.subject.label + (", inconclusive" if each.ratio.is_open else "")
    return tables.timed(each.rival, marks, detail, value=each.ratio.value)


def _along(part: StudyRun, title: str, slug: str, axes: Collection[str]) -> Section:
    if not part.timed:
        return Section()
    figures = draw_all(charts(part, slug, axes))
    return Section(title=title, figures=figures, tables=[verdict.overtakings(part, axes)])


def _launched(searches: Searches) -> Section:
    """Return tables of times launched from Python, for the inputs shown in figures."""
    by_name = searches.by_question.items()
    usual = {(name, race[0].place) for name, races in by_name for race in _usual(races)[1]}
    shown = Searches(searches.run.only(lambda cell: (question(cell), cell.place) in usual))
    found: list[Table] = []
    notes: list[str] = []
    for name in searches.by_question:
        made, notes = tables.launched(shown.of(name), f"{name}, ")
        found += made
    return Section(title=tables.LAUNCHED, tables=found, notes=notes if found else ())


def libraries_verdict(searches: Searches) -> str:
    """Say where libraries, or our query over a library's sort, beat our searches, if anywhere."""
    sorts = "our query over a library's sort", "our query over the fastest of libraries' sorts"
    said = [*_compared(searches, searches.rivals, "a library", "the fastest library")]
    said += _compared(searches, searches.hybrids, *sorts)
    none = "No library was timed beside ours, so nothing is said of which is first."
    return " ".join(said) or none


def _compared(searches: Searches, names: Collection[str], one: str, best: str) -> Iterator[str]:
    """Yield sentences that compare our algorithms with the named ones, over all common races."""
    compared = searches.comparisons(names)
    if not compared:
        return
    unclear = [each for each in compared if each.ratio.is_open]
    lost = [each for each in compared if each.ratio.high < 1]
    parts = []
    for name, own in grouped(lost, lambda each: question(each.ours)).items():
        rivals = formats.listing(dict.fromkeys(each.rival.subject.algorithm for each in own))
        times = formats.span([1 / each.ratio.value for each in own])
        on = f"{len(own)} of {sum(question(each.ours) == name for each in compared)} inputs"
        longer = f"where the best of ours takes {times} times as long"
        parts.append(f"in \u201c{name}\u201d {rivals} on {on}, {longer}")
    if lost:
        yield f"Where {one} wins: {'; '.join(parts)}."
    first, every = len(compared) - len(lost) - len(unclear), len(compared)
    said = f"Against {best} on each input, ours are first in"
    said += f" {'all' if first == every else f'{first} of'} {every} comparisons"
    by_rival = Counter(each.rival.subject.algorithm for each in compared)
    named = formats.listing(f"{name} in {count}" for name, count in by_rival.most_common())
    how = dict.fromkeys(each.rival.how for each in compared)
    said += f" ({named}; {' or '.join(how)}), behind in {len(lost) or 'none'}"
    if unclear:
        tasks = formats.listing(dict.fromkeys(question(each.ours) for each in unclear))
        said += f", inconclusive in {len(unclear)} ({tasks})"
    if not lost:
        said += f"; {_said(compared)}"
    yield f"{said}."


def _said(compared: Sequence[Contest]) -> str:
    """Write the smallest lead, and where it is."""
    least = min(compared, key=lambda each: each.ratio.value)
    at = describe(least.ours.place, varying(each.ours.place for each in compared))
    parts = question(least.ours), at, "inconclusive" if least.ratio.is_open else ""
    return f"smallest lead {formats.ratio(least.ratio.value)} ({', '.join(filter(None, parts))})"


def libraries_chart(searches: Searches, slug: str) -> Chart:
    """Draw each library's time relative to our fastest algorithm, with a panel per question."""
    what = "Library over the best of ours"
    panels = []
    others = searches.rivals | searches.hybrids
    for name, races in searches.by_question.items():
        title, shown = _usual(races)
        found: dict[tuple[str, str], list[Point]] = {}
        for race in sorted(shown, key=lambda race: race[0].place.count):
            for cell in race if searches.ours(race) else ():
                ratio = cell.over(searches.ours(race)[0])
                if (algorithm := cell.subject.algorithm) in others and ratio is not None:
                    point = Point(cell.place.count, ratio.value, ratio.low, ratio.high, cell.told)
                    is_marked = searches.run.has_graphs and cell.mode != "graph"
                    found.setdefault((algorithm, ", launched" * is_marked), []).append(point)
        index = searches.algorithms.index
        lines = [Curve(f"{name}{mark}", at, index(name)) for (name, mark), at in found.items()]
        panels.append(panel(f"{name}, {title}", lines, what, "times"))
    return Chart(
        f"{slug}-libraries",
        f"Libraries, and our query over their sorts, against the best of ours {searches.run.clock}",
        "Above the dotted line ours are faster.",
        Scale("particles", "size"),
        Scale("time over that of the best of ours", "number"),
        panels,
        reference=1,
    )


def _usual(races: Sequence[Race]) -> tuple[str, list[Race]]:
    """Return the usual occupancy in words, and the races there on the most common kind of input."""
    kinds = grouped(races, lambda race: tuple(race[0].place.kind.values()))
    most: list[Race] = max(kinds.values(), key=len)
    by_per_cell = grouped(most, lambda race: race[0].place.per_cell)
    per_cell = max(by_per_cell, key=lambda n: (n == _USUAL_PER_CELL, len(by_per_cell[n])))
    return AXES["per_cell"].say(per_cell), by_per_cell[per_cell]


def libraries_table(searches: Searches) -> Table:
    """Return the version, memory and first-call time of each library."""
    by_name = grouped(searches.run.timed, lambda cell: cell.subject.algorithm)
    return Table.of(
        "Libraries",
        [own for name, own in by_name.items() if name in searches.rivals | searches.hybrids],
        ("Algorithm", lambda own: own[0].subject.algorithm),
        {
            "Library": lambda own: words(own[0].record.library or formats.DASH),
            "Its part": lambda own: words("its sort" if own[0].library_part else "all"),
            # The longest over all forms: later forms reuse the set-up of the first.
            "First call, ms": lambda own: number(
                max(c.record.first_call_ms or 0 for c in own) or None
            ),
            "Peak memory": lambda own: formats.size(max(cell.memory_bytes or 0 for cell in own)),
        },
        notes=[
            "First call: what a process pays first, mostly compilation. Peak memory: at the largest"
            " input."
        ],
    )
