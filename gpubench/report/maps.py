"""Maps of the fastest algorithm: a tile per input; x: particles, y: occupancy or moved fraction.

A tile extends half-way to the next input in its row; the outermost extend outwards by a doubling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from gpubench.problems.neighbours.tasks import TASKS
from gpubench.report import formats, vega
from gpubench.report.axes import AXES, describe
from gpubench.report.cells import grouped
from gpubench.report.figures import Captioned
from gpubench.report.rankings import Searches
from gpubench.report.vega import FigurePart
from gpubench.report.verdict import Race

Tile = dict[str, Any]  # the data of one input: what its tile shows, and its hover text

_REACH = 1.0  # extent of a tile beyond the last input of a row, in doublings
_LEAST = 3  # minimum number of inputs of a map
_HATCHES = ((0, 0, 1, 1), (0, 0.5, 0.5, 1), (0.5, 0, 1, 0.5))  # ends of lines in a unit tile
_ROOM = 36  # minimum width in pixels of a tile on which the winner's lead is written
_OPEN = "isValid(datum.open)"  # Vega expression: the tile has no winner
_ALONE = "only one measured"
_TOLD = {
    "fastest": "fastest", "time": "median", "next": "next", "open": "no winner",
    "input": "input", **vega.TOLD,
}  # fmt: skip


def figure(searches: Searches, question: str, slug: str, height: int = 330) -> FigurePart | None:
    """Draw a question's fastest algorithm on each input, `height` pixels high; None if too few."""
    kinds = _kinds(searches, question)
    races = [race for own in kinds.values() for race in own]
    if len(races) < _LEAST or all(len(race) == 1 for race in races):
        return None
    task = races[0][0].task
    levels = sorted(set(map(_level, races)))
    tiles = [tile for at, own in enumerate(kinds.values()) for tile in _tiles(at, own, levels)]
    sizes = sorted({race[0].place.particles or 1 for race in next(iter(kinds.values()))})
    axes = _axes(sizes, levels, tiles, task == "update")
    with debug_mode(False):
        spec = _spec(searches, list(kinds), tiles, axes, height)
    title = f"Fastest {searches.run.clock}: {question} ({TASKS[task]})"
    said = Captioned(f"{slug}-map-{formats.slug(question)}", title, "")
    return FigurePart(said, spec, _words(races, tiles), is_map=True)


def _kinds(searches: Searches, question: str) -> dict[str, list[Race]]:
    """Return a question's races by their label in the page's switch; most frequent label first."""
    found: dict[str, dict[tuple[object, ...], Race]] = {}
    for race in searches.by_question.get(question, []):
        place, task = race[0].place, race[0].task
        if (place.moved is not None) != (task == "update"):
            continue
        named = ["per_cell"] if task == "update" else ["distribution", "order", "contrast", "radii"]
        words = describe(place, named)
        found.setdefault(words, {}).setdefault((place.particles, _level(race)), race)
    in_order = sorted(found.items(), key=lambda item: -len(item[1]))
    return {words: list(own.values()) for words, own in in_order}


def _level(race: Race) -> float:
    share = race[0].place.as_kind["moved"]
    return (race[0].place.per_cell or 0.0) if share is None else 100 * share


def _reach(places: Sequence[float]) -> dict[float, tuple[float, float]]:
    """Return the ends of the tile at each position."""
    known = sorted(set(places))
    middles = [(one + next_one) / 2 for one, next_one in pairwise(known)]
    ends = [known[0] - _REACH, *middles, known[-1] + _REACH]
    return dict(zip(known, pairwise(ends), strict=True))


def _tiles(kind: int, races: Sequence[Race], levels: Sequence[float]) -> Iterator[Tile]:
    """Yield a tile for each race of a kind; levels: the y values of the rows, ascending."""
    for level, row in grouped(races, _level).items():
        sizes = [math.log2(race[0].place.particles or 1) for race in row]
        across, at = _reach(sizes), levels.index(level)
        for size, race in zip(sizes, row, strict=True):
            left, right = across[size]
            yield {"p": kind, "x0": left, "x1": right, "y0": at - 0.5, "y1": at + 0.5} | _told(race)


def _told(race: Race) -> Tile:
    winner, place = race[0], race[0].place
    low, high = map(formats.significant, (winner.low_ms, winner.high_ms))
    where = f"{formats.count(place.particles or 0)} particles"
    where += f", {AXES['per_cell'].say(place.per_cell)}"
    if winner.task == "update":
        where += f", {_level(race):g} % moved"
    told = {
        "n": winner.subject.algorithm,
        "fastest": f"{winner.subject.algorithm} {winner.subject.form}",
        "time": f"{formats.significant(winner.median_ms)} ms, {winner.how}",
        "interval": f"{low} to {high} ms",
        "input": where,
        **winner.told,
    }
    if len(race) == 1:
        return told | {"open": _ALONE}
    told["t"] = formats.ratio(race[1].standing.ratio.value)
    told["next"] = f"{race[1].subject.algorithm} {told['t']}, {race[1].how}"
    if others := [cell.subject.algorithm for cell in race[1:] if cell.device_is_first]:
        told["open"] = f"may be as fast: {formats.listing(others)}"
    return told


