"""Figures as Vega-Lite through Altair, for pages and, as SVG, for Markdown (extra `report`).

A page loads `SCRIPT` once: Vega with its dependencies, and the style of charts.
"""

from __future__ import annotations

import itertools
import json
import os.path
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode

from gpubench.base.user_cache import kept, usable_cache
from gpubench.report import formats
from gpubench.report.figures import LIGHT, PALETTE, BarChart, Captioned, Chart, Curve, marker

SCRIPT = "gpubench.js"
HEIGHT = 300  # pixels of a plot
_DRAWN_WIDTH = 720  # pixels of an SVG for Markdown
_DASHES = ([1, 0], [5, 2], [2, 2], [7, 2, 2, 2])
_PADDING = 12  # pixels from the outermost points to the ends of an axis
_LEGEND_MARK, _CHARACTER = 36, 7.5  # pixels of a mark and of a character in a legend
_BAR, _LINE, _BAR_LABEL = 20, 14, 240  # pixels: between bars, and lines of a label; its maximum
_LONG = re.compile(r"(?=.{39})(.{1,38},) ")  # where a label is broken, as its rest does not fit
# Labels of the hover text of points and tiles, by field name.
TOLD = {"interval": "95 % interval", "bound": "of copy bandwidth", "command": "to repeat"}
_SOURCES = {"interval": "b", "command": "c"}  # the data field from which each is computed
# Values of a page's CSS variables, for SVG files.
_FIXED = {
    "ink": "#222222", "soft": "#55555c", "rule": "#dddddd", "ground": "#ffffff",
    "raised": "#f6f6f7", **{f"line-{index}": colour for index, colour in enumerate(LIGHT)},
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": 'system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif',
    "view": {"stroke": "transparent", "fill": "var(--raised)"},
    "autosize": {"type": "fit-x", "contains": "padding", "resize": True},
    "axis": {
        "labelColor": "var(--ink)", "titleColor": "var(--ink)", "domainColor": "var(--soft)",
        "tickColor": "var(--soft)", "gridColor": "var(--rule)", "labelFontSize": 12,
        "titleFontSize": 12, "titleFontWeight": "normal", "labelOverlap": "greedy",
        "labelSeparation": 6, "labelFlush": False,
    },
    "axisX": {"grid": False, "titlePadding": 8, "labelFlush": 2 * _PADDING},
    # The title of the y axis is horizontal, above the axis.
    "axisY": {
        "domain": False, "ticks": False, "titleAngle": 0, "titleAlign": "left",
        "titleBaseline": "bottom", "titleX": 0, "titleY": -8,
    },
    "legend": {
        "orient": "bottom", "title": None, "labelColor": "var(--ink)", "labelFontSize": 12,
        "labelLimit": 290, "symbolStrokeWidth": 2, "offset": 12, "rowPadding": 4,
        "columnPadding": 14, "symbolOpacity": 1,
    },
    "title": {"color": "var(--ink)", "anchor": "start", "fontSize": 13, "frame": "group"},
    "text": {"color": "var(--ink)", "fontSize": 11},
}  # fmt: skip


@cache
def script() -> str:
    """Return the self-contained JavaScript file of all pages."""
    own = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    folder, bundle = usable_cache(), vl_convert.javascript_bundle
    path = folder and folder / f"vega-{metadata.version('vl-convert-python')}.script"
    # Vega, Vega-Lite and vega-embed, cached because bundling takes seconds.
    vega = kept(path, lambda: bundle("window.vegaEmbed = vegaEmbed;").encode()).decode()
    return "\n".join([vega, own.replace('"@config"', json.dumps(CONFIG))])


