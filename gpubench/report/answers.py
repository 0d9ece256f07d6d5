"""Which algorithm to take: a rule of one line, with what it costs over the best of each input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpubench.evidence.ranking import Rule, best_rule, single_choices
from gpubench.report import formats
from gpubench.report.rankings import Field, moved_share
from gpubench.report.tables import Item, Row, Table

_MOST_SINGLE = 3  # choices that are told beside the rule


@dataclass(frozen=True)
class Answer:
    """The answer to a task: the best rule, and what it and the best single choices cost."""

    task: str
    rule: Rule
    table: Table

    @property
    def words(self) -> str:
        """The rule in one line."""
        first, up_to = self.rule.first, self.rule.up_to
        if up_to is None:
            return f"{first} at every size"
        return f"{first} up to {formats.power(int(up_to))} particles, {self.rule.above} above"


def answer(field: Field, task: str) -> Answer | None:
    """Find the best rule of one line for a task; None where no algorithm ran on every input.

    The best costs least in the worst case, then on average, over all inputs where nothing moved.
    """
    races = [r for r in field.races if r.task == task and moved_share(r.place) is None]
    races.sort(key=lambda race: race.place.particles or 0)
    times = [
        (race.place.particles or 0, {c.subject.algorithm: c.median_ms for c in race.cells})
        for race in races
    ]
    singles = single_choices(times)[:_MOST_SINGLE]
    if not singles:
        return None
    best = best_rule(singles, [size for size, _ in times])
    shown = singles if best is singles[0] else [best, *singles]
    table = Table(
        f"Its time over that of the fastest, on {len(races)} inputs",
        ["Choice", "median", "95 % up to", "worst"],
        [
            Row(
                f"{rule.first} alone" if rule.up_to is None else "this rule",
                [
                    Item(f"{np.quantile(rule.costs, share):.2f}", strong=rule is best)
                    for share in (0.5, 0.95, 1.0)
                ],
            )
            for rule in shown
        ],
    )
    return Answer(task, best, table)
