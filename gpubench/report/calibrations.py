"""Calibrations in a report: how often comparisons of a code with itself were wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpubench.core.numbers import percent
from gpubench.evidence.calibration import Calibration, Rates
from gpubench.report import formats
from gpubench.report.pages import Page, Section, Table


def page(found: Sequence[Calibration]) -> Page:
    """Return the page of all calibrations, in their order."""
    alarms = "; ".join(
        f"{each.environment['device']['name']}: {percent(each.verdicts.false_alarms)} false alarms"
        for each in found
    )
    title = "Calibration: false alarms and detectable slow-downs"
    sections = [_section(f"calibration-{index}", each) for index, each in enumerate(found, 1)]
    return Page("calibration", title, f"A code against itself. {alarms}.", sections)


def _section(slug: str, found: Calibration) -> Section:
    device = found.environment["device"]
    said, *more = _sentences(found)
    return Section(
        title=f"{device['name']}, {found.study}",
        level=2,
        slug=slug,
        verdict=said,
        sentences=more,
        tables=[_table(found)],
        command=f"gpubench calibrate --device {device['backend']} --pairs {len(found.started)}",
    )


def _sentences(found: Calibration) -> list[str]:
    verdicts = found.verdicts
    looks = formats.listing(str(look) for look in verdicts.looks)
    median, most = verdicts.pairs_taken
    said = [
        f"{len(found.started)} pairs of processes of one code were measured, from"
        f" {found.started[0]} to {found.started[-1]}, and {verdicts.comparisons:,} comparisons of"
        f" {len(verdicts.cells)} cells drawn from them, each with looks at {looks} pairs, a"
        f" threshold of {percent(verdicts.threshold)}, and intervals that hold together with"
        f" {percent(verdicts.confidence)} confidence.",
        f"{percent(verdicts.false_alarms)} of these comparisons called the code slower than"
        f" itself; {percent(verdicts.cannot_tell)} more were inconclusive. One took {median:g}"
        f" pairs at the median, {most:g} at the 95th percentile.",
        f"Of {verdicts.separate} that have no pair in common, {verdicts.separate_alarms} called it"
        " slower.",
    ]
    smallest = [rates.smallest for rates in verdicts.cells.values()]
    if known := [value for value in smallest if value is not None]:
        missing = len(smallest) - len(known)
        rest = f"; in {missing} cells none that was tried" if missing else ""
        said.append(
            f"A slow-down of {percent(max(known))} is found 9 times in 10 in each of"
            f" {len(known)} cells{rest}."
        )
    return said


def _table(found: Calibration) -> Table:
    def smallest(cell: tuple[str, Rates]) -> str:
        return formats.DASH if cell[1].smallest is None else percent(cell[1].smallest)

    def share(name: str) -> Callable[[tuple[str, Rates]], str]:
        return lambda cell: percent(getattr(cell[1], name))

    return Table.of(
        "Each cell",
        found.verdicts.cells.items(),
        ("Cell", lambda cell: cell[0].partition("/")[2] or cell[0]),
        {
            "False alarms": share("false_alarms"),
            "Inconclusive": share("cannot_tell"),
            "Slowed by": share("slowed"),
            "Found": share("found"),
            "9 in 10 from": smallest,
            "Pairs": share("between"),
            "Processes": share("spread"),
        },
        notes=[
            f"Head's processes put in extra launches, {percent(found.injected)} of those counted."
            " In a cache they may cost less or more: what they added was measured (slowed by), and"
            " how many comparisons called it slower (found). The smallest slow-down that is found"
            " 9 times in 10 is looked for by multiplying head's times. Pairs and processes: their"
            " standard deviations, of log ratios and of log medians."
        ],
    )
