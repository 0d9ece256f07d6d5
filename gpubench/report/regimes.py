"""What a report says and draws of neighbour searches over their regimes: what wins where."""

from __future__ import annotations

from gpubench.core.tasks import LAUNCHES_MS, LAUNCHES_PARTICLES, may_be_launches
from gpubench.report import formats, incremental_updates, libraries, maps, steps
from gpubench.report.pages import Section
from gpubench.report.rankings import Searches
from gpubench.report.vega import draw_all


def sentences(searches: Searches) -> list[str]:
    """Return what was found, one statement a string: first of all whether a library wins."""
    return [libraries.verdict(searches), *_launches(searches)]


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
    tiled = [maps.figure(searches, task, slug) for task in searches.tasks]
    moved = [incremental_updates.chart(searches, slug), steps.over_time_steps(run, slug)]
    resorts = incremental_updates.table(searches)
    found = [
        Section(title="The fastest, input by input", figures=[drawn for drawn in tiled if drawn]),
        Section(
            title="Rebuild, re-sort, or a skin",
            tables=[resorts] if resorts else [],
            figures=draw_all(moved),
        ),
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
        if cell.record["device"] == "cuda" and may_be_launches(cell.place.count, cell.median_ms)
    ]
    return [
        f"In {len(short)} of {len(winners)} races of up to {formats.power(LAUNCHES_PARTICLES)}"
        f" particles the fastest takes less than {LAUNCHES_MS:g} ms, which may be mostly launches"
        " from Python: from a graph, or from C++, another may be faster."
    ] if short else []  # fmt: skip
