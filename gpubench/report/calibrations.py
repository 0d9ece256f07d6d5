"""Calibrations in a report: how often comparisons of a code with itself were wrong."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.base.numbers import percent
from gpubench.evidence.calibration import Calibration
from gpubench.report.pages import Page, Section, Table, words

_NOTE = (
    "Pairs of processes of one code were measured, and comparisons drawn from them; a false alarm"
    " calls the code slower than itself. Alone: false alarms among comparisons that have no pair in"
    " common. Found: the slow-down that is found 9 times in 10, in the worst measurement and in how"
    " many. The calibration's file has each."
)


def page(found: Sequence[Calibration]) -> Page:
    """Return the page of all calibrations, in their order."""
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
        [_NOTE],
    )
    title = "Calibration: false alarms and detectable slow-downs"
    sections = [Section(tables=[table])] if found else []
    return Page("calibration", title, f"A code against itself. {alarms}.", sections)


def _found(each: Calibration) -> str:
    smallest = [rates.smallest for rates in each.verdicts.cells.values()]
    known = [value for value in smallest if value is not None]
    where = f"{len(known)} of {len(smallest)}"
    return f"{percent(max(known))} in {where}" if known else where