def _spec(
    searches: Searches, kinds: Sequence[str], tiles: list[Tile], axes: tuple[Any, Any], height: int
) -> dict[str, Any]:
    x, y = axes
    names = sorted({tile["n"] for tile in tiles}, key=searches.algorithms.index)
    hues = [vega.colour(searches.algorithms.index(name)) for name in names]
    pick = alt.selection_point(name="picked", fields=["n"], bind="legend")
    there = [key for key in _TOLD if any(key in tile for tile in tiles)]
    base = alt.Chart(alt.NamedData("tiles")).transform_filter("datum.p == panel")
    base = base.transform_calculate(command=vega.shortened(tiles))
    span = x.to_dict()["scale"]["domain"]
    room = f"(datum.x1 - datum.x0) / {span[1] - span[0]} * width"
    unwritten = f"{room} < {_ROOM} || {_OPEN}"
    rects = (
        base.mark_rect(stroke="var(--ground)", strokeWidth=1.5, cursor="pointer")
        .encode(
            x=x, x2="x1:Q", y=y, y2="y1:Q",
            color=alt.Color("n:N").scale(domain=names, range=hues).legend(vega.legend(names)),
            opacity=vega.faded(0.12),
            fillOpacity=alt.FillOpacityValue(1, condition={"test": _OPEN, "value": 0.6}),
            tooltip=[alt.Tooltip(f"{key}:N", title=_TOLD[key]) for key in there],
        )
        .add_params(pick)
    )  # fmt: skip
    texts = (
        base.transform_calculate(x="(datum.x0 + datum.x1) / 2", y="(datum.y0 + datum.y1) / 2")
        .mark_text(color="var(--ground)", fontSize=11, fontWeight=600, baseline="middle")
        .encode(
            x="x:Q", y="y:Q", text="t:N",
            opacity=alt.OpacityValue(1, condition={"test": unwritten, "value": 0}),
        )
    )  # fmt: skip
    layers = [rects, texts, *(_hatch(base, ends) for ends in _HATCHES)]
    return vega.finished(layers, kinds, {"tiles": tiles}, height)


def _hatch(base: Any, ends: Sequence[float]) -> Any:
    """Return a hatch line across inconclusive tiles; ends: the line's ends in a unit tile."""
    places = {
        f"{name}_end": f"datum.{name[0]}0 + {end} * (datum.{name[0]}1 - datum.{name[0]}0)"
        for name, end in zip(("x0", "y0", "x1", "y1"), ends, strict=True)
    }
    return (
        base.transform_filter(_OPEN)
        .transform_calculate(**places)
        .mark_rule(color="var(--ground)", strokeWidth=2.5, tooltip=False)
        .encode(x="x0_end:Q", x2="x1_end:Q", y="y0_end:Q", y2="y1_end:Q")
    )


def _axes(
    sizes: Sequence[int], levels: Sequence[float], tiles: Sequence[Tile], is_moved: bool
) -> tuple[Any, Any]:
    """Return the encodings of x and y; sizes: the sizes of the inputs shown initially."""

    def channel(kind: Any, which: str) -> Any:
        low, high = (f(tile[f"{which}{end}"] for tile in tiles) for f, end in ((min, 0), (max, 1)))
        return kind(f"{which}0:Q").scale(domain=[low, high], nice=False, zero=False)

    at, rows = [math.log2(size) for size in sizes], list(range(len(levels)))
    of_sizes = vega.among(at, list(map(formats.power, sizes)))
    title = "% that changed cells" if is_moved else "particles per cell"
    return (
        channel(alt.X, "x").axis(title="particles", values=at, labelExpr=of_sizes),
        channel(alt.Y, "y").axis(
            title=title, values=rows, tickCount=len(rows), grid=False, labelOverlap=False,
            labelExpr=vega.among(rows, [f"{level:g}" for level in levels]),
        ),
    )  # fmt: skip


def _words(races: Sequence[Race], tiles: Sequence[Tile]) -> str:
    settled = Counter(tile["n"] for tile in tiles if "open" not in tile)
    parts = [f"{name} on {count}" for name, count in settled.most_common()]
    alone = sum(tile.get("open") == _ALONE for tile in tiles)
    parts.append(f"inconclusive on {len(races) - settled.total() - alone}")
    parts += [f"{_ALONE} on {alone}"] if alone else []
    return f"Fastest of {len(races)} inputs: {', '.join(parts)}."
