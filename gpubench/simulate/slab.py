"""Pictures by matplotlib: a slab of the box, seen from one side.

A picture shows a slab through the middle of the particles; x points right and z up, unless an edge
other than y is the shortest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gpubench.simulate.frames import LEAST_WIDTH, save_frame
from gpubench.simulate.look import COLOURS, DPI, INK, Key, colours_of, place
from gpubench.simulate.renderers import MATPLOTLIB
from gpubench.workloads.workload import Snapshot

NAME = MATPLOTLIB

SIDE = 5.6  # longer side of the box in inches
LEFT, RIGHT, TOP, AXIS = 0.6, 0.2, 0.4, 0.45  # margins in inches; AXIS: between the box and the key

SLAB = 1.5  # slab thickness, in spacings or mean distances: about one length unit at density 3
THIN = 3.0  # depth in the same unit up to which all particles are shown
DIAMETER = 1.1  # a particle's diameter, in spacings or mean distances
LAYERS = 8  # number of depth layers, drawn back to front


@dataclass(frozen=True)
class SlabView:
    """The axes of a box that point right, up, and into the picture."""

    right: int
    up: int
    depth: int

    @classmethod
    def of(cls, size: Sequence[float]) -> SlabView:
        """View along the shortest edge; prefer y if it is about as short."""
        shortest = int(np.argmin(size))
        depth = 1 if size[1] <= 1.01 * size[shortest] else shortest
        right, up = (axis for axis in range(3) if axis != depth)
        return cls(right, up, depth)


def write_frame(snapshot: Snapshot, path: Path, title: str, run: str | None = None) -> None:
    """Draw a snapshot as a PNG; all pictures of a box have the same size."""
    view, key = SlabView.of(snapshot.size), Key.of(snapshot)
    width, height = snapshot.size[view.right], snapshot.size[view.up]
    scale = SIDE / max(width, height)
    bottom = AXIS + key.height
    figure_width = max(LEFT + width * scale + RIGHT, LEAST_WIDTH)
    figure = Figure((figure_width, bottom + height * scale + TOP), dpi=DPI)
    left = LEFT + (figure_width - LEFT - width * scale - RIGHT) / 2
    axes = place(figure, left, bottom, width * scale, height * scale)
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_xlabel("xyz"[view.right], color=INK, labelpad=1)
    axes.set_ylabel("xyz"[view.up], color=INK, labelpad=1)
    axes.tick_params(colors=INK, labelsize=8)
    _draw_particles(axes, snapshot, view, 72 * scale)
    save_frame(figure, axes, path, snapshot, title, NAME, run)


def _draw_particles(axes: Axes, snapshot: Snapshot, view: SlabView, points: float) -> None:
    """Draw the particles of the slab, back to front.

    points: typographic points per unit of length.
    """
    depth = snapshot.positions[:, view.depth]
    area = snapshot.size[view.right] * snapshot.size[view.up]
    is_shown, distance = _slab(depth, snapshot, area)
    diameter = max(DIAMETER * points * distance, 0.4)
    shown = np.flatnonzero(is_shown)
    back_to_front = shown[np.argsort(-depth[shown], kind="stable")]
    if snapshot.colour_by == "speed":
        seen = snapshot.positions[back_to_front]
        colours = colours_of(snapshot)[back_to_front] / 255
        across, up = seen[:, view.right], seen[:, view.up]
        axes.scatter(across, up, s=diameter**2, c=colours, linewidths=0)
        return
    for layer in np.array_split(back_to_front, LAYERS):
        for species in range(len(snapshot.species_names)):
            seen = snapshot.positions[layer[snapshot.species[layer] == species]]
            axes.plot(
                seen[:, view.right], seen[:, view.up], linestyle="", marker="o",
                markersize=diameter, markeredgewidth=0, color=COLOURS[species % len(COLOURS)],
            )  # fmt: skip


def _slab(
    depth: NDArray[np.float64], snapshot: Snapshot, area: float
) -> tuple[NDArray[np.bool_], float]:
    """Return a mask of the particles shown, and the distance that sets their size.

    The distance is the spacing or, if that is unknown, the mean distance that particles spread
    evenly over the box would have in the picture.
    """
    volume = math.prod(snapshot.size)
    spacing = snapshot.spacing or (volume / len(depth)) ** (1 / 3)
    low, high = float(depth.min()), float(depth.max())
    share = 1.0
    is_shown = np.ones(len(depth), np.bool_)
    if high - low > THIN * spacing:
        share = SLAB * spacing / (high - low)
        is_shown = abs(depth - (low + high) / 2) <= SLAB * spacing / 2
    return is_shown, snapshot.spacing or math.sqrt(area / (share * len(depth)))
