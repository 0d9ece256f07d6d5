"""What all studies of a machine come to, in tables of the front page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpubench.report import formats, verdict
from gpubench.report.cells import StudyRun
from gpubench.report.tables import NOTHING, Item, Row, Table

# A study, its verdict in a sentence, and its place in the report.
Told = tuple[StudyRun, str, str]
_GROUPS = ("The papers' tables", "Searches and libraries", "Whole steps", "More studies")
_NO_TIME = {"wrong": "wrong", "failed": "failed", "skipped": "skipped"}


def tables(told: Sequence[Told]) -> list[Table]:
    """Return a table for each group of studies, a row for each study."""
    found = []
    for group in _GROUPS:
        own = [each for each in told if _group(each[0]) == group]
        if not own:
            continue
        is_published = group == _GROUPS[0]
        beside = ["Times faster than published"] if is_published else []
        rows = [
            Row(
                run.study.title,
                [
                    *([_beside_published(run)] if is_published else []),
                    Item(gist, "words"),
                    Item(f"{len(run.records):,}", detail=_without_time(run)),
                ],
                link,
            )
            for run, gist, link in own
        ]
        found.append(Table(group, ["Study", *beside, "Fastest", "Measurements"], rows))
    return found


def _group(run: StudyRun) -> str:
    kinds = (run.study.published is not None, run.study.views is not None, run.is_simulation, True)
    return _GROUPS[kinds.index(True)]


def _beside_published(run: StudyRun) -> Item:
    """Return how many times faster than published the algorithms of a published table are."""
    published = run.study.published
    if published is None or published.quantities:
        return NOTHING
    grid = verdict.matches(run, published, verdict.best_forms(run, published))
    ratios = [match.speedup for line in grid for match in line if match.speedup is not None]
    return Item(formats.span(ratios), detail=f"than on {published.device}") if ratios else NOTHING


def _without_time(run: StudyRun) -> str:
    counts = Counter(record["status"] for record in run.records)
    return ", ".join(
        f"{counts[status]:,} {words}" for status, words in _NO_TIME.items() if counts[status]
    )
