"""Which algorithm to take: rules of one line, with what each costs over the best of each input."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpubench.report import formats
from gpubench.report.rankings import Field, moved_share
from gpubench.report.tables import Item, Row, Table

_MOST_SINGLE = 3  # choices that are told beside the rule


@dataclass(frozen=True)
class Rule:
    """One algorithm up to a number of particles, and another above; up_to: None for one alone.

    costs: its time over the best of each input.
    """

    first: str
    above: str
    up_to: int | None
    costs: NDArray[np.float64]

    def words(self) -> str:
        """Write it in one line."""
        if self.up_to is None:
            return f"{self.first} at every size"
        return f"{self.first} up to {formats.power(self.up_to)} particles, {self.above} above"

    @property
    def rank(self) -> tuple[float, float]:
        """What it costs in the worst case, then on average; the lower the better."""
        return round(float(self.costs.max()), 3), float(np.log(self.costs).sum())


@dataclass(frozen=True)
class Answer:
    """The answer to a task: the best rule, and what it and the best single choices cost."""

    task: str
    rule: Rule
    table: Table


def answer(field: Field, task: str) -> Answer | None:
    """Find the best rule of one line for a task; None where no algorithm ran on every input.

    The best costs least in the worst case, then on average, over all inputs where nothing moved.
    """
    races = [r for r in field.races if r.task == task and moved_share(r.place) is None]
    races.sort(key=lambda race: race.place.particles or 0)
    costs: dict[str, list[float]] = {}
    for race in races:
        for cell in race.cells:
            cost = cell.median_ms / race.winner.median_ms
            costs.setdefault(cell.subject.algorithm, []).append(cost)
    everywhere = [
        Rule(name, name, None, np.array(own))
        for name, own in costs.items()
        if len(own) == len(races)
    ]
    if not everywhere:
        return None
    singles = sorted(everywhere, key=lambda rule: rule.rank)[:_MOST_SINGLE]
    sizes = [race.place.particles or 0 for race in races]
    pairs = [_pair(one, other, sizes) for one, other in itertools.permutations(singles, 2)]
    best = min([singles[0], *filter(None, pairs)], key=lambda rule: rule.rank)
    shown = singles if best is singles[0] else [best, *singles]
    table = Table(
        f"Its time over that of the fastest, on {len(races)} inputs",
        ["Choice", "median", "95 % up to", "worst"],
        [
            Row(
                f"{rule.first} alone" if rule.up_to is None else "this rule",
                _items(rule.costs, rule is best),
            )
            for rule in shown
        ],
    )
    return Answer(task, best, table)


def _pair(few: Rule, many: Rule, sizes: Sequence[int]) -> Rule | None:
    """Return the best rule of two single choices; sizes: of their inputs, ascending."""
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


def _items(costs: NDArray[np.float64], strong: bool) -> list[Item]:
    numbers = (float(np.quantile(costs, share)) for share in (0.5, 0.95, 1.0))
    return [Item(f"{number:.2f}", strong=strong) for number in numbers]
