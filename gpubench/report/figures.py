"""Figures as data: panels of lines, points or bars, with a title, a caption and a description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

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
MOST_LINES = 12  # more in one panel are indistinguishable
# Of a line: by its eight of colours, then by whether its variant is even; Vega's names.
_MARKERS = (("circle", "square"), ("triangle-up", "triangle-down"), ("diamond", "cross"))
_MARKED_ALIKE = 8  # colours


class Point(NamedTuple):
    """A point of a line, with the ends of its interval or None; told: shown on hover."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    told: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Curve:
    """A labelled line. colour: of hue and marker, per algorithm; variant: of dashes, per form."""

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

    @property
    def x(self) -> list[float]:
        """Where its points are."""
        return [point.x for point in self.points]

    @property
    def y(self) -> list[float]:
        """Their values."""
        return [point.y for point in self.points]


class Plot(NamedTuple):
    """One plot: a title, its lines, and a description in place of the picture."""

    title: str
    lines: Sequence[Curve]
    description: str


class Scale(NamedTuple):
    """An axis and how its values are written.

    kind: "size", "number", "with zero" (first) are logarithmic; "linear"; "names": of indices.
    """

    label: str
    kind: str
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Captioned:
    """What is said of a figure of any kind; slug: what the names of its files begin with."""

    slug: str
    title: str
    caption: str


@dataclass(frozen=True)
class Chart(Captioned):
    """A figure of panels with the same axes and at least one line; reference: a marked value."""

    x: Scale
    y: Scale
    panels: Sequence[Plot]
    reference: float | None = None

    def __post_init__(self) -> None:
        shown = [panel for panel in self.panels if any(len(line.x) > 1 for line in panel.lines)]
        object.__setattr__(self, "panels", shown)


class StackedBar(NamedTuple):
    """One labelled bar of a panel, of named parts laid end to end."""

    label: str
    parts: Mapping[str, float]


@dataclass(frozen=True)
class BarChart(Captioned):
    """A figure of bars below each other; label: what their length is; panels: by their titles.

    are_ratios: the parts lie below each other and begin at 1 of a logarithmic axis.
    """

    label: str
    panels: Mapping[str, Sequence[StackedBar]]
    are_ratios: bool = False


def panel(title: str, lines: Sequence[Curve], what: str, unit: str) -> Plot:
    """Describe a panel by each line's last value.

    Of more than MOST_LINES it keeps those with the most points, then the lowest.
    """
    if len(lines) > MOST_LINES:
        best = sorted(lines, key=lambda line: (-len(line.points), *sorted(line.y)))[:MOST_LINES]
        lines = [line for line in lines if line in best]
    ends = ", ".join(f"{line.label} {formats.significant(line.y[-1])}" for line in lines)
    place = f", {title}" if title else ""
    return Plot(title, lines, f"{what}{place}. At the right end, {unit}: {ends}.")


def marker(line: Curve) -> str:
    """Return the shape of a line's markers, which tells apart what is drawn in like colours."""
    shapes = _MARKERS[line.colour // _MARKED_ALIKE % len(_MARKERS)]
    return shapes[line.variant % 2]
