"""What a report says and draws of neighbour searches over their regimes: who wins where."""

from __future__ import annotations

from typing import Any

from gpubench.core.tasks import LAUNCHES_MS, LAUNCHES_PARTICLES, may_be_launches
from gpubench.evidence.crossover import front
from gpubench.report import crossovers, formats, incremental_updates, libraries, maps, time_steps
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, Place, StudyRun
from gpubench.report.figures import (
    Axis,
    Chart,
    Line,
    Panel,
    describe,
    line_chart,
    scatter,
)
from gpubench.report.pages import Section
from gpubench.report.rankings import (
    MOST_LINES,
    Field,
    lines_over,
)
from gpubench.report.vega import FigurePart, draw_all

_GREY = 5  # index of a colour


def tells(run: StudyRun) -> bool:
    """Say whether a study is one that this module tells of."""
    return run.study.views is not None


def begins_with_libraries(run: StudyRun) -> bool:
    """Say whether a study's page begins with libraries, not with maps."""
    return run.study.views is not None and run.study.views.first == "libraries"


def sentences(run: StudyRun) -> list[str]:
    """Return what was found, one statement a string: first of all whether a rival wins."""
    field = Field.of(run)
    return [
        libraries.verdict(field),
        *libraries.wrong(field),
        *_launches(field),
    ]


def gist(run: StudyRun) -> str:
    """Return the first of these and what is wrong, for the front page."""
    field = Field.of(run)
    wrong = {r["algorithm"] for r in run.records if r["status"] == "wrong"}
    said = f"Wrong on some inputs: {formats.listing(sorted(wrong))}." if wrong else ""
    return " ".join(filter(None, (libraries.verdict(field), said)))


def sections(run: StudyRun, slug: str) -> list[Section]:
    """Return what the study's page shows, as far as there are records for it."""
    field = Field.of(run)
    crossed = [pair for task in field.tasks for pair in crossovers.pairs(field, task)]
    beside = libraries.section(field)
    memory, share = _memory(field, slug), _copy_share(field, slug)
    moved = [incremental_updates.chart(field, slug), incremental_updates.ratio_chart(field, slug)]
    resorts = incremental_updates.table(field)
    steps = time_steps.charts(run, slug)
    crossing_tables = [
        table
        for task in field.tasks
        for table in [crossovers.table([pair for pair in crossed if pair.task == task], task)]
        if table is not None
    ]
    found = [
        Section("The fastest, input by input", figures=_maps(field, slug)),
        Section(
            "Where one overtakes another",
            figures=draw_all(crossovers.charts(field, slug, crossed)),
            folded=crossing_tables,
        ),
        Section(
            "Rebuild, re-sort, or a skin",
            time_steps.sentences(run),
            tables=[resorts] if resorts else [],
            figures=draw_all([chart for chart in (*moved, *steps) if chart is not None]),
        ),
        Section("Time against memory", figures=draw_all(memory)),
        Section("Share of the bandwidth", figures=draw_all([share] if share else [])),
    ]
    if begins_with_libraries(run):
        found = [beside, *found, libraries.equal_work(field)]
    else:
        found.append(beside)
    return [each for each in found if each.figures or each.tables or each.folded]


def _maps(field: Field, slug: str) -> list[FigurePart]:
    found = (maps.figure(field, task, slug) for task in field.tasks)
    return [figure for figure in found if figure is not None]


def win_rows(run: StudyRun) -> list[dict[str, Any]]:
    """Return the winner of each task and input, for the CSV of the maps."""
    return [
        {
            "task": race.task,
            **libraries.place_columns(race.place),
            "winner": race.winner.subject.algorithm,
            "winner_form": race.winner.subject.form,
            "winner_median_ms": race.winner.median_ms,
            "runner_up": race.cells[1].subject.algorithm if margin else None,
            "runner_up_form": race.cells[1].subject.form if margin else None,
            "margin": margin.value if margin else None,
            "margin_low": margin.low if margin else None,
            "margin_high": margin.high if margin else None,
            "cannot_tell": race.is_open,
            "timed": len(race.cells),
            "not_timed_but_might_win": "; ".join(field.missing(race)) or None,
        }
        for field in [Field.of(run)]
        for race in field.races
        for margin in [race.margin]
    ]


