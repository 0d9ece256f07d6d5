"""Pool timings into one time per measurement; only this module decides which timings count.

A *measurement* is one algorithm timed on one input in one mode on one machine; the fields in AXES
identify it. docs/measuring.md says which of its timings count; `Regimes` and `_spread` determine
how much their interval is widened. If records disagree, a wrong answer takes precedence over a
time, a time over a failure, and a failure over a skip.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from gpubench.evidence.declared import subject_of, version_of
from gpubench.evidence.records import AnyRecord, Ok, is_waiting
from gpubench.evidence.results import Results

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

# Fields in which all timings of a measurement agree; sweep, draw and back end may differ.
AXES = ("study", "algorithm", "form", "parameters", "input", "inputs", "mode")
_PLAIN_AXES = operator.attrgetter(*(n for n in AXES if n != "parameters"))
STATUSES = ("wrong", "ok", "failed", "skipped")  # in order of precedence
FEWEST_PAIRS = 5  # with fewer pairs of repeated timings, their spread is unknown
COVERED = 0.95

# Below this device time, times launched from Python differ by up to 60 % between hosts, above it by
# 2 % (study again, three H100s, 01da479, 03b39e8). Default device time: half the launched time.
SHORT_MS = 0.1


class Conditions(NamedTuple):
    """Conditions shared by timings with the same systematic error.

    between: whether they are from several runs, on different days or devices. of: the algorithm if
    `between`, else the study; None for the whole machine.
    """

    mode: str
    is_short: bool
    of: str | None
    between: bool = False


@dataclass(frozen=True, eq=False)
class Timing:
    """One record, and its results file."""

    record: AnyRecord
    results: Results

    @cached_property
    def run(self) -> tuple[str, str | None]:
        """The day and the device; differences between runs give the spread between runs."""
        environment = self.results.environment
        device = self.record.measured_on or environment["device"].get("uuid")
        return str(environment["started"])[:10], device

    @cached_property
    def version(self) -> str:
        """The version of the timed code."""
        return version_of(self.record, self.results.environment)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The identity of the measurement: the values of AXES."""
        return hashable(self.record.parameters), *_PLAIN_AXES(self.record)

    @cached_property
    def code(self) -> tuple[str, ...]:
        """The study, the subject, and the version of its code."""
        return self.record.study, *subject_of(self.record), self.version


class Measurement(NamedTuple):
    """The pooled timings of one measurement.

    record: the first record, with the pooled times in place of its own, in milliseconds. results:
    its file. timings: those pooled, oldest first. replaced: number of records of older code
    or of failed attempts, which do not count. spread: the half-width, as a logarithm, by which the
    interval was widened; 0 if unknown. is_older: whether the study has newer code of its subject,
    timed on as many other inputs at least. is_short: whether the cost of launching from Python may
    dominate its time on some host. is_known: whether the interval includes the spread between runs.
    """

    record: AnyRecord
    results: Results
    timings: Sequence[Timing]
    replaced: int
    spread: float
    is_older: bool
    is_short: bool
    is_known: bool

    @property
    def version(self) -> str:
        """The version of the timed code."""
        return self.timings[0].version


class MeasuredDevice(NamedTuple):
    """A machine with one of its devices. platform: the OpenCL platform, else empty."""

    machine: str
    backend: str
    name: str
    platform: str


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by a key, keeping keys and items in order of occurrence."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def by_device(results: Iterable[Results]) -> dict[MeasuredDevice, list[Results]]:
    """Group results by device, keeping their order."""
    return grouped(results, lambda each: device_of(each.environment))


def device_of(environment: Mapping[str, Any]) -> MeasuredDevice:
    """Return the device of an environment."""
    names = (environment["device"].get(each) for each in ("backend", "name", "platform"))
    return MeasuredDevice(environment["machine"], *names)


def started(environment: Mapping[str, Any]) -> datetime:
    """Return the start time of a run."""
    return datetime.fromisoformat(environment["started"])


def pool(results: Iterable[Results], beside: Iterable[Results] = ()) -> list[Measurement]:
    """Return a machine's measurements. beside: results used only for the spread between runs."""
    own = {id(each): each for each in results}
    found = pool_timings(timings_of([*own.values(), *beside]))
    return [each for each in found if id(each.timings[0].results) in own]


def timings_of(results: Iterable[Results]) -> Iterator[Timing]:
    """Yield each file's timings, oldest first; a retry supersedes a failed attempt."""
    for each in sorted(results, key=lambda each: started(each.environment)):
        latest = {record.key: record for record in each.records}
        yield from (Timing(record, each) for record in latest.values())


