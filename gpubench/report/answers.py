"""Which algorithm to take: a rule of one line, with what it costs over the best of each input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpubench.evidence.ranking import Rule, best_rule, single_choices
from gpubench.report import formats
from gpubench.report.pages import Item, Row, Table
from gpubench.report.rankings import Searches, moved_share

_MOST_SINGLE = 3  # choices that are told beside the rule


@dataclass(frozen=True)
class Answer:
    """The answer to a task: the best rule, and what it and the best single choices cost."""

    rule: Rule
    table: Table

    @property
    def words(self) -> str:
        """The rule in one line."""
        first, up_to = self.rule.first, self.rule.up_to
        if up_to is None:
            return f"{first} at every size"
        return f"{first} up to {formats.power(int(up_to))} particles, {self.rule.above} above"


def answer(searches: Searches, task: str) -> Answer | None:
    """Find the best rule of one line for a task; None where no algorithm ran on every input.

    The best costs least in the worst case, then on average, over all inputs where nothing moved.
    """
    found = searches.by_task.get(task, [])
    races = [race for race in found if moved_share(race[0].place) is None]
    races.sort(key=lambda race: race[0].place.particles or 0)
    times = [
        (race[0].place.particles or 0, {c.subject.algorithm: c.median_ms for c in race})
        for race in races
    ]
    singles = single_choices(times)[:_MOST_SINGLE]
    if not singles:
        return None
    best = best_rule(singles, [size for size, _ in times])
    shown = singles if best is singles[0] else [best, *singles]
    rows = [
        Row(
            f"{rule.first} alone" if rule.up_to is None else "this rule",
            [
                Item(f"{np.quantile(rule.costs, share):.2f}", strong=rule is best)
                for share in (0.5, 0.95, 1.0)
            ],
        )
        for rule in shown
    ]
    caption = f"Time of a choice over that of the fastest search, on {len(races)} inputs"
    return Answer(best, Table(caption, ["Choice", "median", "95th percentile", "worst"], rows))