@dataclass(frozen=True)
class FigurePart:
    """A figure with its Vega-Lite specification, data inline."""

    chart: Captioned
    spec: dict[str, Any]
    description: str
    is_map: bool = False

    @property
    def has_commands(self) -> bool:
        """Whether clicking a mark shows the command that repeats its measurement."""
        rows = itertools.chain.from_iterable(self.spec["datasets"].values())
        return any("c" in row for row in rows)

    @property
    def json(self) -> str:
        """The specification as JSON for `page.js`, with datasets as columns, which are shorter."""
        columns = {
            name: {k: [row.get(k) for row in rows] for k in dict.fromkeys(itertools.chain(*rows))}
            for name, rows in self.spec["datasets"].items()
        }
        spec = self.spec | {"datasets": columns}
        return json.dumps(spec, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")

    @cached_property
    def svg(self) -> str:
        """The figure as SVG with fixed colours, in its initial state."""
        spec = {**self.spec, "width": _DRAWN_WIDTH, "background": "var(--ground)"}
        svg = vl_convert.vegalite_to_svg(spec, config=CONFIG)
        return re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: _FIXED[found[1]], svg) + "\n"


def draw_all(charts: Iterable[Chart | BarChart | None]) -> list[FigurePart]:
    """Make the specifications of charts; None and charts without panels are left out."""
    return [draw(chart) for chart in charts if chart is not None and chart.panels]


def draw(chart: Chart | BarChart) -> FigurePart:
    """Make the specification of a chart: the panel with most rows, and a switch to the others."""
    if isinstance(chart, BarChart):
        labels = {title: "; ".join(bar.label for bar in own) for title, own in chart.panels.items()}
        told = [(title, f"{chart.title}, {title}: {own}.") for title, own in labels.items()]
    else:
        told = [(panel.title, panel.description) for panel in chart.panels]
    with debug_mode(False):  # skips validation, which takes most of the time
        spec = _bars(chart) if isinstance(chart, BarChart) else _lines(chart)
    if len(told) == 1 and told[0][0]:
        spec["title"] = told[0][0]
    return FigurePart(chart, spec, told[spec["params"][-1]["value"]][1])


def faded(least: float, most: float = 1.0) -> Any:
    """Return an Altair opacity that fades everything not selected in the legend."""
    return alt.OpacityValue(least, condition={"param": "picked", "value": most})


def colour(index: int) -> str:
    """Return a line colour of the page as a CSS variable."""
    return f"var(--line-{index % PALETTE})"


def finished(
    layers: Sequence[Any],
    titles: Sequence[str],
    datasets: Mapping[str, Sequence[Mapping[str, Any]]],
    height: int | dict[str, int] = HEIGHT,
) -> dict[str, Any]:
    """Make a specification of layers that fills the width available on the page.

    titles: panel titles. The last Vega parameter, `panel`, selects rows by their field `p`; it
    starts at the panel with the most rows. datasets: rows by the names of `alt.NamedData`.
    """
    shown = Counter(row["p"] for row in next(iter(datasets.values())))
    first = max(range(len(titles)), key=lambda index: shown[index])
    panel: dict[str, Any] = {"name": "panel", "value": first}
    if len(titles) > 1:
        options = list(range(len(titles)))
        choice = alt.binding_select(options=options, labels=list(titles), name="Shown")
        panel["bind"] = choice.to_dict()
    # Properties are set on the dict, since Altair would copy all layers.
    spec: dict[str, Any] = alt.layer(*layers).to_dict(validate=False)
    spec.pop("config", None)  # a page has one configuration for all charts
    spec["params"] = [*spec.get("params", []), panel]
    return spec | {"width": "container", "height": height, "datasets": dict(datasets)}


def rounded(value: float) -> float:
    """Round a number to the five digits that a chart needs."""
    return float(f"{value:.5g}")


def among(values: Sequence[float], words: Sequence[str]) -> str:
    """Return a Vega expression that labels the tick at values[i] with words[i]."""
    numbers, texts = json.dumps(list(values)), json.dumps(list(words), ensure_ascii=False)
    return f"{texts}[indexof({numbers}, datum.value)]"


