"""What all studies of a machine come to, in tables of the front page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpubench.report import published
from gpubench.report.cells import grouped
from gpubench.report.machines import StudyRun
from gpubench.report.pages import Item, Row, Table

# A study, its verdict in a sentence, and its place in the report.
Told = tuple[StudyRun, str, str]
_GROUPS = ("The papers' tables", "Searches and libraries", "Whole steps", "More studies")
_NO_TIME = ("wrong", "failed", "skipped")


def tables(told: Sequence[Told]) -> list[Table]:
    """Return the published tables beside ours, and a table for each group of other studies."""
    found = []
    groups = grouped(told, _group)
    for group in (group for group in _GROUPS if group in groups):
        rows = [row for run, _, link in groups[group] for row in published.overview(run, link)]
        if rows:
            note = (
                "Below each time: the variant, and how many times faster than published, over all"
                " rows."
            )
            columns = ["Table", *published.HEADINGS]
            found.append(Table("Published and measured", columns, rows, notes=[note]))
        rows = [
            Row(
                run.study.title,
                [Item(gist, "words"), Item(f"{len(run.records):,}", detail=_without_time(run))],
                link,
            )
            for run, gist, link in groups[group]
        ]
        found.append(Table(group, ["Study", "Fastest", "Measurements"], rows))
    return found


def _group(told: Told) -> str:
    run, *_ = told
    kinds = (run.study.published is not None, run.study.views is not None, run.is_simulation, True)
    return _GROUPS[kinds.index(True)]


def _without_time(run: StudyRun) -> str:
    counts = Counter(record["status"] for record in run.records)
    return ", ".join(f"{counts[status]:,} {status}" for status in _NO_TIME if counts[status])
