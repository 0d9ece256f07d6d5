"""Ranks among measurements of equal work, and what a single choice costs over many inputs.

Only complete, right answers of one group (see `declared.Group`) on one input in one mode are
ranked. A lead is one where the interval of the ratio of two times lies above 1; the others share
the first place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gpubench.evidence.crossover import Ratio, Timed
from gpubench.evidence.declared import Group, group, lost
from gpubench.evidence.pooling import AXES, Measurement

Times: TypeAlias = Mapping[Hashable, Mapping[Hashable, float]]

# What tells subjects apart on one input.
SUBJECT = ("algorithm", "form", "parameters")
_INPUT = tuple(name for name in AXES if name not in SUBJECT)


def timed(record: Mapping[str, Any]) -> Timed:
    """Return the time of a record in milliseconds."""
    return Timed(record["median_ms"], record["ci95_low_ms"], record["ci95_high_ms"])


def may_rank(record: Mapping[str, Any]) -> bool:
    """Say whether a record has a time for all of the work: right, complete, and measurable."""
    return record["status"] == "ok" and not lost(record) and record["ci95_low_ms"] > 0


@dataclass(frozen=True)
class Ranked:
    """One measurement among others. rank: 1 for the fastest; None where it may not be ranked.

    ratio: its time over that of the fastest. is_first: whether no other is known to be faster.
    """

    measurement: Measurement
    group: Group
    rank: int | None
    ratio: Ratio | None
    is_first: bool


def rank(measured: Sequence[Measurement]) -> list[list[Ranked]]:
    """Rank measurements within each group, input and mode, fastest first, unranked ones last."""
    races: dict[tuple[Any, ...], list[Measurement]] = {}
    for each in measured:
        races.setdefault((group(each.record), *_input(each.record)), []).append(each)
    return [_ranked(race) for race in races.values()]


def _ranked(race: Sequence[Measurement]) -> list[Ranked]:
    own = group(race[0].record)
    able = sorted(
        (each for each in race if may_rank(each.record)), key=lambda e: float(e.record["median_ms"])
    )
    found = []
    for place, each in enumerate(able, start=1):
        to_first = timed(each.record).over(timed(able[0].record))
        found.append(Ranked(each, own, place, to_first, place == 1 or to_first.low <= 1))
    rest = [each for each in race if not may_rank(each.record)]
    return [*found, *(Ranked(each, own, None, None, False) for each in rest)]


def _input(record: Mapping[str, Any]) -> tuple[Any, ...]:
    found = (record[name] for name in _INPUT)
    return tuple(tuple(value) if isinstance(value, list) else value for value in found)


class Cost(NamedTuple):
    """What it costs to take one thing everywhere: its time over the best there was.

    inputs: on how many it was timed; of: how many there are.
    """

    median: float
    p95: float
    worst: float
    inputs: int
    of: int


def cost(times: Times, choice: Callable[[Hashable], Hashable | None]) -> Cost | None:
    """Return what a rule costs that names a thing for each input; None where it is never timed.

    times: the time of each thing on each input, in any one unit.
    """
    ratios = [
        by_thing[thing] / min(by_thing.values())
        for place, by_thing in times.items()
        if (thing := choice(place)) is not None and thing in by_thing
    ]
    if not ratios:
        return None
    median, p95 = np.quantile(ratios, (0.5, 0.95))
    return Cost(float(median), float(p95), max(ratios), len(ratios), len(times))


class Rule(NamedTuple):
    """One thing for small inputs, another from a size on."""

    small: Hashable
    large: Hashable
    size: float


def best_single(times: Times) -> tuple[Hashable, Cost] | None:
    """Return the thing that costs least where it is taken everywhere.

    Least is by the 95th percentile, then by the median. Those that were timed on the most inputs
    compete. None where nothing was timed.
    """
    costs = {thing: _cost_of(times, thing) for thing in _things(times)}
    known = {thing: found for thing, found in costs.items() if found is not None}
    if not known:
        return None
    most = max(found.inputs for found in known.values())
    able = {thing: found for thing, found in known.items() if found.inputs == most}
    best = min(able, key=lambda thing: (able[thing].p95, able[thing].median))
    return best, able[best]


def best_rule(times: Times, size_of: Callable[[Hashable], float]) -> tuple[Rule, Cost] | None:
    """Return the rule of one line that costs least: two things, and the size that parts them.

    Only what was timed on every input competes. The size lies halfway, as a logarithm, between
    two that were measured. None where there are no two sizes or no two things.
    """
    things = [thing for thing in _things(times) if all(thing in each for each in times.values())]
    sizes = sorted({size_of(place) for place in times})
    found: list[tuple[Rule, Cost]] = []
    for low, high in itertools.pairwise(sizes):
        for small, large in itertools.permutations(things, 2):
            rule = Rule(small, large, math.sqrt(low * high))
            costs = cost(times, partial(_of, rule, size_of))
            assert costs is not None
            found.append((rule, costs))
    return min(found, key=lambda each: (each[1].p95, each[1].median), default=None)


def _things(times: Times) -> list[Hashable]:
    return list(dict.fromkeys(thing for by_thing in times.values() for thing in by_thing))


def _cost_of(times: Times, thing: Hashable) -> Cost | None:
    return cost(times, lambda place: thing)


def _of(rule: Rule, size_of: Callable[[Hashable], float], place: Hashable) -> Hashable:
    return rule.small if size_of(place) < rule.size else rule.large