def legend(names: Sequence[str], taken: int = 0) -> Any:
    """Return a legend with as many columns as fit; taken: pixels not available to it."""
    # The plot's width is unknown before layout; `0 * width` only re-evaluates this on resizing.
    room = f"(containerSize()[0] || {_DRAWN_WIDTH}) - {taken} + 0 * width"
    column = _LEGEND_MARK + _CHARACTER * max(map(len, names), default=0)
    columns = alt.ExprRef(f"max(1, floor(({room}) / {column}))")
    return alt.Legend(title=None, orient="bottom", columns=columns)


def shortened(rows: Sequence[dict[str, Any]]) -> str:
    """Strip the common prefix of all commands; return a Vega expression that restores it."""
    commands = [row["command"] for row in rows if "command" in row]
    prefix = os.path.commonprefix(commands)  # noqa: RUF071 - of strings, not of paths
    for row in rows:
        if "command" in row:
            row["c"] = row.pop("command").removeprefix(prefix)
    return f"isValid(datum.c) ? {json.dumps(prefix)} + datum.c : ''"


def _lines(chart: Chart) -> dict[str, Any]:
    """Draw lines with interval bands, if any, and points with hover text."""
    drawn = [(index, line) for index, panel in enumerate(chart.panels) for line in panel.lines]
    rows: list[dict[str, Any]] = [
        {
            "p": index,
            "l": line.label,
            "x": rounded(point.x),
            "y": rounded(point.y),
            **{n: rounded(end) for n, end in (("a", point.low), ("b", point.high)) if end},
            **point.told,
            **({} if line.marked else {"m": 0}),
            **({"h": 1} if line.variant else {}),
        }
        for index, line in drawn
        for point in line.points
    ]
    command = shortened(rows)
    known = {name for row in rows for name in row}
    looks: dict[str, Curve] = {}
    for _, line in drawn:
        looks.setdefault(line.label, line)
    names = list(looks)
    key = legend(names) if names != [chart.y.label] else None

    def look(channel: Any, found: Callable[[Curve], Any]) -> Any:
        found_in = list(map(found, looks.values()))
        return channel("l:N").scale(domain=names, range=found_in).legend(key)

    x, y = _axis(chart, "x"), _axis(chart, "y")
    base = (
        alt.Chart(alt.NamedData("rows"))
        .transform_filter("datum.p == panel")
        .transform_calculate(
            interval="format(datum.a, ',.3~r') + ' to ' + format(datum.b, ',.3~r')",
            command=command,
        )
        .encode(x=x, y=y, color=look(alt.Color, lambda line: colour(line.colour)))
    )
    layers: list[Any] = []
    if chart.reference is not None:
        rule = alt.Chart(alt.InlineData([{"y": chart.reference}]))
        layers.append(rule.mark_rule(strokeDash=[1, 3], color="var(--ink)").encode(y=y))
    if any("a" in row and row["a"] != row["b"] for row in rows):
        ends = {"y": alt.Y("a:Q"), "y2": "b:Q"}
        layers.append(base.mark_area(clip=True).encode(**ends, opacity=faded(0.02, 0.2)))
    lines = base.mark_line(clip=True, strokeWidth=1.8).encode(
        strokeDash=look(alt.StrokeDash, lambda line: _DASHES[line.variant % len(_DASHES)]),
        order=alt.OrderValue(0),
        opacity=faded(0.12),
    )
    marked = base.transform_filter("datum.m !== 0")
    points = marked.mark_point(clip=True, filled=True, size=38, strokeWidth=1.4).encode(
        stroke=look(alt.Stroke, lambda line: colour(line.colour)),
        shape=look(alt.Shape, marker),
        fillOpacity=alt.FillOpacityValue(1, condition={"test": "datum.h", "value": 0}),
        opacity=faded(0.12),
        tooltip=[
            alt.Tooltip("l:N", title=" "),
            alt.Tooltip("x:Q", title=chart.x.label or "input", format=",.6~g"),
            alt.Tooltip("y:Q", title=chart.y.label, format=",.4~g"),
            *(alt.Tooltip(f"{n}:N", title=TOLD[n]) for n in TOLD if _SOURCES.get(n, n) in known),
        ],
    )
    pick = alt.selection_point(name="picked", fields=["l"], bind="legend")
    layers += [lines.add_params(pick), points]
    return finished(layers, [panel.title for panel in chart.panels], {"rows": rows})


