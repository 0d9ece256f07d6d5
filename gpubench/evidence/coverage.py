"""Coverage: how often a later run fell inside an interval that earlier runs had given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpubench.evidence.pooling import (
    LAUNCHES_PARTICLES,
    Timing,
    grouped,
    key_of,
    pool,
    started,
)
from gpubench.evidence.records import Ok, Record
from gpubench.evidence.results import Results
from gpubench.evidence.versions import version_of


class Test(NamedTuple):
    """A time of a later run beside the interval of the runs before it.

    runs: how many those were; of one run alone, it is not known how far another may be.
    """

    record: Record
    runs: int
    ratio: float
    is_inside: bool


@dataclass(frozen=True)
class Coverage:
    """The tests of one mode and size of input on one device; see `Test`."""

    mode: str
    is_small: bool
    runs: int
    tests: Sequence[Test]

    @property
    def inside(self) -> int:
        """How many fell inside."""
        return sum(test.is_inside for test in self.tests)

    @property
    def worst(self) -> Test:
        """The test whose time was furthest from the pooled one."""
        return max(self.tests, key=lambda test: max(test.ratio, 1 / test.ratio))


def coverage(results: Iterable[Results]) -> list[Coverage]:
    """Test each run of a device against the intervals that all runs before it give.

    Runs are of different days or devices (`Timing.run`); a measurement counts where two of them
    timed it in one version.
    """
    in_order = sorted(results, key=lambda each: started(each.environment))
    timings = [
        Timing(record, each)
        for each in in_order
        for record in each.records
        if isinstance(record, Ok)
    ]
    alike = grouped(
        timings, lambda t: (key_of(t.record), version_of(t.record, t.results.environment))
    )
    repeated = [own for own in alike.values() if len({timing.run for timing in own}) > 1]
    by_run = grouped((timing for own in repeated for timing in own), lambda timing: timing.run)
    runs = sorted(by_run, key=lambda run: (started(by_run[run][0].results.environment), run))
    tests: list[Test] = []
    for number in range(1, len(runs)):
        before = [timing for run in runs[:number] for timing in by_run[run]]
        tests += _tests(before, by_run[runs[number]])
    groups = grouped(tests, lambda test: (test.record.mode, _is_small(test.record), test.runs))
    return [Coverage(*at, own) for at, own in sorted(groups.items())]


def _tests(before: Sequence[Timing], later: Sequence[Timing]) -> Iterable[Test]:
    of_file = grouped(before, lambda timing: id(timing.results))
    earlier = [
        replace(own[0].results, records=[timing.record for timing in own])
        for own in of_file.values()
    ]
    known = {key_of(each.record): each for each in pool(earlier)}
    for timing in later:
        record, measured = timing.record, known.get(key_of(timing.record))
        version = version_of(record, timing.results.environment)
        if measured is None or measured.version != version:
            continue
        pooled = measured.record
        assert isinstance(record, Ok) and isinstance(pooled, Ok)
        runs = len({each.run for each in measured.timings})
        is_inside = pooled.ci95_low_ms <= record.median_ms <= pooled.ci95_high_ms
        yield Test(record, runs, record.median_ms / pooled.median_ms, is_inside)


def _is_small(record: Record) -> bool:
    return ((record.input.size if record.input else None) or 0) <= LAUNCHES_PARTICLES
