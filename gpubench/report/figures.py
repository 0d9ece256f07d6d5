"""Figures as inline SVG that takes its colours from the page, so that it follows dark mode.

Every figure is a row of panels. A panel is an SVG of its own, so that a narrow screen can
stack them. Panels of lines share their axes, and lines are labelled at their right ends; panels
of bars have a scale each.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import Any, Protocol
from xml.etree import ElementTree

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETUP
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from gpubench.report import formats

# After Wong, Points of view: Color blindness, Nature Methods 8 (2011) 441; darkened or lightened
# where the background needs it. The second eight are as far from those and from each other as
# colour-blind readers allow; so many are no longer safe alone, so that they have other markers.
LIGHT = (
    "#0072b2", "#c75000", "#00805e", "#a8487f", "#a67200", "#59595f", "#3d8fc2", "#5b4ba8",
    "#b800d0", "#7a0c0c", "#1c1ce0", "#0b4f0b", "#e8206e", "#0f2d5c", "#84522b", "#6f7a00",
)  # fmt: skip
DARK = (
    "#4aa8e0", "#f08a4b", "#35c79b", "#e09ac2", "#e0b040", "#b5b5bd", "#9fd3f5", "#a79cf0",
    "#f06bff", "#ff7070", "#6f80ff", "#8fe04a", "#ff4fa0", "#d9e0ff", "#c09a7a", "#dbe86a",
)  # fmt: skip
PALETTE = len(LIGHT)
# Of a line: by its eight of colours, then by whether its variant is even.
_MARKERS = (("o", "s"), ("^", "v"), ("D", "P"))
_MARKED_ALIKE = 8  # colours

# Drawn with these; a page replaces them by CSS variables, a file by fixed colours.
INK, RULE = "#010101", "#020202"
SERIES = tuple(f"#0303{index:02x}" for index in range(len(LIGHT)))

WIDTH, _HEIGHT = 4.7, 3.4  # inches of 72 points; one point is one CSS pixel of the SVG
_TICK_GAP = 0.22  # of the width of a panel, between two long numbers
_MOST_PLACES = 16  # on an axis for its ticks to be among them; more are a series in time
_LABEL_GAP = 11.5  # points between two labels
CHARACTER = 4.9  # points, of a label
_BAR = 0.235  # inches from bar to bar
_CUT = 4.0  # of the shortest bar of a panel: longer ones are cut off there, or all were short
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may hold a dollar sign
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.linewidth": 0.8,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
}


@dataclass(frozen=True)
class Line:
    """One labelled line of a panel.

    colour: index of its hue and marker, one for each algorithm; variant: index of its dashes, one
    for each form. low, high: ends of the interval band, or None where there is none.
    marked: whether each point has a marker.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    colour: int = 0
    variant: int = 0
    marked: bool = True


@dataclass(frozen=True)
class Panel:
    """One plot: a title, its lines, and a description for those who cannot see it."""

    title: str
    lines: Sequence[Line]
    description: str


@dataclass(frozen=True)
class Axis:
    """An axis: its label and how its values are written.

    kind: "size" or "number" (logarithmic), "measured" (likewise, values are no ticks), "with zero"
        (logarithmic but for a first zero), "linear", or "names" (values are indices).
    """

    label: str
    kind: str
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """A figure: panels that share both axes, with a caption.

    frame: ends of a linear y axis; else it goes from 0 to the greatest value. A triangle marks
    where a line leaves through the upper end.
    """

    slug: str
    title: str
    caption: str
    x: Axis
    y: Axis
    panels: Sequence[Panel]
    reference: float | None = None
    frame: tuple[float, float] | None = None

    @property
    def fullness(self) -> list[int]:
        """How many points each panel shows."""
        return [sum(len(line.x) for line in panel.lines) for panel in self.panels]


@dataclass(frozen=True)
class Bar:
    """One labelled bar, of parts laid end to end; `text` stands behind it, or else its length."""

    label: str
    parts: Sequence[float]
    text: str = ""


@dataclass(frozen=True)
class BarPanel:
    """Bars below each other: a title, the bars, and a description for those who cannot see it."""

    title: str
    bars: Sequence[Bar]
    description: str


