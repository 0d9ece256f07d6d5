"""What a report says and draws of neighbour searches over their regimes: what wins where."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gpubench.core.tasks import LAUNCHES_MS, LAUNCHES_PARTICLES, may_be_launches
from gpubench.report import formats, libraries, maps, tables, verdict
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Section
from gpubench.report.rankings import Searches
from gpubench.report.study_charts import charts
from gpubench.report.vega import draw_all


def gist(searches: Searches) -> str:
    """Say whether a library wins, and what is wrong."""
    wrong = {r["algorithm"] for r in searches.run.records if r["status"] == "wrong"}
    said = f"Wrong on some inputs: {formats.listing(sorted(wrong))}." if wrong else ""
    return " ".join(filter(None, (libraries.verdict(searches), said)))


def sections(searches: Searches, slug: str) -> list[Section]:
    """Return what the study's page shows, as far as there are records for it."""
    beside = Section(
        title="Ours and libraries", figures=draw_all([libraries.chart(searches, slug)])
    )
    views = searches.run.study.views
    if views is not None and views.first == "libraries":
        habits = libraries.table(searches)
        work = (_equal_work(searches, task) for task in searches.by_task)
        return [beside, *work, Section(tables=[habits] if habits else [])]
    tiled = [maps.figure(searches, task, slug) for task in searches.by_task]
    moved = searches.of("update")
    steps = searches.run.only(lambda cell: cell.place.workload is not None)
    return [
        Section(title="The fastest, input by input", figures=[drawn for drawn in tiled if drawn]),
        _along(moved, "Where particles have moved: update or rebuild", f"{slug}-moved", ("moved",)),
        _along(
            steps,
            "Whole steps: rebuild, re-sort, or a skin",
            f"{slug}-steps",
            ("time_step", "skin"),
        ),
        beside,
    ]


def _along(part: StudyRun, title: str, slug: str, axes: Collection[str]) -> Section:
    """Return the charts of a part of a study, and where the fastest is overtaken there."""
    if not part.timed:
        return Section()
    overtaken = verdict.overtakings(part, axes)
    figures = draw_all(charts(part, slug, axes))
    return Section(title=title, figures=figures, tables=[overtaken] if overtaken else [])


def _equal_work(searches: Searches, task: str) -> Section:
    """Return all that was tried of a task, ours and theirs."""
    found, notes = tables.subjects(searches.of(task))
    named = [replace(table, caption=f"{task}, {table.caption}") for table in found]
    return Section(title=f"Equal work: {task}", tables=named, notes=notes)


def launches(searches: Searches) -> list[str]:
    """Say which times a GPU has little to do with."""
    winners = [race[0] for race in searches.races]
    short = [
        cell
        for cell in winners
        if cell.record["device"] == "cuda" and may_be_launches(cell.place.count, cell.median_ms)
    ]
    return [
        f"In {len(short)} of {len(winners)} races of up to {formats.power(LAUNCHES_PARTICLES)}"
        f" particles the fastest takes less than {LAUNCHES_MS:g} ms, which may be mostly launches"
        " from Python: from a graph, or from C++, another may be faster."
    ] if short else []  # fmt: skip
