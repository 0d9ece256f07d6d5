"""How often a later run fell inside an interval that earlier runs had given."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.base.numbers import digits
from gpubench.evidence.coverage import Coverage, coverage
from gpubench.evidence.pooling import LAUNCHES_PARTICLES
from gpubench.report import formats
from gpubench.report.machines import Machine
from gpubench.report.pages import Page, Section, Table, number, words

_ENOUGH = 2  # runs before, from which on it is known how far apart runs are
_NOTES = (
    "A run is a day or a card of its own. Each time of a run is compared with the interval that all"
    " runs before it give for the same version of the code. One run alone does not know how far"
    " another may be, so its intervals hold the spread of its own samples only.",
    "Furthest: the later time over that of the runs before.",
)


def page(machines: Sequence[Machine]) -> Page:
    """Return the page; without sections where no two runs measured the same."""
    sections = []
    told = []
    for machine in machines:
        rows = coverage(machine.runs)
        if not rows:
            continue
        judged = [row for row in rows if row.runs >= _ENOUGH]
        tests = sum(len(row.tests) for row in judged)
        name = machine.device.name
        told.append(
            f"{name}: {sum(row.inside for row in judged):,} of {tests:,} times"
            if tests
            else f"{name}: two runs, of which the second cannot judge the first"
        )
        sections.append(Section(title=name, level=2, tables=[_table(rows)]))
    lead = f"How often a later run fell inside a 95 % interval of earlier ones. {'; '.join(told)}."
    return Page("coverage", "Coverage: do the intervals hold?", lead, sections)


def _table(rows: Sequence[Coverage]) -> Table:
    return Table.of(
        "Later runs inside earlier intervals",
        rows,
        ("Mode", lambda row: row.mode),
        {
            "Inputs": lambda row: words(
                f"{'up to' if row.is_small else 'above'} {formats.power(LAUNCHES_PARTICLES)}"
            ),
            "Runs before": lambda row: str(row.runs),
            "Times": lambda row: f"{len(row.tests):,}",
            "Inside": lambda row: number(row.inside / len(row.tests), formats.percent),
            "Furthest": lambda row: words(
                digits(row.worst.ratio), f"{row.worst.record.algorithm} {row.worst.record.form}"
            ),
        },
        _NOTES,
    )
