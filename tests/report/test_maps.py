"""Maps of the fastest, the answers above them, and charts as Vega-Lite."""

from __future__ import annotations

import json
import re
from typing import Any

import altair as alt
import pytest
from regime_records import grid, moved, run_of, search, spread

from gpubench.report import figures, formats, maps, search_pages, vega, verdict
from gpubench.report.rankings import Searches
from gpubench.report.vega import FigurePart


def field_of(records: list[dict[str, Any]]) -> Searches:
    return Searches(run_of(records))


def map_of(records: list[dict[str, Any]], task: str = "count") -> FigurePart:
    figure = maps.figure(field_of(records), task, "slug")
    assert figure is not None
    return figure


def tiles_of(figure: FigurePart) -> dict[tuple[int, str], dict[str, Any]]:
    found = figure.spec["datasets"]["tiles"]
    return {(tile["p"], tile["input"]): tile for tile in found}


def choices(figure: FigurePart) -> list[str]:
    [panel] = [each for each in figure.spec["params"] if each["name"] == "panel"]
    labels: list[str] = panel.get("bind", {}).get("labels", [])
    return labels


def test_a_tile_is_an_input_with_the_winner_of_the_formula_and_its_command() -> None:
    records = grid(tasks=("count",))
    figure = map_of(records)
    tiles = tiles_of(figure)
    assert len(tiles) == 48
    at = sorted(
        (r for r in records if (r.at("particles"), r.at("per_cell")) == (2**16, 4)),
        key=lambda r: r.median_ms,
    )
    tile = tiles[0, "2¹⁶ (65,536) particles, 4 per cell"]
    assert tile["n"] == at[0].algorithm
    assert tile["next"].startswith(at[1].algorithm)
    assert tile["t"] == formats.ratio(at[1].median_ms / at[0].median_ms)
    assert (tile["x0"], tile["x1"]) == (15, 17)  # half-way to the next sizes
    [told] = [each for each in figure.spec["layer"][0]["transform"] if each.get("as") == "command"]
    prefix = re.search('"(.+)"', told["calculate"])
    assert prefix is not None
    assert prefix[1] + tile["c"] == (
        f"gpubench run regimes --device cuda --algorithms {tile['n']} --particles 65536"
        " --per-cell 4"
    )
    assert re.fullmatch(r"[\d.]+ to [\d.]+ ms", tile["interval"])


def test_the_switch_has_the_kinds_of_input_the_most_measured_first() -> None:
    kinds = choices(map_of([*grid(), *spread(16)]))
    assert kinds[0] == "uniform distribution, random order"
    assert "clusters distribution, morton order" in kinds and len(kinds) == 9


def test_what_moved_has_a_choice_for_each_occupancy() -> None:
    figure = map_of(moved(), "update")
    assert all(re.fullmatch(r"[\d.]+ per cell", words) for words in choices(figure))
    assert "% moved" in next(iter(tiles_of(figure)))[1]


@pytest.mark.parametrize(("second", "is_open"), [(1.01, True), (3.0, False)])
def test_what_is_inconclusive_is_hatched_and_says_why(second: float, is_open: bool) -> None:
    records = [
        search(name, "count", n, median=time)
        for n in (2**12, 2**14, 2**16)
        for name, time in (("a", 1.0), ("b", second))
    ]
    figure = map_of(records)
    assert [tile.get("open") for tile in tiles_of(figure).values()] == (
        ["may be as fast: b" if is_open else None] * 3
    )
    hatches = [layer for layer in figure.spec["layer"] if layer["mark"]["type"] == "rule"]
    assert len(hatches) == 3
    assert all({"filter": "isValid(datum.open)"} in layer["transform"] for layer in hatches)
    assert figure.description.endswith(f"inconclusive on {3 if is_open else 0}.")


