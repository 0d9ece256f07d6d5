"""Pages besides the studies: machines, coverage of intervals, calibrations of verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from gpubench.base.numbers import digits, percent
from gpubench.evidence.calibration import Calibration
from gpubench.evidence.coverage import Test, coverage
from gpubench.evidence.pooling import SHORT_MS, device_of, grouped
from gpubench.report import formats
from gpubench.report.cells import overhead_ms
from gpubench.report.machines import Machine, when
from gpubench.report.pages import NOTHING, Item, Page, Section, Table, words

_COVERAGE_NOTES = (
    "A run is a day or a card of its own; days and cards are not told apart. Each time of a run is"
    " compared with the interval that all runs before it give for the same version of the code."
    " Spread known: several of them say how far apart runs are, of the algorithm or of others; else"
    " an interval holds the spread of its own samples only.",
    "Furthest: the later time over that of the runs before.",
)
_CALIBRATION_NOTE = (
    "Pairs of processes of one code were measured, and comparisons drawn from them; a false alarm"
    " calls the code slower than itself. Alone: false alarms among comparisons that have no pair in"
    " common. Found: the slow-down that is found 9 times in 10, in the worst measurement and in how"
    " many. The calibration's file has each."
)
_MACHINES_NOTES = (
    "Driver, host and libraries are those of the newest run; results files have all of each run.",
    "Overhead is what a warm sample of nothing takes; each sample holds it once, and none is taken"
    " off.",
)
_MODES = {"graph": "device time (graph)", "hot": "launched (warm)", "cold": "cold"}
# The displayed fields of a device or a host, and their formats.
_WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "cpu": str, "cores": "{} cores".format, "driver": "driver {}".format,
    "cuda_toolkit": "CUDA {}".format, "memory_bytes": formats.size, "os": str,
    "python": "Python {}".format,
}  # fmt: skip


def machines_table(machines: Sequence[Machine]) -> Table:
    """Return a table with a row per machine: device, host, libraries, and what was measured."""
    return Table.of(
        "Machines",
        machines,
        ("Device", lambda machine: machine.device.name),
        {
            "Measured": lambda machine: words(when(machine.environments)),
            "Driver, memory": lambda machine: words(_of(machine.environment["device"])),
            "Host": lambda machine: words(_of(machine.environment["host"])),
            "Libraries": lambda machine: words(_versions(machine.environment["libraries"])),
            "Copy, GB/s": lambda machine: _span(machine, itemgetter("copy_bandwidth_gb_s")),
            "Overhead, ms": lambda machine: _span(machine, lambda e: overhead_ms(e).get("hot")),
        },
        _MACHINES_NOTES,
    )


def _of(known: Mapping[str, Any]) -> str:
    return ", ".join(w(known[n]) for n, w in _WRITTEN.items() if known.get(n) is not None)


def _versions(libraries: Mapping[str, str | None]) -> str:
    known = [f"{name} {version}" for name, version in libraries.items() if version is not None]
    return formats.listing(known or [formats.DASH])


def _span(machine: Machine, read: Callable[[Mapping[str, Any]], float | None]) -> Item:
    known = [value for each in machine.environments if (value := read(each)) is not None]
    return Item(formats.span(known)) if known else NOTHING


def coverage_page(machines: Sequence[Machine]) -> Page:
    """Return the page on coverage; it has no sections without repeated measurements."""
    sections, told = [], []
    for machine in machines:
        tests, name = coverage(machine.runs), machine.device.name
        for known, own in grouped(tests, lambda test: test.before.is_known).items():
            hits = sum(test.is_inside for test in own)
            inside = f"{hits:,} of {len(own):,} times ({formats.percent(hits / len(own))})"
            told.append(f"{name}, spread between runs {'' if known else 'not '}known: {inside}")
        if tests:
            table, measured = _coverage(tests), machine.environments
            sections.append(Section(title=name, level=2, tables=[table], measured=measured))
    lead = f"How often a later run fell inside a 95 % interval of earlier ones. {'; '.join(told)}."
    return Page("coverage", "Coverage: do the intervals hold?", lead, sections)


def _coverage(tests: Sequence[Test]) -> Table:
    def furthest(own: Sequence[Test]) -> Item:
        worst = max(own, key=lambda test: max(test.ratio, 1 / test.ratio))
        return words(digits(worst.ratio), f"{worst.record.algorithm} {worst.record.form}")

    found = grouped(tests, lambda t: (t.record.mode, t.before.is_short, t.before.is_known))
    return Table.of(
        "Later runs inside earlier intervals",
        sorted(found.items()),
        ("Mode", lambda row: _MODES[row[0][0]]),
        {
            "Duration": lambda row: words(f"{'below' if row[0][1] else 'from'} {SHORT_MS:g} ms"),
            "Spread": lambda row: words("known" if row[0][2] else "not known"),
            "Later times": lambda row: f"{len(row[1]):,}",
            "Inside": lambda row: formats.percent(sum(t.is_inside for t in row[1]) / len(row[1])),
            "Furthest": lambda row: furthest(row[1]),
        },
        _COVERAGE_NOTES,
    )


def calibration_page(found: Sequence[Calibration]) -> Page:
    """Return the page of calibrations, in the given order."""
    rates = ((e.environment["device"]["name"], e.verdicts.false_alarms) for e in found)
    alarms = "; ".join(f"{name}: {percent(rate)} false alarms" for name, rate in rates)
    title = "Calibration: false alarms and detectable slow-downs"
    sections = []
    for device, own in grouped(found, lambda each: device_of(each.environment)).items():
        table, measured = _calibrations(own), [each.environment for each in own]
        sections.append(Section(title=device.name, level=2, tables=[table], measured=measured))
    return Page("calibration", title, f"A code against itself. {alarms}.", sections)


def _calibrations(found: Sequence[Calibration]) -> Table:
    return Table.of(
        "Each calibration",
        found,
        ("Study", lambda each: each.study),
        {
            "Measured": lambda each: words(when([each.environment])),
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


def _found(each: Calibration) -> str:
    smallest = [rates.smallest for rates in each.verdicts.cells.values()]
    known = [value for value in smallest if value is not None]
    where = f"{len(known)} of {len(smallest)}"
    return f"{percent(max(known))} in {where}" if known else where