def _launches(field: Field) -> list[str]:
    """Say which times a GPU has little to do with."""
    short = sum(
        race.winner.headline["device"] == "cuda"
        and may_be_launches(race.place.count, race.winner.median_ms)
        for race in field.races
    )
    if not short:
        return []
    return [
        f"In {short} of {len(field.races)} races of up to {formats.power(LAUNCHES_PARTICLES)}"
        f" particles the fastest takes less than {LAUNCHES_MS:g} ms, which may be mostly launches"
        " from Python: from a graph, or from C++, another may be faster."
    ]


# Memory and bandwidth.


def _memory(field: Field, slug: str) -> list[Chart]:
    panels = [
        panel
        for task in field.tasks
        for place in field.chosen(task)
        for panel in [_memory_panel(field, task, place)]
        if panel is not None
    ]
    chart = scatter(
        f"{slug}-memory",
        "Time against memory",
        "Lower and further left is better. Filled, on the dashed line: none is both faster and"
        " smaller. Memory is the peak on the device where it is known, else what was allocated.",
        Axis("memory, MB", "measured"),
        Axis("median time, ms", "number"),
        panels,
    )
    return [chart] if chart else []


def memory_bytes(cell: Cell) -> int | None:
    """Return the most memory on the device, or else what was allocated; None if unknown."""
    record = cell.headline
    found: int | None = record["workspace_bytes"]
    if record["peak_bytes"] is not None:
        found = record["peak_bytes"]
    return found


def _memory_panel(field: Field, task: str, place: Place) -> Panel | None:
    race = next(r for r in field.races if r.task == task and r.place == place)
    known = [cell for cell in race.cells if memory_bytes(cell)][:MOST_LINES]
    if len(known) < 2:
        return None
    points = [((memory_bytes(cell) or 0) / 1e6, cell.median_ms) for cell in known]
    best = front(points)
    lines = [
        Line(
            cell.subject.algorithm, [x], [y], None, None,
            field.algorithms.index(cell.subject.algorithm), 0 if index in best else 1,
        )
        for index, (cell, (x, y)) in enumerate(zip(known, points, strict=True))
    ]  # fmt: skip
    steps = [points[best[0]]]
    for x, y in (points[index] for index in best[1:]):
        steps += [(x, steps[-1][1]), (x, y)]
    border = Line("", [x for x, _ in steps], [y for _, y in steps], None, None, _GREY, 1, False)
    title = f"{task}, {libraries.where([place], libraries.SHORT)}"
    names = formats.listing(known[index].subject.algorithm for index in best)
    words = f"Time against memory, {title}. On the front: {names}."
    return Panel(title, [border, *lines] if len(best) > 1 else lines, words)


def _copy_share(field: Field, slug: str) -> Chart | None:
    panels = []
    for task in field.tasks:
        if task == "update":
            continue
        races = field.usual_races(task, per_cell=field.usual_per_cell(task))
        lines = lines_over(
            field,
            [(race.place.particles or 0, race) for race in races],
            lambda cell: None if cell.copy_share is None else 100 * cell.copy_share,
        )
        title = f"{task}, {AXES['per_cell'].say(field.usual_per_cell(task))}"
        words = describe("Share of the copy bandwidth", title, lines, "%")
        panels.append(Panel(title, lines, words))
    return line_chart(
        f"{slug}-bandwidth",
        "Share of the copy bandwidth",
        "Least traffic over time, as a share of the measured bandwidth of a copy (dotted); data in"
        " a cache can go above.",
        Axis("particles", "size"),
        Axis("% of copy bandwidth", "number"),
        panels,
        reference=100,
    )
