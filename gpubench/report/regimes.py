"""What a report says and draws of neighbour searches over their regimes: what wins where."""

from __future__ import annotations

from gpubench.core.tasks import LAUNCHES_MS, LAUNCHES_PARTICLES, may_be_launches
from gpubench.evidence.crossover import front
from gpubench.report import crossovers, formats, incremental_updates, libraries, maps, time_steps
from gpubench.report.axes import AXES
from gpubench.report.cells import Place
from gpubench.report.figures import (
    BANDWIDTH,
    MOST_LINES,
    Axis,
    Chart,
    Line,
    Panel,
    bandwidth_chart,
    bandwidth_point,
    line_chart,
    panel,
)
from gpubench.report.figures import time_point as timed
from gpubench.report.pages import Section
from gpubench.report.rankings import Searches, lines_over
from gpubench.report.vega import draw_all

_GREY = 5  # index of a colour


def sentences(searches: Searches) -> list[str]:
    """Return what was found, one statement a string: first of all whether a library wins."""
    return [libraries.verdict(searches), *libraries.wrong(searches), *_launches(searches)]


def gist(searches: Searches) -> str:
    """Return the first of these and what is wrong, for the front page."""
    wrong = {r["algorithm"] for r in searches.run.records if r["status"] == "wrong"}
    said = f"Wrong on some inputs: {formats.listing(sorted(wrong))}." if wrong else ""
    return " ".join(filter(None, (libraries.verdict(searches), said)))


def sections(searches: Searches, slug: str) -> list[Section]:
    """Return what the study's page shows, as far as there are records for it.

    A figure comes first, also on a page that begins with libraries.
    """
    run, views = searches.run, searches.run.study.views
    crossed = [pair for task in searches.tasks for pair in crossovers.pairs(searches, task)]
    tiled = [maps.figure(searches, task, slug) for task in searches.tasks]
    moved = [incremental_updates.chart(searches, slug), time_steps.chart(run, slug)]
    resorts = incremental_updates.table(searches)
    found = [
        Section("The fastest, input by input", figures=[drawn for drawn in tiled if drawn]),
        Section(
            "Where one overtakes another",
            figures=draw_all([crossovers.chart(searches, slug, crossed)]),
        ),
        Section(
            "Rebuild, re-sort, or a skin",
            time_steps.sentences(run),
            tables=[resorts] if resorts else [],
            figures=draw_all(moved),
        ),
        Section("Time against memory", figures=draw_all([_memory(searches, slug)])),
        Section("Share of the bandwidth", figures=draw_all([_copy_share(searches, slug)])),
    ]
    beside = libraries.section(searches, slug)
    if views is not None and views.first == "libraries":
        found = [beside, *found, libraries.equal_work(searches)]
    else:
        found.append(beside)
    return found


def _launches(searches: Searches) -> list[str]:
    """Say which times a GPU has little to do with."""
    winners = [race[0] for race in searches.races]
    short = [
        cell
        for cell in winners
        if cell.headline["device"] == "cuda" and may_be_launches(cell.place.count, cell.median_ms)
    ]
    return [
        f"In {len(short)} of {len(winners)} races of up to {formats.power(LAUNCHES_PARTICLES)}"
        f" particles the fastest takes less than {LAUNCHES_MS:g} ms, which may be mostly launches"
        " from Python: from a graph, or from C++, another may be faster."
    ] if short else []  # fmt: skip


def _memory(searches: Searches, slug: str) -> Chart | None:
    return line_chart(
        f"{slug}-memory",
        "Time against memory",
        "Lower and further left is better. Filled, on the dashed line: none is both faster and"
        " smaller. Memory is the peak on the device where it is known, else what was allocated.",
        Axis("memory, MB", "measured"),
        Axis("median time, ms", "number"),
        [
            _memory_panel(searches, task, place)
            for task in searches.tasks
            for place in searches.chosen(task)
        ],
        least=1,
    )


def _memory_panel(searches: Searches, task: str, place: Place) -> Panel:
    title = f"{task}, {libraries.where([place], libraries.SHORT)}"
    known = [cell for cell in searches.race(task, place) if cell.memory_bytes][:MOST_LINES]
    if len(known) < 2:
        return Panel(title, [], "")
    points = [timed((cell.memory_bytes or 0) / 1e6, cell) for cell in known]
    best = front([(point.x, point.y) for point in points])
    names = [cell.subject.algorithm for cell in known]
    lines = [
        Line(name, [point], searches.algorithms.index(name), int(index not in best))
        for index, (name, point) in enumerate(zip(names, points, strict=True))
    ]
    steps = [points[best[0]]]
    for point in (points[index] for index in best[1:]):
        steps += [point._replace(y=steps[-1].y), point]
    x, y = [point.x for point in steps], [point.y for point in steps]
    border = Line.through("", x, y, _GREY, variant=1, marked=False)
    words = (
        f"Time against memory, {title}. On the front: {formats.listing(names[i] for i in best)}."
    )
    return Panel(title, [border, *lines] if len(best) > 1 else lines, words)


def _copy_share(searches: Searches, slug: str) -> Chart | None:
    panels = []
    for task in searches.tasks:
        if task == "update":
            continue
        per_cell = searches.usual_per_cell(task)
        races = searches.usual_races(task, per_cell=per_cell)
        lines = lines_over(
            searches,
            [(race[0].place.particles or 0, race) for race in races],
            bandwidth_point,
        )
        panels.append(panel(f"{task}, {AXES['per_cell'].say(per_cell)}", lines, BANDWIDTH, "%"))
    return bandwidth_chart(slug, Axis("particles", "size"), panels)
