"""Frames of a simulation: PNG pictures, an animation of all, and a panel of a few.

All renderers save frames through this module. A PNG stores its step, its time and the meaning of
its colours as text, so animation and panel need only the files, including files from before a run
was resumed.
"""

from __future__ import annotations

import dataclasses
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
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from gpubench.base.errors import UserError
from gpubench.base.writing import whole_file, writing
from gpubench.simulate.look import DPI, INK, Key, add_key, place, reduced
from gpubench.workloads.workload import Snapshot

LEAST_WIDTH = 4.0  # inches, for title and key of a narrow picture
PANEL_MOMENTS = 6
PANEL_COLOURS, ANIMATION_COLOURS = 24, 32  # number of colours, if coloured only by species
# Number of speed colours, and of shades of each, if coloured by speed.
FRAME_SHADES, ANIMATION_SHADES = (48, 4), (28, 3)
ANIMATION_MS = 10_000  # duration of an animation; next line: limits per frame
LEAST_FRAME_MS, MOST_FRAME_MS = 40, 500
ANIMATION_BYTES = 1_900_000  # larger animations are scaled down
SHRINK, LEAST_PIXELS = 0.85, 240  # scale per attempt; below this size, frames are dropped instead

_KEY = "gpubench"  # PNG text field with the frame's description


@dataclass(frozen=True)
class Frame:
    """A frame on disk.

    box: pixels that show the simulation box: left, top, right, bottom.
    key: the meaning of its colours. renderer: the renderer that drew it.
    run: the id of its run; None in older frames.
    """

    path: Path
    step: int
    time: float
    key: Key
    box: tuple[int, int, int, int]
    renderer: str
    run: str | None

    @property
    def is_flat(self) -> bool:
        """Whether it has only the colours of the species."""
        return _is_flat(self.key, self.renderer)


def save_frame(
    figure: Figure,
    axes: Axes,
    path: Path,
    snapshot: Snapshot,
    title: str,
    renderer: str,
    run: str | None,
) -> None:
    """Write a figure as a frame; the given axes show the particles.

    Adds a title above and the colour key below. If colours show speeds or shading, their number is
    reduced, which keeps the file small.
    """
    key = Key.of(snapshot)
    when = f"{title}: step {snapshot.step:,}, time {snapshot.time:g}"
    figure.text(0.5, 1 - 0.25 / figure.get_figheight(), when, ha="center", color=INK)
    add_key(figure, key)
    corners = axes.get_window_extent()
    top = round(figure.get_figheight() * DPI)
    account = {
        "step": snapshot.step,
        "time": snapshot.time,
        **dataclasses.asdict(key),
        "renderer": renderer,
        "run": run,
        "box": [
            round(corners.x0), top - round(corners.y1), round(corners.x1), top - round(corners.y0),
        ],
    }  # fmt: skip
    text = {"Title": when, _KEY: json.dumps(account)}
    if _is_flat(key, renderer):
        metadata: dict[str, Any] = {"Software": None, **text}
        with whole_file(path) as file:
            figure.savefig(file, format="png", metadata=metadata)
        return
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    info = PngInfo()
    for name, value in text.items():
        info.add_text(name, value)
    few = reduced(Image.open(drawn), key, *FRAME_SHADES)
    with whole_file(path) as file:
        few.save(file, "PNG", optimize=True, pnginfo=info)


def read_frames(folder: Path) -> list[Frame]:
    """Return the frames in a folder in order of their steps; raise UserError for a broken one."""
    frames = []
    for path in folder.glob("frame-*.png"):
        try:
            with Image.open(path) as image:
                account = json.loads(str(image.info[_KEY]))
            # Older frames lack some fields of Key: they are coloured by species.
            own = {f.name: account[f.name] for f in dataclasses.fields(Key) if f.name in account}
            own["species_names"] = tuple(account["species_names"])
            box, renderer = tuple(account["box"]), account.get("renderer", "matplotlib")
            step, time, run = account["step"], account["time"], account.get("run")
            frames.append(Frame(path, step, time, Key(**own), box, renderer, run))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path} is no frame of a simulation: move it elsewhere") from error
    return sorted(frames, key=lambda frame: frame.step)


