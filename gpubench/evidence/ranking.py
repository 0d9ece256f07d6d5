"""Ranks among measurements of equal work, and what a single choice costs over many inputs.

Only complete, right answers of one group (see `declared.Group`) on one input in one mode are
ranked. A lead is one where the interval of the ratio of two times lies above 1; the others share
the first place.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gpubench.evidence.crossover import Ratio, Timed
from gpubench.evidence.declared import EqualWork, group, lost
from gpubench.evidence.pooling import AXES, Measurement, grouped, hashable
from gpubench.evidence.records import AnyRecord, Ok, Record


class Variant(NamedTuple):
    """What is compared on one input: a variant of an algorithm, with its parameters by name."""

    algorithm: str
    form: str
    parameters: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, record: Record) -> Variant:
        """Return the subject of a record."""
        return cls(record.algorithm, record.form, hashable(record.parameters))

    @property
    def label(self) -> str:
        """Its name for people."""
        given = ", ".join(f"{name}={value:g}" for name, value in self.parameters)
        return f"{self.algorithm} {self.form}" + (f" ({given})" if given else "")


_INPUT = tuple(name for name in AXES if name not in Variant._fields)
_SUBJECT_AND_INPUT = tuple(name for name in AXES if name != "mode")


def timed(record: Ok) -> Timed:
    """Return the time of a record in milliseconds."""
    return Timed(record.median_ms, record.ci95_low_ms, record.ci95_high_ms)


def unranked(record: AnyRecord) -> tuple[str, str] | None:
    """Return the status and the reason of what has no time for all of the work; else None."""
    if not isinstance(record, Ok):
        return record.status, record.reason
    if missing := lost(record):
        return "wrong", f"incomplete: {missing:,} lost"
    return None if record.ci95_low_ms > 0 else ("failed", "too short for the clock")


def may_rank(record: AnyRecord) -> TypeGuard[Ok]:
    """Say whether a record has a time for all of the work: right, complete, and measurable."""
    return unranked(record) is None


@dataclass(frozen=True)
class Ranked:
    """One measurement among others. rank: 1 for the fastest; None where it may not be ranked.

    ratio: its time over that of the fastest. is_first: whether no other is known to be faster.
    """

    measurement: Measurement
    group: EqualWork
    rank: int | None
    ratio: Ratio | None
    is_first: bool


def rank(measured: Sequence[Measurement]) -> list[list[Ranked]]:
    """Rank measurements within each group, input and mode, fastest first, unranked ones last.

    What is wrong in one mode has a rank in none.
    """
    bad = (each for each in measured if each.record.status == "wrong")
    wrong = {_values(each, _SUBJECT_AND_INPUT) for each in bad}
    races = grouped(measured, lambda each: (group(each.record), *_values(each, _INPUT)))
    return [_ranked(own, race, wrong) for (own, *_), race in races.items()]


def _values(each: Measurement, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(hashable(getattr(each.record, name)) for name in names)


def _ranked(
    own: EqualWork, race: Sequence[Measurement], wrong: Collection[tuple[Any, ...]]
) -> list[Ranked]:
    apart = {id(each) for each in race if wrong and _values(each, _SUBJECT_AND_INPUT) in wrong}
    able = [
        (timed(each.record), each)
        for each in race
        if may_rank(each.record) and id(each) not in apart
    ]
    able.sort(key=lambda pair: pair[0].median)
    ratios = [time.over(able[0][0]) for time, _ in able]
    found = [
        Ranked(each, own, place, ratio, place == 1 or ratio.low <= 1)
        for place, ((_, each), ratio) in enumerate(zip(able, ratios, strict=True), start=1)
    ]
    ranked = {id(each) for _, each in able}
    rest = [each for each in race if id(each) not in ranked]
    return [*found, *(Ranked(each, own, None, None, False) for each in rest)]


@dataclass(frozen=True)
class Rule:
    """One thing up to a size, and another above; up_to: None for one thing at every size.

    costs: its time over the best of each input, in the order of the sizes.
    """

    first: str
    above: str
    up_to: float | None
    costs: NDArray[np.float64]

    @property
    def price(self) -> tuple[float, float]:
        """What it costs in the worst case, then on average; the lower the better."""
        return round(float(self.costs.max()), 3), float(np.log(self.costs).sum())


def single_choices(times: Sequence[tuple[float, Mapping[str, float]]]) -> list[Rule]:
    """Return what taking each thing everywhere costs, the cheapest first.

    times: of each input, its size and the time of each thing there, sizes ascending. Only things
    that were timed on every input compete.
    """
    costs: dict[str, list[float]] = {}
    for _, by_thing in times:
        best = min(by_thing.values())
        for thing, ms in by_thing.items():
            costs.setdefault(thing, []).append(ms / best)
    everywhere = [
        Rule(thing, thing, None, np.array(own))
        for thing, own in costs.items()
        if len(own) == len(times)
    ]
    return sorted(everywhere, key=lambda rule: rule.price)


def best_rule(singles: Sequence[Rule], sizes: Sequence[float]) -> Rule:
    """Return the cheapest rule of one line: a single choice, or two parted by a size.

    sizes: of the inputs that the costs of the choices are over, ascending.
    """
    pairs = (_parted(one, other, sizes) for one, other in itertools.permutations(singles, 2))
    return min([singles[0], *(pair for pair in pairs if pair)], key=lambda rule: rule.price)


def _parted(few: Rule, many: Rule, sizes: Sequence[float]) -> Rule | None:
    """Return the cheapest rule of two single choices; None where there is one size only."""
    last = np.flatnonzero(np.diff(sizes))  # of each size but the largest
    if not len(last):
        return None
    worst = np.maximum(
        np.maximum.accumulate(few.costs)[last],
        np.maximum.accumulate(many.costs[::-1])[::-1][last + 1],
    )
    total = np.cumsum(np.log(few.costs) - np.log(many.costs))[last]
    at = last[np.lexsort((total, worst.round(3)))[0]]
    costs = np.concatenate([few.costs[: at + 1], many.costs[at + 1 :]])
    return Rule(few.first, many.first, sizes[at], costs)
