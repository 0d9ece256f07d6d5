"""Pictures of a simulation: a PNG for each frame, an animation of all, and a panel of a few.

A frame looks at the box from one side and shows a slab through the middle of the particles, x to
the right and z upwards unless another axis is the thin one. It holds its step and time as text,
so that animation and panel are made from the files alone, also from those of an earlier run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from PIL import Image

from gpubench.errors import UserError
from gpubench.simulate.files import whole_file, writing
from gpubench.workloads.workload import Snapshot

# After Wong, Points of view: Color blindness, Nature Methods 8 (2011) 441.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
INK = "#333333"

DPI = 100
SIDE = 5.6  # inches of the longer side of the box in a frame
LEFT, RIGHT, TOP, BOTTOM = 0.6, 0.2, 0.4, 0.75  # inches around it
LEAST_WIDTH = 4.0  # inches, for title and legend of a narrow box

SLAB = 1.5  # thickness of what is shown of a deep box, in mean distances: about 1 at density 3
THIN = 3.0  # what is no deeper is shown as a whole
DIAMETER = 1.1  # of a particle, in mean distances of those shown
LAYERS = 8  # of depth, drawn from the back to the front

PANEL_MOMENTS = 6
PANEL_COLOURS = 24
ANIMATION_COLOURS = 32
ANIMATION_MS = 10_000  # all frames together, but within these for each
LEAST_FRAME_MS, MOST_FRAME_MS = 40, 500

_KEY = "gpubench"  # of a frame's own account in the text of its PNG


@dataclass(frozen=True)
class View:
    """Which axes of a box go to the right, up, and into the picture."""

    right: int
    up: int
    depth: int

    @classmethod
    def of(cls, size: Sequence[float]) -> View:
        """Look along the shortest edge, or along y where that is about as short."""
        shortest = int(np.argmin(size))
        depth = 1 if size[1] <= 1.01 * size[shortest] else shortest
        right, up = (axis for axis in range(3) if axis != depth)
        return cls(right, up, depth)


@dataclass(frozen=True)
class Frame:
    """A picture that was written.

    box: pixels of the box in it: left, top, right, bottom.
    """

    path: Path
    step: int
    time: float
    species_names: tuple[str, ...]
    box: tuple[int, int, int, int]


class FrameFolder:
    """A folder of frames, named by their steps.

    title: stands over each. Raises UserError where the folder has frames already, unless the run
    that made them is resumed.
    """

    def __init__(self, folder: Path, title: str, *, is_resumed: bool = False) -> None:
        if not is_resumed and any(folder.glob("frame-*.png")):
            raise UserError(f"{folder} has the frames of another run: name a new folder")
        self.folder = folder
        self._title = title

    def write(self, snapshot: Snapshot) -> None:
        """Add the frame of a moment; raise UserError where it cannot be written."""
        write_frame(snapshot, self.folder / f"frame-{snapshot.step:010d}.png", self._title)

    def finish(self) -> tuple[Path, Path] | None:
        """Write animation.gif and panel.png of all frames in the folder; None without any."""
        frames = read_frames(self.folder)
        if not frames:
            return None
        animation, panel = self.folder / "animation.gif", self.folder / "panel.png"
        write_animation(frames, animation)
        write_panel(frames, panel)
        return animation, panel


def write_frame(snapshot: Snapshot, path: Path, title: str) -> None:
    """Draw one moment as a PNG; every moment of a box gives a picture of the same size."""
    view = View.of(snapshot.size)
    width, height = snapshot.size[view.right], snapshot.size[view.up]
    scale = SIDE / max(width, height)
    figure_width = max(LEFT + width * scale + RIGHT, LEAST_WIDTH)
    figure = Figure((figure_width, BOTTOM + height * scale + TOP), dpi=DPI)
    left = LEFT + (figure_width - LEFT - width * scale - RIGHT) / 2
    axes = _place(figure, left, BOTTOM, width * scale, height * scale)
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_xlabel("xyz"[view.right], color=INK, labelpad=1)
    axes.set_ylabel("xyz"[view.up], color=INK, labelpad=1)
    axes.tick_params(colors=INK, labelsize=8)
    _draw_particles(axes, snapshot, view, 72 * scale)
    when = f"step {snapshot.step:,}, time {snapshot.time:g}"
    figure.text(0.5, 1 - 0.25 / figure.get_figheight(), f"{title}: {when}", ha="center", color=INK)
    _add_legend(figure, snapshot.species_names)
    corners = axes.get_window_extent()
    top = round(figure.get_figheight() * DPI)
    account = {
        "step": snapshot.step,
        "time": snapshot.time,
        "species_names": snapshot.species_names,
        "box": [
            round(corners.x0), top - round(corners.y1), round(corners.x1), top - round(corners.y0),
        ],
    }  # fmt: skip
    _save(figure, path, {"Title": f"{title}: {when}", _KEY: json.dumps(account)})


def read_frames(folder: Path) -> list[Frame]:
    """Return the frames in a folder in order of their steps; raise UserError for a broken one."""
    frames = []
    for path in folder.glob("frame-*.png"):
        try:
            with Image.open(path) as image:
                account = json.loads(str(image.info[_KEY]))
            frames.append(
                Frame(
                    path,
                    account["step"],
                    account["time"],
                    tuple(account["species_names"]),
                    tuple(account["box"]),
                )
            )
        except (OSError, KeyError, ValueError) as error:
            raise UserError(f"{path} is no frame of a simulation: move it elsewhere") from error
    return sorted(frames, key=lambda frame: frame.step)


def write_animation(frames: Sequence[Frame], path: Path) -> None:
    """Write a GIF that shows the frames one after the other, for ever."""
    with writing(path):
        palette = _pixels(frames[len(frames) // 2]).quantize(ANIMATION_COLOURS)
        reduced = [
            _pixels(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames
        ]
    duration = min(max(ANIMATION_MS // len(frames), LEAST_FRAME_MS), MOST_FRAME_MS)
    with whole_file(path) as file:
        reduced[0].save(
            file, "GIF", save_all=True, append_images=reduced[1:], duration=duration, loop=0
        )


def write_panel(frames: Sequence[Frame], path: Path) -> None:
    """Write a picture of up to six moments, evenly spaced: in a row if the box is tall."""
    chosen = sorted({round(i) for i in np.linspace(0, len(frames) - 1, PANEL_MOMENTS)})
    moments = [frames[index] for index in chosen]
    left, top, right, bottom = moments[0].box
    ratio = (bottom - top) / (right - left)
    columns = min(len(moments), PANEL_MOMENTS if ratio > 1.5 else PANEL_MOMENTS // 2)
    rows = math.ceil(len(moments) / columns)
    tile = min(3.0, 4.5 / ratio)  # inches
    gap, over, under = 0.15, 0.3, 0.45
    width, height = tile + gap, tile * ratio + over
    figure_width = max(columns * width + gap, LEAST_WIDTH)
    figure = Figure((figure_width, rows * height + under), dpi=DPI)
    margin = (figure_width - columns * width + gap) / 2
    for index, frame in enumerate(moments):
        row, column = divmod(index, columns)
        x, y = margin + column * width, under + (rows - 1 - row) * height
        axes = _place(figure, x, y, tile, tile * ratio)
        axes.set(xticks=[], yticks=[])
        axes.imshow(np.asarray(_pixels(frame).crop(frame.box)), aspect="auto")
        axes.set_title(f"({'abcdef'[index]}) time {frame.time:g}", size=9, color=INK, pad=4)
    _add_legend(figure, moments[0].species_names)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    few = Image.open(drawn).convert("RGB").quantize(PANEL_COLOURS, Image.Quantize.MAXCOVERAGE)
    with whole_file(path) as file:
        few.save(file, "PNG", optimize=True)


def _draw_particles(axes: Axes, snapshot: Snapshot, view: View, points: float) -> None:
    """Draw the particles of the slab, from the back to the front.

    points: in a unit of length.
    """
    depth = snapshot.positions[:, view.depth]
    is_shown, share = _slab(depth, snapshot)
    area = snapshot.size[view.right] * snapshot.size[view.up]
    diameter = DIAMETER * points * math.sqrt(area / (share * len(depth)))
    shown = np.flatnonzero(is_shown)
    back_to_front = shown[np.argsort(-depth[shown], kind="stable")]
    for layer in np.array_split(back_to_front, LAYERS):
        for species in range(len(snapshot.species_names)):
            seen = snapshot.positions[layer[snapshot.species[layer] == species]]
            axes.plot(
                seen[:, view.right],
                seen[:, view.up],
                linestyle="",
                marker="o",
                markersize=max(diameter, 0.4),
                markeredgewidth=0,
                color=COLOURS[species % len(COLOURS)],
            )


def _slab(depth: NDArray[np.float64], snapshot: Snapshot) -> tuple[NDArray[np.bool_], float]:
    """Return which particles are shown, and their share of all if they were spread evenly."""
    distance = (math.prod(snapshot.size) / len(depth)) ** (1 / 3)
    low, high = float(depth.min()), float(depth.max())
    if high - low <= THIN * distance:
        return np.ones(len(depth), np.bool_), 1.0
    return abs(depth - (low + high) / 2) <= SLAB * distance / 2, SLAB * distance / (high - low)


def _place(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes at a place in inches."""
    across, up = figure.get_size_inches()
    axes: Axes = figure.add_axes((left / across, bottom / up, width / across, height / up))
    for spine in axes.spines.values():
        spine.set(color=INK, linewidth=0.8)
    return axes


def _add_legend(figure: Figure, species_names: Sequence[str]) -> None:
    """Name the species under the picture, where there are several."""
    if len(species_names) < 2:
        return
    handles = [
        Line2D([], [], linestyle="", marker="o", color=COLOURS[index % len(COLOURS)], label=name)
        for index, name in enumerate(species_names)
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False, labelcolor=INK,
        fontsize=9, borderaxespad=0.1,
    )  # fmt: skip


def _save(figure: Figure, path: Path, text: dict[str, str]) -> None:
    metadata: dict[str, Any] = {"Software": None, **text}
    with whole_file(path) as file:
        figure.savefig(file, format="png", metadata=metadata)


def _pixels(frame: Frame) -> Image.Image:
    with Image.open(frame.path) as image:
        return image.convert("RGB")