def test_a_tile_of_one_entrant_has_no_winner_and_says_so() -> None:
    records = [search("a", "count", n) for n in (2**12, 2**14, 2**16)]
    assert maps.figure(field_of(records), "count", "slug") is None
    figure = map_of([*records, search("b", "count", 2**16, median=3.0)])
    *alone, last = tiles_of(figure).values()
    assert [(tile["open"], "t" in tile) for tile in alone] == [("only one measured", False)] * 2
    assert "open" not in last
    assert figure.description == (
        "Fastest of 3 inputs: a on 1, inconclusive on 0, only one measured on 2."
    )


def test_a_tile_says_what_was_launched() -> None:
    records = [
        search(name, "count", n, median=time, mode=mode)
        for n in (2**12, 2**14, 2**16)
        for name, mode, time in (("a", "graph", 0.1), ("a", "hot", 1.0), ("b", "hot", 3.0))
    ]
    figure = map_of(records)
    tile, *_ = tiles_of(figure).values()
    assert (tile["time"], tile["next"]) == (
        "0.100 ms, graph replay",
        "b 3.00\N{MULTIPLICATION SIGN}, launched",
    )
    assert figure.chart.title.startswith("Fastest by device time: count (")
    hot = map_of([each for each in records if each.mode == "hot"])
    assert hot.chart.title.startswith("Fastest as launched: count (")
    assert next(iter(tiles_of(hot).values()))["time"] == "1.00 ms, launched"


def test_structures_of_two_kinds_have_maps_of_their_own() -> None:
    names = ("search-counting-sort", "search-radix-grid", "search-atomic-list", "warp-hash-grid")
    field = field_of(grid(names, tasks=("build", "count")))
    assert set(field.by_question) == {
        "build: sorted cells", "build: linked lists", "build: hash grids", "count",
    }  # fmt: skip
    assert maps.figure(field, "build: linked lists", "slug") is None  # only one of them
    made = maps.figure(field, "build: sorted cells", "slug")
    assert made is not None and made.chart.slug == "slug-map-build-sorted-cells"
    assert "search-atomic-list" not in made.description


def test_an_algorithm_has_one_colour_in_all_maps() -> None:
    field = field_of([*grid(), *moved()])
    looks: dict[str, set[str]] = {}
    for figure in search_pages.sections(field, "slug")[0].figures:
        scale = figure.spec["layer"][0]["encoding"]["color"]["scale"]
        for name, colour in zip(scale["domain"], scale["range"], strict=True):
            looks.setdefault(name, set()).add(colour)
    assert len(looks) > 2
    assert all(len(colours) == 1 for colours in looks.values())


# Answers.


def crossing() -> list[dict[str, Any]]:
    """Return times of two that cross above 2^16, and of one that ran on the smallest alone."""
    return [
        search(name, "count", 2**n, median=time)
        for n, one, other in ((12, 1.0, 3.0), (16, 1.0, 1.5), (20, 4.0, 2.0))
        for name, time in (("a", one), ("b", other), *((("c", 0.5),) if n == 12 else ()))
    ]


def test_the_rule_is_that_of_the_lowest_worst_cost_among_what_ran_everywhere() -> None:
    found = search_pages.answer(field_of(crossing()), "count")
    assert found is not None
    choice, table = found
    assert choice.take == "a up to 2¹⁶ particles, b above"
    assert choice.risk == f"known slower than c on 1 of 3 inputs, at worst {formats.ratio(2)}"
    assert choice.slower_at == "Slower at 2¹² particles; at worst at 2¹² particles."
    rows = {row.head: [item.text for item in row.items] for row in table.rows}
    assert rows == {
        "this rule": ["1.00", "1.90", "2.00"],  # 0.5 of c against 1 of a at 2^12
        "a alone": ["2.00", "2.00", "2.00"],
        "b alone": ["1.50", "5.55", "6.00"],
    }
    assert table.caption.endswith("on 3 inputs")


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (0.01, f"known slower than b on 2 of 4 inputs, at worst {formats.ratio(1.3)}"),
        (0.4, "known slower on none of 4"),
    ],
)
def test_what_is_inconclusive_hides_no_input_where_the_choice_is_known_to_be_slower(
    width: float, said: str
) -> None:
    # Where two others share the first place, a map has no winner; the choice is slower there.
    records = [
        search(name, "count", 2**n, median=time, width=width)
        for n, times in (
            (12, (1.0, 2.0, 2.0)), (14, (1.0, 2.0, 2.0)), (16, (1.3, 1.0, 1.0)),
            (18, (1.2, 1.0, 1.0)),
        )
        for name, time in zip("abc", times, strict=True)
    ]  # fmt: skip
    field = field_of(records)
    found = search_pages.answer(field, "count")
    assert found is not None
    taken = [(next(c for c in race if c.subject.algorithm == "a"), race) for race in field.races]
    often, _ = verdict._risk(taken, lambda cell: cell.subject.algorithm)
    assert often.startswith(said)


