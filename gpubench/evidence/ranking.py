"""Rank measurements of equal work, and compute the cost of a single choice over many inputs.

Only complete, right answers of one group (see `declared.EqualWork`) on one input are ranked, in
each mode and by device time (docs/measuring.md). All that may be the fastest share first place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gpubench.evidence.crossover import Ratio, Timed
from gpubench.evidence.declared import EqualWork, group, lost
from gpubench.evidence.pooling import AXES, Measurement, grouped, hashable
from gpubench.evidence.records import AnyRecord, Ok, Record


class Variant(NamedTuple):
    """An entrant on one input: a variant of an algorithm, with its parameters by name."""

    algorithm: str
    form: str
    parameters: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, record: Record) -> Variant:
        """Return the variant of a record."""
        return cls(record.algorithm, record.form, hashable(record.parameters))

    @property
    def label(self) -> str:
        """Its display name."""
        given = ", ".join(f"{name}={value:g}" for name, value in self.parameters)
        return f"{self.algorithm} {self.form}" + (f" ({given})" if given else "")


SIMPLER = 1.05  # minimum gain, in the worst case or on average, to prefer a rule of two choices
MODES = ("graph", "hot", "cold")  # nearest to device time first
UNATTENDED = 50  # steps in a call of which Python's launch is no part worth dividing
_INPUT = tuple(name for name in AXES if name not in (*Variant._fields, "mode"))
_SUBJECT_AND_INPUT = tuple(name for name in AXES if name != "mode")


def unranked(record: AnyRecord) -> tuple[str, str] | None:
    """Return the status and the reason if a record has no time for the complete work, or None."""
    if not isinstance(record, Ok):
        return record.status, record.reason
    if missing := lost(record):
        return "wrong", f"incomplete: {missing:,} lost"
    return None if record.ci95_low_ms > 0 else ("failed", "too short for the clock")


def may_rank(record: AnyRecord) -> TypeGuard[Ok]:
    """Return whether a record has a time for the complete work: right, complete, measurable."""
    return unranked(record) is None


class Standing(NamedTuple):
    """A place among equal work on one input. rank: 1 for the fastest. ratio: time over the fastest.

    time: the ranked time; for an entrant without a graph that does fewer than UNATTENDED steps in a
    call, the fastest graph's times the ratio of launched times. is_first: no rival is known faster.
    """

    rank: int
    ratio: Ratio
    is_first: bool
    time: Timed


class Ranked(NamedTuple):
    """A measurement with its places in rankings.

    in_mode: its place among those timed in its mode; by_device_time: its place among all entrants,
    each in the mode nearest to device time. None where it may not be ranked.
    """

    measurement: Measurement
    group: EqualWork
    in_mode: Standing | None
    by_device_time: Standing | None


def rank(measured: Sequence[Measurement]) -> list[list[Ranked]]:
    """Rank measurements within each group, input and mode, fastest first, unranked ones last.

    An algorithm that is wrong in one mode is unranked in all. Older code is not ranked with newer.
    """
    bad = (each for each in measured if each.record.status == "wrong")
    wrong = {_values(each, _SUBJECT_AND_INPUT) for each in bad}
    found = []
    races = grouped(measured, lambda each: (group(each.record), *_values(each, _INPUT)))
    for (own, *_), race in races.items():
        by_mode: dict[str, dict[Variant, Timed]] = {}
        unattended = set()
        for each in [each for each in race if not each.is_older] or race:
            record, subject = each.record, Variant.of(each.record)
            if may_rank(record) and _values(each, _SUBJECT_AND_INPUT) not in wrong:
                time = Timed(record.median_ms, record.ci95_low_ms, record.ci95_high_ms)
                by_mode.setdefault(record.mode, {})[subject] = time
                unattended |= {subject} if (record.steps or 0) >= UNATTENDED else set()
        places = {mode: _standings(times) for mode, times in by_mode.items()}
        modes, device = _device_standings(by_mode, unattended)
        for mode, alike in grouped(race, lambda each: each.record.mode).items():
            ranked = []
            for each in alike:
                subject = Variant.of(each.record)
                by_device = device[subject] if modes.get(subject) == mode else None
                ranked.append(Ranked(each, own, places.get(mode, {}).get(subject), by_device))
            ranked.sort(key=lambda each: each.in_mode.rank if each.in_mode else math.inf)
            found.append(ranked)
    return found


def _values(each: Measurement, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(hashable(getattr(each.record, name)) for name in names)


def _standings(times: Mapping[Variant, Timed]) -> dict[Variant, Standing]:
    ordered = sorted(times.items(), key=lambda item: item[1].median)
    found = {}
    for place, (subject, time) in enumerate(ordered, start=1):
        ratio = time.over(ordered[0][1])
        is_first = len(ordered) > 1 and (place == 1 or ratio.low <= 1)
        found[subject] = Standing(place, ratio, is_first, time)
    return found


def _device_standings(
    by_mode: Mapping[str, Mapping[Variant, Timed]], unattended: Collection[Variant]
) -> tuple[dict[Variant, str], dict[Variant, Standing]]:
    """Return the mode in which each entrant is ranked by device time, and its place there.

    Entrants that share no mode with the fastest are left out.
    """
    first = next((mode for mode in MODES if mode in by_mode), MODES[0])
    times = dict(by_mode.get(first, {}))
    modes = dict.fromkeys(times, first)
    best = min(times, key=lambda subject: times[subject].median, default=None)
    launched = by_mode.get("hot", {})
    if best and best in launched:
        for subject in launched.keys() - times.keys():
            ratio, unit = launched[subject].over(launched[best]), times[best].median
            as_timed = Timed(*(unit * each for each in (ratio.value, ratio.low, ratio.high)))
            times[subject] = launched[subject] if subject in unattended else as_timed
            modes[subject] = "hot"
    return modes, _standings(times)


class Rule(NamedTuple):
    """Use `first` up to the size `up_to`, and `above` beyond; up_to: None for a single choice.

    costs: the rule's time over the fastest time on each input, in order of size.
    """

    first: str
    above: str
    up_to: float | None
    costs: NDArray[np.float64]

    @property
    def price(self) -> tuple[float, float]:
        """The worst cost, and the sum of the costs' logarithms; lower is better."""
        return round(float(self.costs.max()), 3), float(np.log(self.costs).sum())