def _axis(chart: Chart, which: str) -> Any:
    own, channel = (chart.x, alt.X) if which == "x" else (chart.y, alt.Y)
    lines = itertools.chain.from_iterable(panel.lines for panel in chart.panels)
    values = [getattr(point, which) for line in lines for point in line.points]
    scale: dict[str, Any] = {}
    look: dict[str, Any] = {"format": ",.6~g", "tickCount": 7}
    if own.kind == "names":
        look["values"] = list(range(len(own.names)))
        look["labelExpr"] = among(look["values"], own.names)
    elif own.kind in ("number", "with zero") and min(values) <= 0 < max(values):
        look["values"] = sorted(set(values))
        scale = {"type": "symlog", "constant": min(value for value in values if value > 0)}
    elif own.kind == "size":
        scale = {"type": "log", "base": 2}
        look["values"] = sorted(set(values))
        look["labelExpr"] = among(look["values"], [formats.power(int(v)) for v in look["values"]])
    elif own.kind != "linear" and max(values) > 0:
        scale = {"type": "log"}
    scale |= {"nice": False, "zero": own.kind == "linear" and which == "y", "padding": _PADDING}
    return channel(f"{which}:Q").scale(**scale).axis(title=own.label or None, **look)


def _bars(chart: BarChart) -> dict[str, Any]:
    rows = [
        {"p": index, "n": _LONG.sub(r"\1\n", bar.label), "k": name, "i": place, "v": rounded(part)}
        for index, bars in enumerate(chart.panels.values())
        for bar in bars
        for place, (name, part) in enumerate(bar.parts.items())
    ]
    used = list(dict.fromkeys(str(row["k"]) for row in rows))
    hues = [colour(index) for index in range(len(used))]
    pick = alt.selection_point(name="picked", fields=["k"], bind="legend")
    room = alt.ExprRef(f"min({_BAR_LABEL}, 0.45 * (containerSize()[0] || {_DRAWN_WIDTH}))")
    look: dict[str, Any] = {"type": "log", "padding": _PADDING} if chart.are_ratios else {}
    lines = r"split(datum.label, regexp(': |\n'))"
    middle = alt.ExprRef(f"{_LINE / 2} * (1 - length({lines}))")
    label: dict[str, Any] = {"labelExpr": lines, "labelOffset": middle, "labelLimit": room}
    bars = (
        alt.Chart(alt.NamedData("rows"))
        .transform_filter("datum.p == panel")
        .mark_bar(clip=True)
        .encode(
            y=alt.Y("n:N", sort=None).axis(title=None, grid=False, **label),
            x=alt.X("v:Q", title=chart.label)
            .axis(grid=True, tickCount=8, titleAnchor="end")
            .scale(nice=False, **look),
            order="i:O",
            color=alt.Color("k:N").scale(domain=used, range=hues).legend(legend(used, _BAR_LABEL)),
            opacity=faded(0.15),
            tooltip=[
                alt.Tooltip("n:N", title=" "),
                alt.Tooltip("k:N", title="speed-up" if chart.are_ratios else "phase"),
                alt.Tooltip("v:Q", title=chart.label, format=",.3~g"),
            ],
        )
        .add_params(pick)
    )
    if chart.are_ratios:
        bars = bars.encode(x2=alt.X2Datum(1), yOffset=alt.YOffset("k:N", sort=used))
    step = _BAR + _LINE * max(str(row["n"]).count("\n") for row in rows)
    return finished([bars], list(chart.panels), {"rows": rows}, {"step": step})
