"""Which algorithm to take: a rule of one line, with what it costs over the best of each input."""

from __future__ import annotations

import numpy as np

from gpubench.evidence.ranking import best_rule, single_choices
from gpubench.report import formats
from gpubench.report.pages import Item, Row, Table
from gpubench.report.rankings import Searches, moved_share

_MOST_SINGLE = 3  # choices that are told beside the rule


def answer(searches: Searches, task: str) -> tuple[str, Table] | None:
    """Find the best rule of one line for a task, and what it and the best single choices cost.

    None where no algorithm ran on every input. The best costs least in the worst case, then on
    average, over all inputs where nothing moved.
    """
    found = searches.by_task.get(task, [])
    races = [race for race in found if moved_share(race[0].place) is None]
    races.sort(key=lambda race: race[0].place.count)
    times = [
        (race[0].place.count, {c.subject.algorithm: c.median_ms for c in race}) for race in races
    ]
    singles = single_choices(times)[:_MOST_SINGLE]
    if not singles:
        return None
    best = best_rule(singles, [size for size, _ in times])
    rows = [
        Row(
            f"{rule.first} alone" if rule.up_to is None else "this rule",
            [
                Item(f"{np.quantile(rule.costs, share):.2f}", strong=rule is best)
                for share in (0.5, 0.95, 1.0)
            ],
        )
        for rule in (singles if best is singles[0] else [best, *singles])
    ]
    said = f"{best.first} at every size"
    if best.up_to is not None:
        said = f"{best.first} up to {formats.power(int(best.up_to))} particles, {best.above} above"
    caption = f"Time of a choice over that of the fastest search, on {len(races)} inputs"
    return said, Table(caption, ["Choice", "median", "95th percentile", "worst"], rows)
