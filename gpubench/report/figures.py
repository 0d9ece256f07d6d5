"""Figures as data: panels of lines, points or bars, with a title, a caption and a description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from gpubench.report import formats

# After Wong, Points of view: Color blindness, Nature Methods 8 (2011) 441; darkened or lightened
# where the background needs it. The second eight are as distinct as possible for colour-blind
# readers; colour alone cannot separate all sixteen, so the second eight also get other markers.
LIGHT = (
    "#0072b2", "#c75000", "#00805e", "#a8487f", "#a67200", "#59595f", "#3d8fc2", "#5b4ba8",
    "#b800d0", "#7a0c0c", "#1c1ce0", "#0b4f0b", "#e8206e", "#0f2d5c", "#84522b", "#6f7a00",
)  # fmt: skip
DARK = (
    "#4aa8e0", "#f08a4b", "#35c79b", "#e09ac2", "#e0b040", "#b5b5bd", "#9fd3f5", "#a79cf0",
    "#f06bff", "#ff7070", "#6f80ff", "#8fe04a", "#ff4fa0", "#d9e0ff", "#c09a7a", "#dbe86a",
)  # fmt: skip
PALETTE = len(LIGHT)
MOST_LINES = 12  # more in one panel are indistinguishable
# Vega's marker names, by group of eight colours, then by parity of the line's variant.
_MARKERS = (("circle", "square"), ("triangle-up", "triangle-down"), ("diamond", "cross"))
_MARKED_ALIKE = 8  # colours that share a marker


class Point(NamedTuple):
    """A point of a line. low, high: ends of its interval, or None. told: texts shown on hover."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    told: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Curve:
    """A labelled line. colour: index of hue and marker; variant: index of the dash pattern."""

    label: str
    points: Sequence[Point]
    colour: int = 0
    variant: int = 0
    marked: bool = True

    @classmethod
    def through(
        cls, label: str, x: Sequence[float], y: Sequence[float], colour: int = 0, **look: Any
    ) -> Curve:
        """Return a line through points that have no interval."""
        return cls(label, [Point(*each) for each in zip(x, y, strict=True)], colour, **look)


class Plot(NamedTuple):
    """One plot: a title, its lines, and a text alternative to the picture."""

    title: str
    lines: Sequence[Curve]
    description: str


class Scale(NamedTuple):
    """An axis and the format of its values.

    kind: logarithmic ("size", "number", "with zero"), "linear", or "names" (values index `names`).
    """

    label: str
    kind: str
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Captioned:
    """Title and texts of a figure of any kind; slug: prefix of its file names."""

    slug: str
    title: str
    caption: str


@dataclass(frozen=True)
class Chart(Captioned):
    """A figure of panels with common axes and at least one line; reference: a y value to mark."""

    x: Scale
    y: Scale
    panels: Sequence[Plot]
    reference: float | None = None

    def __post_init__(self) -> None:
        shown = [each for each in self.panels if any(len(line.points) > 1 for line in each.lines)]
        object.__setattr__(self, "panels", shown)


class StackedBar(NamedTuple):
    """A labelled bar that stacks named parts."""

    label: str
    parts: Mapping[str, float]


@dataclass(frozen=True)
class BarChart(Captioned):
    """A figure of horizontal bars; label: names the value axis; panels: lists of bars by title.

    are_ratios: each bar's parts lie below each other and start at 1 on a logarithmic axis.
    """

    label: str
    panels: Mapping[str, Sequence[StackedBar]]
    are_ratios: bool = False


def panel(title: str, lines: Sequence[Curve], what: str, unit: str) -> Plot:
    """Make a panel whose description gives each line's last value.

    Keeps at most MOST_LINES lines: those with the most points, then the lowest.
    """
    if len(lines) > MOST_LINES:
        heights = {id(line): sorted(point.y for point in line.points) for line in lines}
        best = sorted(lines, key=lambda line: (-len(line.points), heights[id(line)]))[:MOST_LINES]
        lines = [line for line in lines if line in best]
    ends = ", ".join(f"{line.label} {formats.significant(line.points[-1].y)}" for line in lines)
    place = f", {title}" if title else ""
    return Plot(title, lines, f"{what}{place}. At the right end, {unit}: {ends}.")


def marker(line: Curve) -> str:
    """Return the marker shape of a line, which distinguishes lines of similar colours."""
    return _MARKERS[line.colour // _MARKED_ALIKE % len(_MARKERS)][line.variant % 2]
