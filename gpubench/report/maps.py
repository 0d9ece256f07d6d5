"""Maps of who wins: tiles over two axes, coloured by the winner, the stronger the clearer.

A tile bears the letter of its winner, so that nobody has to tell colours apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gpubench.report.figures import CHARACTER, INK, RULE, SERIES, WIDTH, FigurePart, drawn

CLEAR = 4.0  # margins from there on look alike
_FAINT, _STRONG = 0.1, 0.62  # opacity of a tile without a margin, and of a clear one
_KEY = 0.2  # inches, of a line of the legend
_HATCH = "/////"
_PARTIAL = "*"  # behind the letter
_LEFT, _RIGHT, _ABOVE, _BELOW = 0.52, 0.06, 0.5, 0.42  # inches around the blocks
_GAP_X, _GAP_Y = 0.1, 0.24  # inches between blocks
_TILE = 0.36  # inches, the height of a tile of a map that is alone
_SMALL = 0.155  # of one of several


@dataclass(frozen=True)
class Tile:
    """Who wins at one place.

    column, row: indices of its values along the axes. key: index of the winner's key.
    margin: time of the runner-up over that of the winner; None where there is none.
    is_open: whether the winner cannot be told from another.
    is_partial: whether somebody who might have won was not timed, so that the margin says little.
    """

    column: int
    row: int
    key: int
    margin: float | None
    is_open: bool
    is_partial: bool = False

    @property
    def strength(self) -> float:
        """The opacity of its colour."""
        return opacity(None if self.is_partial else self.margin)

    @property
    def margin_text(self) -> str:
        """The margin as written on it; empty where it says little."""
        if self.margin is None or self.is_partial:
            return ""
        return f"{self.margin:.2f}" if self.margin < 10 else f"{self.margin:.0f}"


@dataclass(frozen=True)
class Block:
    """One map within a panel; column, row: where it stands there."""

    title: str
    tiles: Sequence[Tile]
    column: int = 0
    row: int = 0


@dataclass(frozen=True)
class MapPanel:
    """Maps over the same axes: a title, the maps, and a description for those who cannot see it.

    columns, rows: what is written along the axes.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    blocks: Sequence[Block]
    description: str


@dataclass(frozen=True)
class Key:
    """Who may win: name, letter, and index of the colour."""

    name: str
    letter: str
    colour: int


@dataclass(frozen=True)
class MapChart:
    """A figure of maps; x, y: labels of the axes."""

    slug: str
    title: str
    caption: str
    x: str
    y: str
    keys: Sequence[Key]
    panels: Sequence[MapPanel]

    @property
    def fullness(self) -> list[int]:
        """How many tiles each panel shows; what has several maps is too small for a summary."""
        return [
            0 if len(panel.blocks) > 1 else sum(len(block.tiles) for block in panel.blocks)
            for panel in self.panels
        ]


def draw(chart: MapChart) -> FigurePart:
    """Draw each panel of a chart."""
    return FigurePart(
        chart,
        [
            drawn(f"{chart.slug}-{index}", panel.description, partial(_figure, chart, panel))
            for index, panel in enumerate(chart.panels)
        ],
    )


def opacity(margin: float | None) -> float:
    """Return how strong the colour of a tile is; it grows with the logarithm of the margin."""
    if margin is None:
        return _FAINT
    share = min(1.0, math.log(max(margin, 1.0)) / math.log(CLEAR))
    return _FAINT + (_STRONG - _FAINT) * share


def _figure(chart: MapChart, panel: MapPanel) -> Figure:
    used = sorted({tile.key for block in panel.blocks for tile in block.tiles})
    legend = _legend_lines([chart.keys[index] for index in used])
    across = 1 + max(block.column for block in panel.blocks)
    down = 1 + max(block.row for block in panel.blocks)
    is_small = len(panel.blocks) > 1
    tile = _SMALL if is_small else _TILE
    block_height = tile * len(panel.rows)
    titles = 0.06 if is_small else 0.0
    above, below = _ABOVE + titles, _BELOW + _KEY * (len(legend) + 1) + 0.12
    height = above + down * block_height + (down - 1) * _GAP_Y + below
    figure = Figure(figsize=(WIDTH, height))
    block_width = (WIDTH - _LEFT - _RIGHT - (across - 1) * _GAP_X) / across
    for block in panel.blocks:
        left = _LEFT + block.column * (block_width + _GAP_X)
        top = above + block.row * (block_height + _GAP_Y)
        axes = figure.add_axes(
            (
                left / WIDTH,
                1 - (top + block_height) / height,
                block_width / WIDTH,
                block_height / height,
            )
        )
        under = any(b.column == block.column and b.row > block.row for b in panel.blocks)
        _draw_block(axes, chart, panel, block, is_small, across == 1)
        if is_small:
            axes.set_title(block.title, loc="left", pad=2, size=8)
        if under:
            axes.set_xticklabels([])
        if any(b.row == block.row and b.column < block.column for b in panel.blocks):
            axes.set_yticklabels([])
    figure.text(0, 1 - 0.13 / height, panel.title, fontweight="bold", size=10.5, va="center")
    figure.text(0, 1 - 0.32 / height, chart.y, size=9, va="center")
    bottom = above + down * block_height + (down - 1) * _GAP_Y
    figure.text(
        0.5 + (_LEFT - _RIGHT) / 2 / WIDTH,
        1 - (bottom + 0.32) / height,
        chart.x,
        size=9,
        ha="center",
        va="center",
    )
    _draw_legend(figure, height, bottom + _BELOW, legend)
    return figure


