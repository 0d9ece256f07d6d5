"""What re-sorting saves where some particles have moved, and up to which share of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpubench.evidence.crossover import FIRST, NEITHER, SECOND, Compared, Crossing, Ratio, compare
from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import grouped
from gpubench.report.figures import Axis, Chart, line_chart, panel, time_point
from gpubench.report.pages import NOTHING, Item, Row, Table
from gpubench.report.rankings import Race, Searches, find, lines_over, moved_share, updates

_MOST_REBUILDS = 3  # lines of a panel
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_NANOSECONDS = 1e6  # in a millisecond
_MOVED = Axis("% of the particles in another cell than before", "with zero")


@dataclass(frozen=True)
class Moves:
    """Races by the share that moved, ascending, all else the same."""

    particles: int
    per_cell: float
    races: dict[float, Race]

    @property
    def title(self) -> str:
        """What is the same."""
        return f"{AXES['particles'].say(self.particles)}, {AXES['per_cell'].say(self.per_cell)}"

    def names(self, *, updating: bool) -> list[str]:
        """Return the algorithms that bring a structure up to date, or that build it anew."""
        cells = [cell for race in self.races.values() for cell in race]
        found = (cell.subject.algorithm for cell in cells if updates(cell) == updating)
        return list(dict.fromkeys(found))

    def rebuilds(self) -> list[str]:
        """Return the algorithms that build it anew, fastest first."""

        def mean(name: str) -> tuple[int, float]:
            own = [cell for race in self.races.values() if (cell := find(race, name))]
            return -len(own), sum(math.log(cell.median_ms) for cell in own)

        return sorted(self.names(updating=False), key=mean)

    def against_rebuild(self, resort: str) -> Compared | None:
        """Compare a re-sort with the fastest rebuild at each share; None without two shares."""
        both = self.ratios(resort)
        return compare(list(both), list(both.values())) if len(both) > 1 else None

    def ratios(self, resort: str) -> dict[float, Ratio]:
        """Return by share the time of a re-sort over that of the fastest rebuild."""
        return {
            share: own.over(rebuilt[0])
            for share, race in self.races.items()
            if (own := find(race, resort)) and (rebuilt := [c for c in race if not updates(c)])
        }


def gather(searches: Searches) -> list[Moves]:
    """Return the races over the share that moved, for each occupancy and number of particles."""
    races = searches.by_task.get("update", [])
    names = ("distribution", "order", "destination")
    kinds = grouped(races, lambda race: tuple(getattr(race[0].place, name) for name in names))
    usual = max(kinds.values(), key=len, default=[])
    sizes = grouped(usual, lambda r: (r[0].place.per_cell or 0.0, r[0].place.particles or 0))
    found = []
    for (per_cell, particles), own in sorted(sizes.items()):
        shares = {moved_share(race[0].place) or 0.0: race for race in reversed(own)}
        if len(shares) > 1:
            found.append(Moves(particles, per_cell, dict(sorted(shares.items()))))
    return found


def table(searches: Searches) -> Table | None:
    """Return up to which share each re-sort pays, a row for each input; None without any."""
    found = gather(searches)
    names = list(dict.fromkeys(name for each in found for name in each.names(updating=True)))
    rows = [
        Row(
            f"{AXES['particles'].write(each.particles)}, {AXES['per_cell'].say(each.per_cell)}",
            [_pays_item(each.against_rebuild(name)) for name in names],
        )
        for each in found
    ]
    return Table(
        "Up to which share of moved particles a re-sort is faster than the fastest rebuild",
        ["Particles", *names],
        rows,
        notes=[
            "Both end with a count of neighbours. Below each share: the range that the 95 %"
            " intervals allow; an ellipsis: to the end of what was measured."
        ],
    ) if names else None  # fmt: skip


def _pays_item(compared: Compared | None) -> Item:
    if compared is None:
        return NOTHING
    if crossings := compared.crossings:
        return Item(_stretches(crossings), detail="; ".join(map(_share_ends, crossings)))
    words = {FIRST: "everywhere", SECOND: "nowhere", NEITHER: "inconclusive"}
    return Item(words[compared.faster or NEITHER], "none")


def _stretches(crossings: Sequence[Crossing]) -> str:
    """Say where a re-sort pays: from one crossing to the next, or to an end measured."""
    said = []
    begin = ""
    for crossing in crossings:
        at = formats.percent(crossing.at)
        if crossing.faster_before == FIRST:
            said.append(f"{begin} to {at}" if begin else at)
        begin = at
    if crossings[-1].faster_after == FIRST:
        said.append(f"above {begin}")
    return ", ".join(said)


def _share_ends(crossing: Crossing) -> str:
    low, high = (
        _ELLIPSIS if end is None else formats.significant(100 * end)
        for end in (crossing.low, crossing.high)
    )
    return f"{low} to {high} %"


def chart(searches: Searches, slug: str) -> Chart | None:
    """Draw the time against the share that moved, a panel for each size and occupancy."""
    panels = []
    for each in gather(searches):
        resorts = each.names(updating=True)
        scale = _NANOSECONDS / each.particles
        lines = lines_over(
            searches,
            [(round(100 * share, 6), race) for share, race in each.races.items()],
            lambda x, cell, scale=scale: time_point(x, cell, scale),  # type: ignore[misc]
            [*resorts, *each.rebuilds()[:_MOST_REBUILDS]],
        )
        lines = [replace(line, variant=int(line.label not in resorts)) for line in lines]
        what = "Time against the share moved"
        panels.append(panel(each.title, lines, what, "ns per particle"))
    return line_chart(
        f"{slug}-moved",
        "One step where particles have moved: re-sort or rebuild",
        f"Solid: updated, then counted. Dashed: built anew (the {_MOST_REBUILDS} fastest), then"
        " counted.",
        _MOVED,
        Axis("median time, ns per particle", "number"),
        panels,
    )