def pool_timings(timings: Iterable[Timing], keys: Container[Any] = ()) -> list[Measurement]:
    """Pool timings, given oldest first, into measurements, all or of these keys; see `pool`."""
    found: dict[tuple[Any, ...], list[Timing]] = {}
    newest: dict[tuple[str, ...], tuple[str, ...]] = {}
    for timing in timings:
        found.setdefault(timing.key, []).append(timing)
        if isinstance(timing.record, Ok):  # else, the library's version may be missing
            newest[timing.code[:-1]] = timing.code
    counted = [_that_count(own) for own in found.values()]
    timed = Counter(own[0].code for own, _ in counted if isinstance(own[0].record, Ok))
    by_code = (grouped(own, lambda t: t.version).values() for own in found.values())
    regimes = Regimes([*itertools.chain.from_iterable(by_code)])
    older = {c for c, n in timed.items() if n <= timed[new := newest[c[:-1]]] and c != new}
    return [_pooled(own, n, regimes, older) for own, n in counted if not keys or own[0].key in keys]


def current(measured: Sequence[Measurement]) -> list[Measurement]:
    """Drop measurements of older code, and inputs left with fewer than two timed algorithms."""
    found: set[int] = set()
    for own in grouped(measured, lambda m: (m.record.study, m.record.input)).values():
        newest = [each for each in own if not each.is_older]
        entrants = {each.record.algorithm for each in newest if isinstance(each.record, Ok)}
        if len(newest) == len(own) or len(entrants) > 1:
            found |= {*map(id, newest)}
    return [each for each in measured if id(each) in found]


class Regimes:
    """Regimes (see `Conditions`), and how much, as a logarithm, times of equal work differ in each.

    `spreads` holds the 95 % quantile of the differences; no distribution is assumed. Between runs,
    all pairs of a measurement's timings by the same code count, newest or older (for the whole
    machine, if most runs timed it by any code), as do pairs of studies that timed the same work.
    Within a run, each is paired with the next. Regimes with under FEWEST_PAIRS pairs have no entry.
    """

    def __init__(self, measured: Sequence[Sequence[Timing]]) -> None:
        times = ((own[0], own[0].record.median_ms) for own in measured if own)
        self._device_ms = {t.key[:-1]: ms for t, ms in times if ms and t.record.mode == "graph"}
        self.spreads = self._spreads(measured)

    def of(self, timings: Sequence[Timing]) -> list[Conditions]:
        """Return the regimes that timings belong to, within a run or between runs."""
        record = timings[0].record if timings else None
        if not isinstance(record, Ok):
            return []
        return [
            Conditions(record.mode, self.is_short(timings[0]), of, between)
            for between, own in ((False, record.study), (True, record.algorithm))
            for of in (own, None)
        ]

    def is_short(self, timing: Timing) -> bool:
        """Return whether the cost of launching from Python may dominate a time on some host."""
        launched_ms = timing.record.median_ms or 0
        return self._device_ms.get(timing.key[:-1], launched_ms / 2) < SHORT_MS

    def _spreads(self, measured: Iterable[Sequence[Timing]]) -> dict[Conditions, float]:
        timed = [own for own in ([t for t in own if t.record.median_ms] for own in measured) if own]
        alike = grouped(timed, lambda own: own[0].key).items()
        runs = {key: len({t.run for own in by_code for t in own}) for key, by_code in alike}
        self.most = most = max(runs.values(), default=1)
        pairs: dict[Conditions, list[float]] = {}
        seen: dict[Conditions, int] = {}
        for own in timed:
            logs = [(t.run, math.log(t.record.median_ms or 1)) for t in own]
            every, many = itertools.combinations(logs, 2), len(dict(logs))
            in_most = runs[own[0].key] == most
            apart = [abs(b - a) for (one, a), (other, b) in every if one != other]
            near = [abs(b - a) for (one, a), (other, b) in itertools.pairwise(logs) if one == other]
            for regime in self.of(own):
                if not regime.between or regime.of or in_most:
                    pairs.setdefault(regime, []).extend(apart if regime.between else near)
                    seen[regime] = max(many, seen.get(regime, 0)) if regime.between else 1
        # Other studies draw different particles, and interleave different work.
        for several in grouped(timed, lambda own: _work(own[0])).values():
            means = [np.log([t.record.median_ms or 1 for t in own]).mean() for own in several]
            apart = [abs(b - a) for a, b in itertools.combinations(means, 2)]
            in_most = most in (runs[own[0].key] for own in several)
            for regime in self.of(several[0]) if apart else ():
                if regime.between and (regime.of or in_most):
                    pairs.setdefault(regime, []).extend(apart)
        enough = {regime: each for regime, each in pairs.items() if len(each) >= FEWEST_PAIRS}
        ends = {at: np.quantile(each, COVERED, method="higher") for at, each in enough.items()}
        return {at: float(end) * _few(seen.get(at, 1)) for at, end in ends.items()}


