"""Shared by all pictures of a simulation: colours, and the key that explains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from PIL import Image

from gpubench.workloads.workload import Snapshot

# After Wong, Points of view: Color blindness, Nature Methods 8 (2011) 441.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
# Speeds: perceptually uniform, legible to the colour-blind. Bodies: a colour outside the map.
SPEEDS = colormaps["viridis"]
BODY = "#d55e00"
DARKEST = 0.6  # brightness of the darkest shade
GREYS = 16
INK = "#333333"
DPI = 100

BAR, BAR_HEIGHT = 2.8, 0.11  # length and height of the colour bar in inches
KEY = {"species": 0.3, "speed": 0.62}  # height of the key at the bottom of a picture, in inches


@dataclass(frozen=True)
class Key:
    """The meaning of a picture's colours; fields as in Snapshot."""

    species_names: tuple[str, ...]
    colour_by: str = "species"
    speed_scale: float = 0.0
    speed_label: str = "speed"

    @classmethod
    def of(cls, snapshot: Snapshot) -> Key:
        """Return the colour key for pictures of a snapshot."""
        return cls(
            snapshot.species_names, snapshot.colour_by, snapshot.speed_scale, snapshot.speed_label
        )

    @property
    def height(self) -> float:
        """Its height at the bottom of a picture, in inches."""
        return KEY[self.colour_by]


def colours_of(snapshot: Snapshot) -> NDArray[np.uint8]:
    """Return the colour of each particle, uint8 (particles, 3)."""
    palette = np.array([to_rgb(colour) for colour in COLOURS])
    found = palette[snapshot.species % len(COLOURS)]
    if snapshot.colour_by == "speed":
        speeds = np.sqrt((snapshot.velocities**2).sum(axis=1)) / snapshot.speed_scale
        found = np.where((snapshot.species > 0)[:, None], to_rgb(BODY), SPEEDS(speeds)[:, :3])
    return np.round(255 * found).astype(np.uint8)


def reduced(picture: Image.Image, key: Key, speeds: int, shades: int) -> Image.Image:
    """Return a picture reduced to a palette, to keep its file small.

    The palette is the same for all pictures of a run: `speeds` speed colours, or the species
    colours, each in `shades` shades, plus greys.
    """
    if key.colour_by == "speed":
        colours = [*SPEEDS(np.linspace(0, 1, speeds))[:, :3], to_rgb(BODY)]
    else:
        colours = [to_rgb(colour) for colour in COLOURS[: len(key.species_names)]]
    darkness = np.linspace(1.0, DARKEST, shades)
    greys = np.linspace((0.15,) * 3, (1.0,) * 3, GREYS)
    found = np.vstack([np.outer(darkness, colour) for colour in colours] + [greys])
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.round(255 * found).astype(np.uint8).tobytes())
    return picture.convert("RGB").quantize(palette=palette, dither=Image.Dither.NONE)


def place(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes at a position in inches."""
    across, up = figure.get_size_inches()
    axes: Axes = figure.add_axes((left / across, bottom / up, width / across, height / up))
    for spine in axes.spines.values():
        spine.set(color=INK, linewidth=0.8)
    return axes


def add_key(figure: Figure, key: Key) -> None:
    """Explain the colours under the picture: a bar for speeds, a legend for several species."""
    if key.colour_by == "speed":
        _add_bar(figure, key)
    elif len(key.species_names) > 1:
        colours = [COLOURS[i % len(COLOURS)] for i in range(len(key.species_names))]
        _add_legend(figure, key.species_names, colours, 0.5, "lower center")


def _add_bar(figure: Figure, key: Key) -> None:
    width = figure.get_figwidth()
    length = min(BAR, 0.6 * width)
    bodies = key.species_names[1:]
    named = ("rigid bodies" if len(bodies) > 1 else bodies[0]) if bodies else ""
    beside = 0.35 + 0.085 * len(named) if bodies else 0.0  # the legend's width in inches
    left = (width - length - beside) / 2
    axes = place(figure, left, KEY["speed"] - 0.04 - BAR_HEIGHT, length, BAR_HEIGHT)
    mapping = ScalarMappable(Normalize(0, key.speed_scale), SPEEDS)
    bar = figure.colorbar(mapping, axes, orientation="horizontal", extend="max", extendfrac=0.04)
    bar.set_label(key.speed_label, color=INK, size=9, labelpad=1)
    bar.outline.set(edgecolor=INK, linewidth=0.6)
    axes.tick_params(colors=INK, labelsize=8, length=2.5, pad=2)
    axes.locator_params(nbins=5)
    if bodies:
        _add_legend(figure, (named,), (BODY,), (left + length + 0.1) / width, "lower left")


def _add_legend(
    figure: Figure,
    names: Sequence[str],
    colours: Sequence[str],
    x: float,
    anchor: Literal["lower center", "lower left"],
) -> None:
    handles = [
        Line2D([], [], linestyle="", marker="o", color=colour, label=name)
        for name, colour in zip(names, colours, strict=True)
    ]
    up = 0.0 if anchor == "lower center" else (KEY["speed"] - 0.24) / figure.get_figheight()
    figure.legend(
        handles=handles, loc=anchor, bbox_to_anchor=(x, up), ncols=len(handles), frameon=False,
        labelcolor=INK, fontsize=9, borderaxespad=0.1,
    )  # fmt: skip
