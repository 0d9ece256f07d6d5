"""What re-sorting saves where some particles have moved, and up to which share of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from gpubench.evidence.crossover import FIRST, NEITHER, Compared, Crossing, Ratio, compare
from gpubench.report import formats
from gpubench.report.axes import AXES
from gpubench.report.cells import Cell, StudyRun
from gpubench.report.figures import Axis, Chart, Line, Panel, describe, line_chart
from gpubench.report.rankings import Field, Race, lines_over, moved_share, timed, updates
from gpubench.report.tables import NOTHING, Item, Row, Table

_MOST_REBUILDS = 3  # lines of a panel
_CLOSE = 1.3  # times a rebuild, from which on a re-sort is not shown beside it
_WELL = 0.8  # times a rebuild: what is shown goes at least so far down
_NANOSECONDS = 1e6  # in a millisecond


@dataclass(frozen=True)
class Moves:
    """Races over the share that moved, all else the same; ascending."""

    particles: int
    per_cell: float
    races: Sequence[Race]

    @property
    def resorts(self) -> list[str]:
        """Algorithms that bring a structure up to date."""
        return self._names(True)

    @cached_property
    def rebuilds(self) -> list[str]:
        """Algorithms that build it anew, fastest first."""
        names = self._names(False)

        def mean(name: str) -> tuple[int, float]:
            own = [cell for race in self.races if (cell := race.of(name)) is not None]
            return -len(own), sum(math.log(cell.median_ms) for cell in own)

        return sorted(names, key=mean)

    def _names(self, updating: bool) -> list[str]:
        return list(
            dict.fromkeys(
                cell.subject.algorithm
                for race in self.races
                for cell in race.cells
                if updates(cell) == updating
            )
        )

    def against_rebuild(self, resort: str) -> Compared | None:
        """Compare a re-sort with the fastest rebuild at each share; None without two shares."""
        both = self.ratios(resort)
        if len(both) < 2:
            return None
        shares, ratios = zip(*both, strict=True)
        return compare(shares, ratios)

    def ratios(self, resort: str) -> list[tuple[float, Ratio]]:
        """Return each share with the time of a re-sort over that of the fastest rebuild."""
        return [
            (moved_share(race.place) or 0.0, timed(own).over(timed(rebuilt[0])))
            for race in self.races
            for own in [race.of(resort)]
            for rebuilt in [[cell for cell in race.cells if not updates(cell)]]
            if own is not None and rebuilt
        ]


def gather(field: Field) -> list[Moves]:
    """Return the races over the share that moved, for each occupancy and number of particles."""
    found: dict[tuple[float, int], dict[float, Race]] = {}
    races = [race for race in field.races if race.task == "update"]
    kinds = Counter((r.place.distribution, r.place.order, r.place.destination) for r in races)
    for race in races:
        place, share = race.place, moved_share(race.place)
        kind = (place.distribution, place.order, place.destination)
        if share is not None and kind == kinds.most_common(1)[0][0]:
            at = place.per_cell or 0.0, place.particles or 0
            found.setdefault(at, {}).setdefault(share, race)
    return [
        Moves(particles, per_cell, [own[share] for share in sorted(own)])
        for (per_cell, particles), own in sorted(found.items())
        if len(own) > 1
    ]


def rows(run: StudyRun) -> list[dict[str, Any]]:
    """Return where each re-sort stops paying, for the CSV: shares between 0 and 1."""
    return [
        {
            "particles": each.particles,
            "per_cell": each.per_cell,
            "resort": name,
            "always": None if crossing else _always(compared),
            "crossover_share": crossing.at if crossing else None,
            "share_low": crossing.low if crossing else None,
            "share_high": crossing.high if crossing else None,
            "faster_below": None if crossing is None else _option(crossing),
        }
        for each in gather(Field.of(run))
        for name in each.resorts
        for compared in [each.against_rebuild(name)]
        if compared is not None
        for crossing in compared.each
    ]


def _option(crossing: Crossing) -> str:
    return "re-sort" if crossing.faster_before == FIRST else "rebuild"


def _always(compared: Compared) -> str:
    if compared.faster in (None, NEITHER):
        return "cannot tell"
    return "re-sort" if compared.faster == FIRST else "rebuild"


def _stretches(
    crossings: Sequence[Crossing],
) -> list[tuple[Crossing | None, Crossing | None]]:
    """Return where a re-sort pays: from one crossing to the next, None for an end measured."""
    bounds: list[Crossing | None] = list(crossings)
    if crossings and crossings[0].faster_before == FIRST:
        bounds.insert(0, None)
    if len(bounds) % 2:
        bounds.append(None)
    return list(zip(bounds[::2], bounds[1::2], strict=True))


def _stretch_text(begin: Crossing | None, end: Crossing | None) -> str:
    if end is None:
        assert begin is not None
        return f"above {formats.percent(begin.at)}"
    text = formats.percent(end.at)
    return text if begin is None else f"{formats.percent(begin.at)} to {text}"


def _share_ends(crossing: Crossing) -> str:
    ellipsis = "\N{HORIZONTAL ELLIPSIS}"
    low, high = (
        ellipsis if end is None else formats.significant(100 * end)
        for end in (crossing.low, crossing.high)
    )
    return f"{low} to {high} %"


def table(field: Field) -> Table | None:
    """Return up to which share each re-sort pays, a row for each input; None without any."""
    found = gather(field)
    names = list(dict.fromkeys(name for each in found for name in each.resorts))
    if not names:
        return None
    return Table(
        "Up to which share of moved particles a re-sort is faster than the fastest rebuild",
        ["Particles", *names],
        [
            Row(_input_words(each), [_pays_item(each.against_rebuild(name)) for name in names])
            for each in found
        ],
        notes=[
            "Both end with a count of neighbours. Below each share: where the 95 % intervals leave"
            " it open; an ellipsis: to the end of what was measured."
        ],
    )


def _pays_item(compared: Compared | None) -> Item:
    if compared is None:
        return NOTHING
    if crossings := compared.crossings:
        text = ", ".join(_stretch_text(*each) for each in _stretches(crossings))
        return Item(text, detail="; ".join(map(_share_ends, crossings)))
    words = {"re-sort": "everywhere", "rebuild": "nowhere"}
    return Item(words.get(_always(compared), "cannot tell"), "none")


def _input_words(each: Moves) -> str:
    return f"{AXES['particles'].write(each.particles)}, {AXES['per_cell'].say(each.per_cell)}"


def _scaled(scale: float, cell: Cell) -> float:
    return scale * cell.median_ms


def chart(field: Field, slug: str) -> Chart | None:
    """Draw the time against the share that moved, a panel for each size and occupancy."""
    panels = []
    for each in gather(field):
        names = [*each.resorts, *each.rebuilds[:_MOST_REBUILDS]]
        scale = _NANOSECONDS / each.particles
        races = [(round(100 * (moved_share(r.place) or 0.0), 6), r) for r in each.races]
        lines = lines_over(field, races, partial(_scaled, scale), names, scale=scale)
        lines = [
            Line(
                line.label, line.x, line.y, line.low, line.high, line.colour,
                0 if line.label in each.resorts else 1,
            )
            for line in lines
        ]  # fmt: skip
        title = f"{AXES['particles'].say(each.particles)}, {AXES['per_cell'].say(each.per_cell)}"
        words = describe("Time against the share moved", title, lines, "ns per particle")
        panels.append(Panel(title, lines, words))
    return line_chart(
        f"{slug}-moved",
        "One step where particles have moved: re-sort or rebuild",
        f"Solid: updated, then counted. Dashed: built anew (the {_MOST_REBUILDS} fastest), then"
        " counted.",
        Axis("% of the particles in another cell than before", "with zero"),
        Axis("median time, ns per particle", "number"),
        panels,
    )


def ratio_chart(field: Field, slug: str) -> Chart | None:
    """Draw what a re-sort takes over the fastest rebuild, of those that ever come close to it."""
    panels = []
    for each in gather(field):
        lines = []
        for name in each.resorts:
            points = each.ratios(name)
            if len(points) > 1 and min(ratio.value for _, ratio in points) < _CLOSE:
                lines.append(
                    Line(
                        name,
                        [round(100 * share, 6) for share, _ in points],
                        [ratio.value for _, ratio in points],
                        [ratio.low for _, ratio in points],
                        [ratio.high for _, ratio in points],
                        field.algorithms.index(name),
                    )
                )
        title = f"{AXES['particles'].say(each.particles)}, {AXES['per_cell'].say(each.per_cell)}"
        words = describe("Re-sort over rebuild", title, lines, "times as long")
        panels.append(Panel(title, lines, words))
    values = [y for panel in panels for line in panel.lines for y in line.y]
    return line_chart(
        f"{slug}-moved-ratio",
        "The same, over the fastest rebuild",
        "Below the dotted line the re-sort is faster. The axis does not begin at 0.",
        Axis("% of the particles in another cell than before", "with zero"),
        Axis("re-sort over fastest rebuild", "linear"),
        panels,
        1.0,
        (math.floor(10 * min(_WELL, *values)) / 10 if values else _WELL, _CLOSE),
    )
