"""What all studies of a machine come to, in a few sentences computed from their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpubench.report import formats, verdict
from gpubench.report.cells import StudyRun

_NO_TIME = {
    "wrong": "gave a wrong answer",
    "failed": "failed",
    "skipped": "could not be made here",
}


def sentences(runs: Sequence[StudyRun]) -> list[str]:
    """Return the verdict on the studies of one machine, one statement a string."""
    said = [_counted(runs), _beside_prints(runs), _odd(runs)]
    return [sentence for sentence in said if sentence]


def _counted(runs: Sequence[StudyRun]) -> str:
    """Say how much was measured, and what of it has no time."""
    records = [(run, record["status"]) for run in runs for record in run.records]
    counts = Counter(status for _, status in records)
    if not records:
        return ""
    timed = "Every answer was checked before it was timed and again after"
    if not counts["wrong"]:
        timed += ", and none was wrong"
    parts = []
    for status, words in _NO_TIME.items():
        if counts[status]:
            titles = dict.fromkeys(run.study.title for run, each in records if each == status)
            where = f" ({formats.listing(titles)})" if status != "skipped" else ""
            parts.append(f"{counts[status]:,} {words}{where}")
    rest = f" Of the measurements {formats.listing(parts)}." if parts else ""
    studies = f"{len(runs)} {'study' if len(runs) == 1 else 'studies'}"
    return f"{studies}, {len(records):,} measurements. {timed}.{rest}"


def _beside_prints(runs: Sequence[StudyRun]) -> str:
    """Say how many times as fast as printed the algorithms of the published tables are."""
    parts = []
    for run in runs:
        published = run.study.published
        if published is None or published.quantities:
            continue
        grid = verdict.matches(run, published, verdict.best_forms(run, published))
        ratios = [match.speedup for line in grid for match in line if match.speedup is not None]
        if ratios:
            parts.append(f"{formats.span(ratios)} in “{run.study.title}” ({published.device})")
    if not parts:
        return ""
    return (
        "Times as fast as printed, with the best form of each algorithm of the print:"
        f" {formats.listing(parts)}."
    )


def _odd(runs: Sequence[StudyRun]) -> str:
    """Say how many measurements have odd samples."""
    found = {
        "show drift or two humps": [run for run in runs for r in run.records if r["remarks"]],
        "had samples set aside, because the device was throttled": [
            run for run in runs for r in run.records if r["throttled_ms"]
        ],
    }
    parts = [
        f"{len(odd):,} {words} ({formats.listing(dict.fromkeys(run.study.title for run in odd))})"
        for words, odd in found.items()
        if odd
    ]
    return f"Of the measurements {formats.listing(parts)}." if parts else ""