@dataclass(frozen=True)
class BarChart:
    """A figure of bars; `parts` names their parts, `label` says what their length is."""

    slug: str
    title: str
    caption: str
    label: str
    parts: Sequence[str]
    panels: Sequence[BarPanel]

    @property
    def fullness(self) -> list[int]:
        """How many bars each panel shows."""
        return [len(panel.bars) for panel in self.panels]


class Captioned(Protocol):
    """What is said of a figure of any kind, and how much each of its panels shows."""

    @property
    def slug(self) -> str:
        """What the names of its files begin with."""

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def caption(self) -> str:
        """How to read it."""

    @property
    def fullness(self) -> Sequence[int]:
        """Points, bars or tiles of each panel."""


@dataclass(frozen=True)
class Drawing:
    """A drawn panel: `inline` for a page with the CSS variables, `standalone` for a file."""

    description: str
    inline: str
    standalone: str


@dataclass(frozen=True)
class FigurePart:
    """A drawn figure."""

    chart: Captioned
    drawings: Sequence[Drawing]

    @property
    def fullest(self) -> Drawing:
        """The panel that shows the most points, bars or tiles; the first of several."""
        counts = list(self.chart.fullness)
        return self.drawings[counts.index(max(counts))]


def line_chart(
    slug: str,
    title: str,
    caption: str,
    x: Axis,
    y: Axis,
    panels: Sequence[Panel],
    reference: float | None = None,
    frame: tuple[float, float] | None = None,
) -> Chart | None:
    """Make a figure of those panels that have a line; None without any."""
    shown = [panel for panel in panels if any(len(line.x) > 1 for line in panel.lines)]
    return Chart(slug, title, caption, x, y, shown, reference, frame) if shown else None


def scatter(
    slug: str, title: str, caption: str, x: Axis, y: Axis, panels: Sequence[Panel]
) -> Chart | None:
    """Make a figure of those panels that have a point; None without any."""
    shown = [panel for panel in panels if panel.lines]
    return Chart(slug, title, caption, x, y, shown) if shown else None


def describe(what: str, where: str, lines: Sequence[Line], unit: str) -> str:
    """Say in words what a panel shows: each line's last value."""
    ends = ", ".join(f"{line.label} {formats.significant(line.y[-1])}" for line in lines)
    place = f", {where}" if where else ""
    return f"{what}{place}. At the right end, {unit}: {ends}."


def draw_all(charts: Iterable[Chart | BarChart]) -> list[FigurePart]:
    """Draw charts."""
    return [FigurePart(chart, draw(chart)) for chart in charts]


def draw(chart: Chart | BarChart) -> list[Drawing]:
    """Draw each panel of a chart."""
    if isinstance(chart, BarChart):
        return [
            drawn(f"{chart.slug}-{index}", panel.description, partial(_bar_figure, chart, panel))
            for index, panel in enumerate(chart.panels)
        ]
    return [
        drawn(f"{chart.slug}-{index}", panel.description, partial(_line_figure, chart, panel))
        for index, panel in enumerate(chart.panels)
    ]


def drawn(salt: str, description: str, make: Callable[[], Figure]) -> Drawing:
    """Draw one panel; salt: tells its ids from those of other panels of a page."""
    with rc_context({**_STYLE, "svg.hashsalt": salt}):
        buffer = StringIO()
        make().savefig(buffer, format="svg", transparent=True)
    svg = _tidy(buffer.getvalue(), description)
    return Drawing(description, _page_colours(svg), _fixed_colours(svg))


def css_variables(palette: Sequence[str]) -> str:
    """Return the CSS declarations of the line colours."""
    return " ".join(f"--line-{index}: {colour};" for index, colour in enumerate(palette))


