"""Coverage: how often a later run fell inside an interval that earlier runs had given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpubench.evidence.pooling import grouped, key_of, pool_timings, started, timings_of
from gpubench.evidence.records import Ok
from gpubench.evidence.results import Results


class Test(NamedTuple):
    """A time of a later run beside the interval of the runs before it.

    is_short: see `Measurement`. runs: how many those were; of one run alone, it is not known how
    far another may be.
    """

    record: Ok
    is_short: bool
    runs: int
    ratio: float
    is_inside: bool


class Coverage(NamedTuple):
    """The tests of one mode, of short times or long ones, on one device; see `Test`."""

    mode: str
    is_short: bool
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
    timings = [each for each in timings_of(results) if isinstance(each.record, Ok)]
    alike = grouped(timings, lambda timing: (key_of(timing.record), timing.version))
    repeated = [own for own in alike.values() if len({timing.run for timing in own}) > 1]
    by_run = grouped((timing for own in repeated for timing in own), lambda timing: timing.run)
    runs = sorted(by_run, key=lambda run: (started(by_run[run][0].results.environment), run))
    tests = []
    for number, run in enumerate(runs):
        before = (timing for earlier in runs[:number] for timing in by_run[earlier])
        known = {key_of(each.record): each for each in pool_timings(before)}
        for later in by_run[run]:
            record, pooled = later.record, known.get(key_of(later.record))
            if pooled is None or pooled.version != later.version:
                continue
            times, of = pooled.record, len({each.run for each in pooled.timings})
            assert isinstance(record, Ok) and isinstance(times, Ok)
            is_inside = times.ci95_low_ms <= record.median_ms <= times.ci95_high_ms
            tests.append(
                Test(record, pooled.is_short, of, record.median_ms / times.median_ms, is_inside)
            )
    groups = grouped(tests, lambda test: (test.record.mode, test.is_short, test.runs))
    return [Coverage(*at, own) for at, own in sorted(groups.items())]