def single_choices(times: Sequence[tuple[float, Mapping[str, float]]]) -> list[Rule]:
    """Return the cost of each choice if used everywhere, cheapest first.

    times: the size of each input and the time of each choice on it, by ascending size. Only choices
    that were timed on every input compete.
    """
    costs: dict[str, list[float]] = {}
    for _, by_thing in times:
        best = min(by_thing.values())
        for thing, ms in by_thing.items():
            costs.setdefault(thing, []).append(ms / best)
    able = {thing: np.array(own) for thing, own in costs.items() if len(own) == len(times)}
    return sorted((Rule(t, t, None, own) for t, own in able.items()), key=lambda rule: rule.price)


def best_rule(singles: Sequence[Rule], sizes: Sequence[float]) -> Rule:
    """Return the cheapest rule: two choices split at a size, if that pays, else a single choice.

    sizes: sizes of the inputs to which the costs belong, ascending.
    """
    pairs = [
        Rule(few.first, many.first, up_to, np.where(np.array(sizes) > up_to, many.costs, few.costs))
        for few, many in itertools.permutations(singles, 2)
        for up_to in sorted({*sizes})[:-1]
    ]
    best = min([singles[0], *pairs], key=lambda rule: rule.price)
    single, two = singles[0].costs, best.costs
    saved = max(single.max() / two.max(), np.exp(np.log(single / two).mean()))
    return best if saved > SIMPLER else singles[0]
