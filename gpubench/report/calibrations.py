"""Calibrations in a report: how often comparisons of a code with itself were wrong."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.evidence.calibration import Calibration, Rates
from gpubench.report import formats
from gpubench.report.figures import Axis, Chart, Line, Panel
from gpubench.report.pages import Collection, Item, Part, Row, Table
from gpubench.report.vega import draw_all

COLUMNS = [
    "Cell",
    "False alarms",
    "Inconclusive",
    "Slowed by",
    "Found",
    "9 in 10 from",
    "Pairs",
    "Processes",
]


def collection(found: Sequence[Calibration]) -> Collection:
    """Return the page of all calibrations, in their order."""
    gist = "; ".join(
        f"{each.environment['device']['name']}: {_share(each.verdicts.false_alarms)} false alarms"
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
        draw_all([_chart(f"{slug}-pairs", found)]),
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
        f" threshold of {_share(verdicts.threshold)}, and intervals that hold together with"
        f" {_share(verdicts.confidence)} confidence.",
        f"{_share(verdicts.false_alarms)} of these comparisons called the code slower than"
        f" itself; {_share(verdicts.cannot_tell)} more were inconclusive. One took {median:g} pairs"
        f" at the median, {most:g} at the 95th percentile.",
        f"Of {verdicts.separate} that have no pair in common, {verdicts.separate_alarms} called it"
        " slower.",
    ]
    smallest = [rates.smallest for rates in verdicts.cells.values()]
    known = [value for value in smallest if value is not None]
    if known:
        missing = len(smallest) - len(known)
        rest = f"; in {missing} cells none that was tried" if missing else ""
        said.append(
            f"A slow-down of {_share(max(known))} is found 9 times in 10 in each of"
            f" {len(known)} cells{rest}."
        )
    return said


def _table(found: Calibration) -> Table:
    return Table(
        "Each cell",
        COLUMNS,
        [_row(name, rates) for name, rates in found.verdicts.cells.items()],
        notes=[
            f"Head's processes put in extra launches, {_share(found.injected)} of those counted."
            " In a cache they may cost less or more: what they added was measured (slowed by), and"
            " how many comparisons called it slower (found). The smallest slow-down that is found"
            " 9 times in 10 is looked for by multiplying head's times. Pairs and processes: their"
            " standard deviations, of log ratios and of log medians."
        ],
    )


def _row(name: str, rates: Rates) -> Row:
    smallest = formats.DASH if rates.smallest is None else _share(rates.smallest)
    shares = (rates.false_alarms, rates.cannot_tell, rates.slowed, rates.found)
    items = [*map(_share, shares), smallest, _share(rates.between), _share(rates.spread)]
    return Row(name.partition("/")[2] or name, [Item(item) for item in items])


def _chart(slug: str, found: Calibration) -> Chart:
    """Return the difference of head and base in each pair, a panel for each sweep."""
    sweeps: dict[str, list[Line]] = {}
    for name, series in found.pairs.items():
        sweep, _, cell = name.partition(": ")
        numbers = [number for number, each in enumerate(series, 1) if each is not None]
        apart = [100 * abs(each.ratio - 1) for each in series if each is not None]
        lines = sweeps.setdefault(sweep.rpartition("/")[2], [])
        label = cell.partition(",")[0] + (f", {word}" if (word := _workload(cell)) else "")
        lines.append(Line.through(label, numbers, apart, len(lines)))
    panels = [Panel(sweep, lines, _described(lines)) for sweep, lines in sweeps.items()]
    return Chart(
        slug,
        "The code against itself, pair by pair",
        "How far head and base were apart, though they are the same.",
        Axis("pair of processes", "linear"),
        Axis("difference, %", "linear"),
        panels,
    )


def _described(lines: Sequence[Line]) -> str:
    """Return what a panel shows, in words."""
    apart = [value for line in lines for value in line.y]
    return (
        f"Differences of head and base pair by pair, of {len(lines)} cells: from {min(apart):.2g}"
        f" to {max(apart):.2g} %."
    )


def _workload(cell: str) -> str:
    """Return the workload in a cell's name, if there is one."""
    words = [word for word in cell.split(", ") if "=" not in word][1:]
    return next((word for word in words if "-" in word), "")


def _share(value: float) -> str:
    return f"{float(f'{100 * value:.2g}'):g} %"