def test_without_an_algorithm_that_ran_everywhere_there_is_no_rule() -> None:
    records = [search("a", "count", 2**12), search("b", "count", 2**14)]
    assert search_pages.answer(field_of(records), "count") is None
    assert search_pages.answer(field_of(records), "list") is None


# Charts.

LINEAR = figures.Scale("label", "linear")


@pytest.mark.parametrize("kind", ["size", "number", "with zero", "linear", "names"])
def test_charts_of_all_axes_are_valid_and_drawn(kind: str) -> None:
    x = (0, 1, 2) if kind in ("names", "with zero") else (1024, 2048, 4096)
    lines = [
        figures.Curve(
            "</script>one",
            [
                figures.Point(at, y, 0.9 * y, 1.1 * y, {"command": "again", "bound": "3 %"})
                for at, y in zip(x, (1.0, 2.0, 4.0), strict=True)
            ],
        ),
    ]
    panels = [figures.Plot(title, lines, f"{title} in words") for title in ("first", "second")]
    axis = figures.Scale("across", kind, ("few", "more", "most"))
    chart = figures.Chart("slug", "Title", "caption", axis, LINEAR, panels, reference=1.5)
    drawn = vega.draw(chart)
    alt.LayerChart.from_dict(drawn.spec, validate=True)
    assert choices(drawn) == ["first", "second"] and drawn.description == "first in words"
    first = drawn.spec["datasets"]["rows"][0]
    assert (first["a"], first["b"], first["bound"]) == (0.9, 1.1, "3 %")
    calculated = {each["as"]: each for each in drawn.spec["layer"][-1]["transform"] if "as" in each}
    assert '"again" + datum.c' in calculated["command"]["calculate"] and first["c"] == ""
    told = [each["field"] for each in drawn.spec["layer"][-1]["encoding"]["tooltip"]]
    assert told == ["l", "x", "y", "interval", "bound", "command"] and drawn.has_commands
    assert "</script>" not in drawn.json
    inline = json.loads(drawn.json)
    columns = inline["datasets"]["rows"]
    again = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert inline | {"datasets": {"rows": again}} == drawn.spec
    assert "var(" not in drawn.svg and "across" in drawn.svg
    assert {"names": "more", "size": "2¹¹"}.get(kind, "across") in drawn.svg


def test_an_axis_of_numbers_may_begin_at_zero() -> None:
    axis = figures.Scale("bytes", "number")
    panels = [figures.Plot("", [figures.Curve.through("one", (0, 4, 16), (1, 2, 3))], "")]
    spec = vega.draw(figures.Chart("slug", "Title", "", axis, LINEAR, panels)).spec
    x = spec["layer"][0]["encoding"]["x"]
    assert (x["scale"]["type"], x["axis"]["values"]) == ("symlog", [0, 4, 16])


def test_maps_are_valid() -> None:
    alt.LayerChart.from_dict(map_of(grid(tasks=("count",))).spec, validate=True)
