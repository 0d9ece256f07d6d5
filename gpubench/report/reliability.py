"""How far numbers can be believed: coverage of intervals, and calibrations of verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.base.numbers import digits, percent
from gpubench.evidence.calibration import Calibration
from gpubench.evidence.coverage import Coverage, coverage
from gpubench.evidence.pooling import LAUNCHES_PARTICLES
from gpubench.report import formats
from gpubench.report.machines import Machine
from gpubench.report.pages import Page, Section, Table, number, words

_ENOUGH = 2  # runs before, from which on it is known how far apart runs are
_COVERAGE_NOTES = (
    "A run is a day or a card of its own. Each time of a run is compared with the interval that all"
    " runs before it give for the same version of the code. One run alone does not know how far"
    " another may be, so its intervals hold the spread of its own samples only.",
    "Furthest: the later time over that of the runs before.",
)
_CALIBRATION_NOTE = (
    "Pairs of processes of one code were measured, and comparisons drawn from them; a false alarm"
    " calls the code slower than itself. Alone: false alarms among comparisons that have no pair in"
    " common. Found: the slow-down that is found 9 times in 10, in the worst measurement and in how"
    " many. The calibration's file has each."
)


def coverage_page(machines: Sequence[Machine]) -> Page:
    """Return how often later runs fell inside; without sections where no two measured the same."""
    sections = []
    told = []
    for machine in machines:
        rows, name = coverage(machine.runs), machine.device.name
        judged = [row for row in rows if row.runs >= _ENOUGH]
        tests = sum(len(row.tests) for row in judged)
        if tests:
            told.append(f"{name}: {sum(row.inside for row in judged):,} of {tests:,} times")
        elif rows:
            told.append(f"{name}: two runs, of which the second cannot judge the first")
        if rows:
            sections.append(Section(title=name, level=2, tables=[_coverage(rows)]))
    lead = f"How often a later run fell inside a 95 % interval of earlier ones. {'; '.join(told)}."
    return Page("coverage", "Coverage: do the intervals hold?", lead, sections)


def _coverage(rows: Sequence[Coverage]) -> Table:
    limit = formats.power(LAUNCHES_PARTICLES)
    return Table.of(
        "Later runs inside earlier intervals",
        rows,
        ("Mode", lambda row: row.mode),
        {
            "Inputs": lambda row: words(f"{'up to' if row.is_small else 'above'} {limit}"),
            "Runs before": lambda row: str(row.runs),
            "Times": lambda row: f"{len(row.tests):,}",
            "Inside": lambda row: number(row.inside / len(row.tests), formats.percent),
            "Furthest": lambda row: words(
                digits(row.worst.ratio), f"{row.worst.record.algorithm} {row.worst.record.form}"
            ),
        },
        _COVERAGE_NOTES,
    )


def calibration_page(found: Sequence[Calibration]) -> Page:
    """Return how often comparisons of a code with itself were wrong, in the order given."""
    alarms = "; ".join(
        f"{each.environment['device']['name']}: {percent(each.verdicts.false_alarms)} false alarms"
        for each in found
    )
    table = Table.of(
        "Each calibration",
        found,
        ("Machine", lambda each: each.environment["device"]["name"]),
        {
            "Study": lambda each: words(each.study),
            "Begun": lambda each: words(each.started[0][:10]),
            "Pairs": lambda each: str(len(each.started)),
            "Comparisons": lambda each: f"{each.verdicts.comparisons:,}",
            "Threshold": lambda each: percent(each.verdicts.threshold),
            "False alarms": lambda each: percent(each.verdicts.false_alarms),
            "Inconclusive": lambda each: percent(each.verdicts.cannot_tell),
            "Alone": lambda e: f"{e.verdicts.separate_alarms} of {e.verdicts.separate}",
            "Found": _found,
        },
        [_CALIBRATION_NOTE],
    )
    title = "Calibration: false alarms and detectable slow-downs"
    sections = [Section(tables=[table])] if found else []
    return Page("calibration", title, f"A code against itself. {alarms}.", sections)


def _found(each: Calibration) -> str:
    smallest = [rates.smallest for rates in each.verdicts.cells.values()]
    known = [value for value in smallest if value is not None]
    where = f"{len(known)} of {len(smallest)}"
    return f"{percent(max(known))} in {where}" if known else where