def _draw_block(
    axes: Axes, chart: MapChart, panel: MapPanel, block: Block, is_small: bool, is_wide: bool
) -> None:
    axes.set_xlim(0, len(panel.columns))
    axes.set_ylim(0, len(panel.rows))
    for tile in block.tiles:
        key = chart.keys[tile.key]
        _rectangle(axes, tile.column, tile.row, 1, 1, key.colour, tile.strength)
        if tile.is_open:
            _hatched(axes, tile.column, tile.row, 1, 1)
        x, y = tile.column + 0.5, tile.row + 0.5
        letter = f"{key.letter}{_PARTIAL}" if tile.is_partial else key.letter
        margin = tile.margin_text
        if is_small and is_wide and margin:
            letter = f"{letter}  {margin}"
        if is_small:
            axes.text(x, y, letter, size=7, weight="bold", ha="center", va="center_baseline")
            continue
        axes.text(x, y + 0.17, letter, size=9, weight="bold", ha="center", va="center_baseline")
        axes.text(x, y - 0.25, margin, size=7, ha="center", va="center_baseline")
    size = 7 if is_small else 9
    step = 2 if is_small and len(panel.columns) > 4 else 1
    columns = range(0, len(panel.columns), step)
    axes.set_xticks([i + 0.5 for i in columns], [panel.columns[i] for i in columns], size=size)
    rows = range(0, len(panel.rows), step)
    axes.set_yticks([i + 0.5 for i in rows], [panel.rows[i] for i in rows], size=size)
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_edgecolor(RULE)


def _rectangle(
    axes: Axes, x: float, y: float, width: float, height: float, colour: int, alpha: float
) -> None:
    fill = SERIES[colour % len(SERIES)]
    axes.add_patch(Rectangle((x, y), width, height, facecolor=fill, alpha=alpha, linewidth=0))


def _hatched(axes: Axes, x: float, y: float, width: float, height: float) -> None:
    axes.add_patch(
        Rectangle(
            (x, y), width, height, fill=False, hatch=_HATCH, edgecolor=INK, alpha=0.35, linewidth=0
        )
    )


def _legend_lines(keys: Sequence[Key]) -> list[list[Key]]:
    """Break the keys into lines as wide as the figure."""
    lines: list[list[Key]] = [[]]
    room = WIDTH * 72
    for key in keys:
        width = _key_width(key.name)
        if width > room and lines[-1]:
            lines.append([])
            room = WIDTH * 72
        lines[-1].append(key)
        room -= width
    return lines


def _key_width(name: str) -> float:
    return len(name) * CHARACTER + 34  # points: a square before it and a gap behind


def _draw_legend(figure: Figure, height: float, top: float, lines: Sequence[Sequence[Key]]) -> None:
    """Draw who is who, then how a margin looks; top: inches from the upper edge."""
    whole = (len(lines) + 1) * _KEY
    axes = figure.add_axes((0, 1 - (top + whole) / height, 1, whole / height))
    axes.set_xlim(0, WIDTH * 72)
    axes.set_ylim(whole * 72, 0)
    axes.axis("off")
    for index, keys in enumerate(lines):
        x, middle = 0.0, (index + 0.5) * _KEY * 72
        for key in keys:
            _rectangle(axes, x, middle - 5.5, 14, 11, key.colour, _STRONG)
            axes.text(
                x + 7, middle, key.letter, size=8.5, weight="bold", ha="center",
                va="center_baseline",
            )  # fmt: skip
            axes.text(x + 18, middle, key.name, size=9, va="center_baseline")
            x += _key_width(key.name)
    colour = lines[0][0].colour if lines[0] else 0
    x, middle = 0.0, (len(lines) + 0.5) * _KEY * 72
    axes.text(x, middle, "runner-up takes", size=9, va="center_baseline")
    x += 15 * CHARACTER + 4
    for margin, name in (
        (1.1, "1.1"),
        (1.5, "1.5"),
        (2.0, "2"),
        (CLEAR, f"{CLEAR:g} times or more"),
    ):
        _rectangle(axes, x, middle - 5.5, 14, 11, colour, opacity(margin))
        axes.text(x + 17, middle, name, size=9, va="center_baseline")
        x += len(name) * CHARACTER + 24
    _rectangle(axes, x, middle - 5.5, 14, 11, colour, _FAINT)
    _hatched(axes, x, middle - 5.5, 14, 11)
    axes.text(x + 17, middle, "cannot tell", size=9, va="center_baseline")
