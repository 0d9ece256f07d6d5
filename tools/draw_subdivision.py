"""Draw an adaptively subdivided torus, its triangles coloured by level; needs matplotlib."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from gpubench.algorithms.loop_subdivision import LoopSubdivision
from gpubench.devices import open_device
from gpubench.problems.subdivision.inputs import make_loop_mesh


def draw(path: Path, device_spec: str, faces: int, depth: int, pixels: int) -> None:
    """Subdivide by screen length, and write a picture from the camera's position."""
    mpl.use("agg")
    from matplotlib import pyplot
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    mesh = make_loop_mesh("torus", faces, depth)
    with open_device(device_spec) as device:
        made = LoopSubdivision(device, "by-screen", {"pixels": pixels}, **mesh.made_for)
        made.load(mesh)
        made.launch()
        corners = device.download(made.answer.corners)[:, : made.outcome()["triangles"]]
    level = corners[0, :, 3]
    figure = pyplot.figure(figsize=(8, 6))
    axes = figure.add_subplot(projection="3d", computed_zorder=False)
    colours = mpl.colormaps["viridis"](level / depth)
    triangles = corners[..., :3].swapaxes(0, 1)
    axes.add_collection3d(
        Poly3DCollection(triangles, facecolors=colours, edgecolors="k", linewidths=0.1)
    )
    axes.set_axis_off()
    axes.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), zlim=(-0.9, 0.9), box_aspect=(4, 4, 3))
    axes.view_init(elev=35, azim=-90)
    counts = np.bincount(level.astype(int), minlength=depth + 1)
    axes.set_title("triangles by level: " + ", ".join(f"{n:,}" for n in counts))
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--faces", type=int, default=256)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--pixels", type=int, default=24)
    given = parser.parse_args()
    draw(given.picture, given.device, given.faces, given.depth, given.pixels)
