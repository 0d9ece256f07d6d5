"""Coverage: the fraction of later runs inside the intervals of earlier runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpubench.evidence.pooling import Measurement, Timing, grouped, pool_timings, timings_of
from gpubench.evidence.records import Ok
from gpubench.evidence.results import Results


class Test(NamedTuple):
    """The time of a later run, compared with the measurement pooled from earlier runs.

    ratio: later over pooled time. is_inside: whether the later time is in the pooled interval.
    """

    record: Ok
    before: Measurement
    ratio: float
    is_inside: bool


def coverage(results: Iterable[Results]) -> list[Test]:
    """Test each run of a device against the intervals from all earlier runs.

    Runs differ in day or device (`Timing.run`). Only versions timed in at least two runs count.
    """
    timings = [each for each in timings_of(results) if isinstance(each.record, Ok)]
    alike = grouped(timings, lambda timing: (timing.key, timing.version))
    repeated = {at for at, own in alike.items() if len({timing.run for timing in own}) > 1}
    counted = (each for each in timings if (each.key, each.version) in repeated)
    tests, before = list[Test](), list[Timing]()
    for own in grouped(counted, lambda timing: timing.run).values():  # oldest first
        known = {each.timings[0].key: each for each in pool_timings(before, {t.key for t in own})}
        before += own
        for later in own:
            record, pooled = later.record, known.get(later.key)
            if pooled is None or pooled.version != later.version:
                continue
            times = pooled.record
            assert isinstance(record, Ok) and isinstance(times, Ok)
            is_inside = times.ci95_low_ms <= record.median_ms <= times.ci95_high_ms
            tests.append(Test(record, pooled, record.median_ms / times.median_ms, is_inside))
    return tests