def _line_figure(chart: Chart, panel: Panel) -> Figure:
    figure = Figure(figsize=(WIDTH, _HEIGHT))
    labels = max((len(line.label) for line in panel.lines), default=0)
    right = 1 - (labels * 5.2 + 16) / (WIDTH * 72)
    axes = figure.add_axes((0.11, 0.13, max(0.4, right - 0.11), 0.765))
    axes.set_title(panel.title, loc="left", fontweight="bold", pad=16)
    _set_axes(axes, chart)
    if chart.reference is not None:
        axes.axhline(chart.reference, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    for line in panel.lines:
        _plot(axes, line)
        for x, top in _leaving(axes, line):
            colour = SERIES[line.colour % len(SERIES)]
            axes.plot(x, top, marker=CARETUP, color=colour, markersize=6, linestyle="")
    _label_lines(axes, panel.lines)
    return figure


def _bar_figure(chart: BarChart, panel: BarPanel) -> Figure:
    """Draw bars from the top down, with their labels on the left and their lengths behind them."""
    used = [i for i in range(len(chart.parts)) if any(bar.parts[i] for bar in panel.bars)]
    # A key takes its words, and a square with the gaps around it.
    keys = sum(len(chart.parts[index]) * CHARACTER + 26 for index in used)
    legend_rows = math.ceil(keys / (WIDTH * 72))
    above, below = 0.32 + 0.19 * legend_rows, 0.5  # inches
    height = above + _BAR * len(panel.bars) + below
    figure = Figure(figsize=(WIDTH, height))
    left = (max(len(bar.label) for bar in panel.bars) * CHARACTER + 8) / (WIDTH * 72)
    width = 1 - left - 0.14
    axes = figure.add_axes((left, below / height, width, 1 - (above + below) / height))
    lengths = [sum(bar.parts) for bar in panel.bars]
    limit = min(max(lengths), _CUT * min(lengths))
    for row, (bar, length) in enumerate(zip(panel.bars, lengths, strict=True)):
        start = 0.0
        for index, part in enumerate(bar.parts):
            end = min(start + part, limit)
            axes.barh(row, end - start, 0.72, start, color=SERIES[index % len(SERIES)])
            start = end
        cut = "\N{RIGHTWARDS ARROW} " if length > limit else ""
        text = bar.text or f"{cut}{formats.significant(length)}"
        axes.annotate(text, (start, row), (4, 0), textcoords="offset points", va="center", size=9)
    axes.set_xlim(0, limit)
    axes.set_ylim(len(panel.bars) - 0.5, -0.5)
    axes.set_yticks(range(len(panel.bars)), [bar.label for bar in panel.bars])
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.set_xlabel(chart.label)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    figure.text(0, 1 - 0.16 / height, panel.title, fontweight="bold", size=10.5, va="center")
    figure.legend(
        handles=[
            Patch(color=SERIES[index % len(SERIES)], label=chart.parts[index]) for index in used
        ],
        loc="upper left", bbox_to_anchor=(0, 1 - 0.27 / height),
        ncols=math.ceil(len(used) / legend_rows), frameon=False,
        fontsize=9, handlelength=0.9, handleheight=0.9, columnspacing=1.4, borderpad=0,
        borderaxespad=0, labelspacing=0.35, handletextpad=0.5,
    )  # fmt: skip
    return figure


def marker(line: Line) -> str:
    """Return the shape of a line's markers, which tells apart what is drawn in like colours."""
    shapes = _MARKERS[line.colour // _MARKED_ALIKE % len(_MARKERS)]
    return shapes[line.variant % 2]


def _plot(axes: Axes, line: Line) -> None:
    colour = SERIES[line.colour % len(SERIES)]
    dashes = ("-", (0, (4, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.22, linewidth=0)
    axes.plot(
        line.x,
        line.y,
        color=colour,
        linewidth=1.5,
        linestyle=dashes[line.variant % len(dashes)],
        marker=marker(line) if line.marked else "",
        markersize=3.4,
        markerfacecolor=colour if line.variant == 0 else "none",
        markeredgewidth=1,
    )


def _set_axes(axes: Axes, chart: Chart) -> None:
    xs = [x for panel in chart.panels for line in panel.lines for x in line.x]
    ys = [
        y
        for panel in chart.panels
        for line in panel.lines
        for y in (*line.y, *(line.low or ()), *(line.high or ()))
    ]
    if chart.reference is not None:
        ys.append(chart.reference)
    axes.set_xlabel(chart.x.label)
    # The label of the y axis lies flat above it, where it is read without tilting the head.
    axes.text(0, 1.01, chart.y.label, transform=axes.transAxes, ha="left", va="bottom", fontsize=9)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    if chart.x.kind == "names":
        axes.set_xlim(-0.2, len(chart.x.names) - 0.8)
        axes.set_xticks(range(len(chart.x.names)), chart.x.names)
    elif chart.x.kind == "linear":
        axes.set_xlim(min(xs), max(xs))
    elif chart.x.kind == "with zero" and min(xs) <= 0 < max(xs):
        _zero_axis(axes, xs)
    else:
        _log_axis(axes, "x", chart.x.kind, xs)
    if chart.frame is not None:
        axes.set_ylim(*chart.frame)
    elif chart.y.kind == "linear":
        axes.set_ylim(0, 1.08 * max(ys) or 1.0)
    else:
        _log_axis(axes, "y", chart.y.kind, ys)


def _log_axis(axes: Axes, which: str, kind: str, values: Sequence[float]) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis

    def write(value: float) -> str:
        if kind == "size":
            return formats.power(int(value))
        return formats.tick(value)

    positive = [value for value in values if value > 0]
    low, high = min(positive), max(positive)
    margin = (high / low) ** 0.04 if high > 1.1 * low else 1.5
    if which == "x":
        axes.set_xscale("log", base=2)
        axes.set_xlim(low / margin, high * margin)
        ticks = sorted(set(values))
        if kind == "measured" or len(ticks) > _MOST_PLACES:
            kept = _round_ticks(axes, low / margin, high * margin, write)
        else:
            kept = _apart(axes, ticks[:: -math.ceil(len(ticks) / 6)][::-1], write)
        axis.set_major_locator(FixedLocator(kept))
    else:
        axes.set_yscale("log", base=10)
        axes.set_ylim(low / margin, high * margin)
        narrow = high / low < 30
        is_size = kind == "size"  # powers of two: each fourth, each second, or each
        step = next(step for step in (2, 4, 16) if step == 16 or high / low < step**4)
        axis.set_major_locator(
            LogLocator(step) if is_size else LogLocator(10, subs=(1, 2, 5) if narrow else (1,))
        )
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def _round_ticks(axes: Axes, low: float, high: float, write: Callable[[float], str]) -> list[float]:
    """Return round numbers on an x axis, as many in each decade as their labels have room for."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        # Too few of them would not show that the axis is logarithmic.
        if found and len(ticks) < 2:
            break
        found = _apart(axes, ticks, write) if ticks else []
        if len(found) == len(ticks):
            break
    return found


def _apart(axes: Axes, ticks: Sequence[float], write: Callable[[float], str]) -> list[float]:
    """Return ticks of an x axis whose labels stay apart: both ends, then from the last down."""
    kept: dict[float, tuple[float, float]] = {}  # where each label begins and ends, in points
    for tick in dict.fromkeys((ticks[-1], ticks[0], *reversed(ticks))):
        place = float(axes.transData.transform((tick, 1))[0]) * 72 / axes.figure.dpi
        half = len(write(tick)) * CHARACTER * 10 / 9 / 2  # a label of a tick is larger
        gap = _LABEL_GAP / 2
        if all(
            place + half + gap < low or place - half - gap > high for low, high in kept.values()
        ):
            kept[tick] = place - half, place + half
    return sorted(kept)


def _zero_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic above its least positive value, with zero a little left of it."""
    known = sorted(set(values))
    axes.set_xscale("symlog", linthresh=known[1], base=10)
    axes.set_xlim(0, known[-1])
    places = [
        float(axes.transAxes.inverted().transform(axes.transData.transform((v, 0)))[0])
        for v in known
    ]
    ticks: list[float] = []
    last = math.inf
    for value, place in reversed(list(zip(known, places, strict=True))):
        if last - place >= _TICK_GAP:
            ticks.append(value)
            last = place
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def _leaving(axes: Axes, line: Line) -> list[tuple[float, float]]:
    """Return where a line, as drawn, goes through the upper end of the y axis."""
    top = axes.get_ylim()[1]
    places = axes.transData.transform(list(zip(line.x, line.y, strict=True)))
    height = float(axes.transData.transform((line.x[0], top))[1])
    found = []
    for (x0, y0), (x1, y1) in itertools.pairwise(places):
        if (y0 > height) != (y1 > height):
            x = x0 + (height - y0) / (y1 - y0) * (x1 - x0)
            found.append((float(axes.transData.inverted().transform((x, height))[0]), top))
    return found


def _end(axes: Axes, line: Line) -> tuple[float, float]:
    """Return the last point of a line that is in the frame."""
    if line.y[-1] <= axes.get_ylim()[1]:
        return line.x[-1], line.y[-1]
    return (_leaving(axes, line) or [(line.x[-1], axes.get_ylim()[1])])[-1]


def _label_lines(axes: Axes, lines: Sequence[Line]) -> None:
    """Write each label at the end of its line, pushed apart where they would overlap."""
    lines = [line for line in lines if line.label]
    if not lines:
        return
    ends = [axes.transData.transform(_end(axes, line)) for line in lines]
    order = sorted(range(len(lines)), key=lambda i: float(ends[i][1]))
    scale = 72 / axes.figure.dpi
    wanted = [float(ends[i][1]) * scale for i in order]
    box = axes.get_window_extent()
    # Not below the axis, where the last tick is written.
    placed = spread(wanted, _LABEL_GAP, box.y0 * scale + 3, box.y1 * scale + 6)
    for i, height in zip(order, placed, strict=True):
        line = lines[i]
        end_x, end_y = (float(v) * scale for v in ends[i])
        axes.annotate(
            line.label,
            xy=_end(axes, line),
            xytext=(max(box.x1 * scale, end_x) - end_x + 8, height - end_y),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=SERIES[line.colour % len(SERIES)],
            arrowprops={
                "arrowstyle": "-",
                "color": SERIES[line.colour % len(SERIES)],
                "linewidth": 0.6,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending positions as little as keeps them `gap` apart, inside [low, high]."""
    placed: list[list[float]] = []  # clusters of wanted positions that touch
    starts: list[float] = []

    def start_of(cluster: list[float]) -> float:
        offsets = [value - index * gap for index, value in enumerate(cluster)]
        start = sum(offsets) / len(offsets)
        return max(low, min(start, high - (len(cluster) - 1) * gap))

    for value in wanted:
        placed.append([value])
        starts.append(start_of([value]))
        while len(placed) > 1 and starts[-1] < starts[-2] + len(placed[-2]) * gap:
            last = placed.pop()
            starts.pop()
            placed[-1] += last
            starts[-1] = start_of(placed[-1])
    return [
        start + index * gap
        for start, cluster in zip(starts, placed, strict=True)
        for index in range(len(cluster))
    ]


def _tidy(svg: str, description: str) -> str:
    """Drop what nobody needs, let the page set size and font, and add the description.

    Nobody needs metadata, ids, groups of one purpose, turns by nothing, and further digits.
    """
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(svg)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    for group in root.iter(f"{{{_SVG}}}g"):
        group.attrib.pop("id", None)
    _dissolve_groups(root)
    for text in root.iter(f"{{{_SVG}}}text"):
        style = text.attrib.get("style", "").split(";")
        kept = [part.strip() for part in style if not part.strip().startswith("font-family")]
        text.set("style", "; ".join(part for part in kept if part))
        if text.attrib.get("transform", "").startswith("rotate(-0 "):
            del text.attrib["transform"]
    root.attrib.pop("width"), root.attrib.pop("height")
    root.set("role", "img")
    root.set("aria-label", description)
    root.set("font-family", "system-ui, sans-serif")
    for element in root.iter():
        for place in {"d", "x", "y", "transform"} & element.attrib.keys():
            # Tenths of a point are as fine as the pixels of a screen.
            short = re.sub(r"\d+\.\d{2,}", _tenths, element.attrib[place])
            element.set(place, " ".join(short.split()))
        if "style" in element.attrib:
            element.set("style", re.sub(r"\s*([:;])\s*", r"\1", element.attrib["style"]))
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))


def _dissolve_groups(element: ElementTree.Element) -> None:
    """Put what is in groups that say nothing into their place."""
    for child in list(element):
        _dissolve_groups(child)
        if child.tag == f"{{{_SVG}}}g" and not child.attrib:
            at = list(element).index(child)
            element[at : at + 1] = list(child)


def _tenths(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def _page_colours(svg: str) -> str:
    svg = svg.replace(INK, "currentColor").replace(RULE, "var(--rule)")
    for index, sentinel in enumerate(SERIES):
        svg = svg.replace(sentinel, f"var(--line-{index})")
    return svg


def _fixed_colours(svg: str) -> str:
    svg = svg.replace(INK, "#222222").replace(RULE, "#dddddd")
    for sentinel, colour in zip(SERIES, LIGHT, strict=True):
        svg = svg.replace(sentinel, colour)
    start = svg.index(">") + 1
    return f'{svg[:start]}<rect width="100%" height="100%" fill="#ffffff"/>{svg[start:]}\n'