def write_animation(frames: Sequence[Frame], path: Path) -> None:
    """Write a GIF that shows the frames in order, in an endless loop.

    If the file is too large, the pictures are scaled down, and then frames are dropped.
    """
    scale, stride = 1.0, 1
    made, side = _animation(frames, path, scale)
    while len(made) > ANIMATION_BYTES and stride < len(frames):
        if side * SHRINK >= LEAST_PIXELS:
            scale *= SHRINK
        else:
            stride *= 2
        made, side = _animation(frames[::stride], path, scale)
    with whole_file(path) as file:
        file.write(made)


def _animation(frames: Sequence[Frame], path: Path, scale: float) -> tuple[bytes, int]:
    """Return a GIF of scaled frames, and the longer side of its pictures in pixels."""
    with writing(path):
        pictures = [_scaled(frame, scale) for frame in frames]
    if frames[0].is_flat:
        palette = pictures[len(frames) // 2].quantize(ANIMATION_COLOURS)
        few = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]
    else:
        few = [reduced(one, frames[0].key, *ANIMATION_SHADES) for one in pictures]
    duration = min(max(ANIMATION_MS // len(frames), LEAST_FRAME_MS), MOST_FRAME_MS)
    made = BytesIO()
    few[0].save(made, "GIF", save_all=True, append_images=few[1:], duration=duration, loop=0)
    return made.getvalue(), max(few[0].size)


def write_panel(frames: Sequence[Frame], path: Path) -> None:
    """Write a picture of up to six evenly spaced frames, in one row if the box is tall."""
    chosen = sorted({round(i) for i in np.linspace(0, len(frames) - 1, PANEL_MOMENTS)})
    moments = [frames[index] for index in chosen]
    key = moments[0].key
    left, top, right, bottom = moments[0].box
    ratio = (bottom - top) / (right - left)
    columns = min(len(moments), PANEL_MOMENTS if ratio > 1.5 else PANEL_MOMENTS // 2)
    rows = math.ceil(len(moments) / columns)
    tile = min(3.0, 4.5 / ratio)  # inches
    gap, over, under = 0.15, 0.3, 0.15 + key.height
    width, height = tile + gap, tile * ratio + over
    figure_width = max(columns * width + gap, LEAST_WIDTH)
    figure = Figure((figure_width, rows * height + under), dpi=DPI)
    margin = (figure_width - columns * width + gap) / 2
    for index, frame in enumerate(moments):
        row, column = divmod(index, columns)
        x, y = margin + column * width, under + (rows - 1 - row) * height
        axes = place(figure, x, y, tile, tile * ratio)
        axes.set(xticks=[], yticks=[])
        axes.imshow(np.asarray(_pixels(frame).crop(frame.box)), aspect="auto")
        axes.set_title(f"({'abcdef'[index]}) time {frame.time:g}", size=9, color=INK, pad=4)
    add_key(figure, key)
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    whole = Image.open(drawn).convert("RGB")
    if moments[0].is_flat:
        few = whole.quantize(PANEL_COLOURS, Image.Quantize.MAXCOVERAGE)
    else:
        few = reduced(whole, key, *FRAME_SHADES)
    with whole_file(path) as file:
        few.save(file, "PNG", optimize=True)


def _is_flat(key: Key, renderer: str) -> bool:
    return key.colour_by == "species" and renderer == "matplotlib"


def _pixels(frame: Frame) -> Image.Image:
    with Image.open(frame.path) as image:
        return image.convert("RGB")


def _scaled(frame: Frame, scale: float) -> Image.Image:
    whole = _pixels(frame)
    if scale == 1:
        return whole
    width, height = (round(side * scale) for side in whole.size)
    return whole.resize((width, height), Image.Resampling.LANCZOS)