def _work(timing: Timing) -> tuple[Any, ...]:
    """Return the fields that identify the timed work across studies: a key without the study."""
    parameters, _, *rest = timing.key
    return parameters, *rest, timing.version


def _few(runs: int) -> float:
    """Return the factor by which the spread between few runs may be too small; 1 for one run.

    Times in one run have correlated errors: on an H100, the 66 short times of a run tell as much as
    4 independent ones. So the factor is the ratio of Student's 95 % quantile, with 4 degrees of
    freedom for each run but the first, to the normal one (Abramowitz and Stegun, 26.7.5).
    """
    freedom = 4 * (runs - 1)
    return 1 + 1.21 / freedom + 1.44 / freedom**2 if freedom else 1.0


def hashable(value: Any) -> Any:
    """Return a field's value with lists and objects as tuples."""
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    return tuple(value) if isinstance(value, list) else value


def _that_count(timings: Sequence[Timing]) -> tuple[list[Timing], int]:
    """Return the newest code's timings with the first status in STATUSES; the number of others."""
    settled = [timing for timing in timings if not is_waiting(timing.record)] or [timings[-1]]
    last = settled[-1].version  # lacks the library's version if skipped
    newest = next((t.version for t in settled[::-1] if t.version.startswith(f"{last} ")), last)
    of_newest = (each for each in settled if each.version in (last, newest))
    by_status = grouped(of_newest, lambda each: each.record.status)
    found = by_status[min(by_status, key=STATUSES.index)]
    if found[-1].record.status != "ok":  # keep the latest that had its library, else the latest
        found = [max(found[::-1], key=lambda t: "is not installed" not in str(t.record.reason))]
    return found, len(settled) - len(found)


def _pooled(
    timings: Sequence[Timing], replaced: int, regimes: Regimes, older: set[tuple[str, ...]]
) -> Measurement:
    first = timings[0]
    times = [timing.record for timing in timings if isinstance(timing.record, Ok)]
    n = len(times)
    spread, is_known = _spread(timings, regimes)
    known = n > 0 and first.code in older, regimes.is_short(first), is_known
    if not times or min(t.median_ms for t in times) <= 0 or (n == 1 and not spread):
        return Measurement(first.record, first.results, timings, replaced, 0.0, *known)
    center = sum(math.log(t.median_ms) for t in times) / n
    # Half-widths of independent timings add in quadrature.
    below = _half_width([(t.median_ms, t.ci95_low_ms) for t in times])
    above = _half_width([(t.ci95_high_ms, t.median_ms) for t in times])
    median_ms = math.exp(center) if n > 1 else times[0].median_ms
    rate = times[0].particle_steps_per_s
    record = msgspec.structs.replace(
        times[0],
        median_ms=median_ms,
        ci95_low_ms=math.exp(center - math.hypot(below, spread)),
        ci95_high_ms=math.exp(center + math.hypot(above, spread)),
        particle_steps_per_s=rate and rate * (times[0].median_ms / median_ms),
    )
    return Measurement(record, first.results, timings, replaced, spread, *known)


def _spread(timings: Sequence[Timing], regimes: Regimes) -> tuple[float, bool]:
    """Return how much to widen a pooled interval, and whether that covers the spread between runs.

    A later timing differs from a single one by the spread between runs, and from the mean of n runs
    by sqrt((1 + 1/n) / 2) times that spread. If only the spread within a run is known, the widening
    is the error of the mean of n timings: that spread over sqrt(2 n).
    """
    known = [regimes.spreads.get(each) for each in regimes.of(timings)] or [None] * 4
    between = max((each for each in known[2:] if each is not None), default=None)
    if between is not None:
        runs = len({timing.run for timing in timings})
        return between * math.sqrt((1 + 1 / runs) / 2), regimes.most > 1
    alone = next((each for each in known[:2] if each is not None), 0.0)
    return alone / math.sqrt(2 * len(timings)), False


def _half_width(ends: Sequence[tuple[float, float]]) -> float:
    logs = [math.log(above / below) if below > 0 else math.inf for above, below in ends]
    return math.sqrt(sum(log * log for log in logs)) / len(logs)
