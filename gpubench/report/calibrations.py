"""Calibrations in a report: how often comparisons of a code with itself were wrong."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.core.numbers import percent
from gpubench.evidence.calibration import Calibration, Rates
from gpubench.report import formats
from gpubench.report.pages import Collection, Item, Part, Row, Table


def collection(found: Sequence[Calibration]) -> Collection:
    """Return the page of all calibrations, in their order."""
    gist = "; ".join(
        f"{each.environment['device']['name']}: {percent(each.verdicts.false_alarms)} false alarms"
        for each in found
    )
    title = "Calibration: false alarms and detectable slow-downs"
    parts = [_part(f"calibration-{index + 1}", each) for index, each in enumerate(found)]
    return Collection("calibration", title, f"A code against itself. {gist}.", parts)


def _part(slug: str, found: Calibration) -> Part:
    device = found.environment["device"]
    return Part(
        f"{device['name']}, {found.study}",
        _sentences(found),
        [_table(found)],
        slug=slug,
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
    known = [value for value in smallest if value is not None]
    if known:
        missing = len(smallest) - len(known)
        rest = f"; in {missing} cells none that was tried" if missing else ""
        said.append(
            f"A slow-down of {percent(max(known))} is found 9 times in 10 in each of"
            f" {len(known)} cells{rest}."
        )
    return said


def _table(found: Calibration) -> Table:
    return Table(
        "Each cell",
        ["Cell", "False alarms", "Inconclusive", "Slowed by", "Found", "9 in 10 from", "Pairs",
         "Processes"],
        [_row(name, rates) for name, rates in found.verdicts.cells.items()],
        notes=[
            f"Head's processes put in extra launches, {percent(found.injected)} of those counted."
            " In a cache they may cost less or more: what they added was measured (slowed by), and"
            " how many comparisons called it slower (found). The smallest slow-down that is found"
            " 9 times in 10 is looked for by multiplying head's times. Pairs and processes: their"
            " standard deviations, of log ratios and of log medians."
        ],
    )  # fmt: skip


def _row(name: str, rates: Rates) -> Row:
    smallest = formats.DASH if rates.smallest is None else percent(rates.smallest)
    shares = (rates.false_alarms, rates.cannot_tell, rates.slowed, rates.found)
    items = [*map(percent, shares), smallest, percent(rates.between), percent(rates.spread)]
    return Row(name.partition("/")[2] or name, [Item(item) for item in items])
