"""Draw two meshes, with their intersecting triangles in red; needs matplotlib."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

from gpubench.algorithms.obb_collision import ObbCollision
from gpubench.devices import open_device
from gpubench.problems.collision.inputs import MeshPair, make_mesh_pair
from gpubench.problems.collision.mesh_files import read_mesh_pair


def draw(path: Path, device_spec: str, pair: MeshPair) -> None:
    """Find the intersecting pairs, and write a picture."""
    mpl.use("agg")
    from matplotlib import pyplot
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    with open_device(device_spec) as device:
        made = ObbCollision(device, "atomic", {}, **pair.made_for)
        made.load(pair)
        made.launch()
        found = int(made.outcome()["pairs_found"])
        pairs = device.download(made.answer.pairs)[:found]
    figure = pyplot.figure(figsize=(8, 8))
    axes = figure.add_subplot(projection="3d")
    meshes = pair.first.astype(np.float64), pair.placed
    for mesh, column, colour in zip(meshes, pairs.T, ("tab:blue", "tab:green"), strict=True):
        meets = np.zeros(len(mesh), bool)
        meets[column] = True
        for chosen, face, alpha in ((~meets, colour, 0.12), (meets, "tab:red", 0.9)):
            axes.add_collection3d(
                Poly3DCollection(mesh[chosen], facecolors=face, alpha=alpha, linewidths=0)
            )
    corners = np.concatenate([mesh.reshape(-1, 3) for mesh in meshes])
    middle, reach = (corners.min(0) + corners.max(0)) / 2, np.ptp(corners, axis=0).max() / 2
    (x, y, z) = ((centre - reach, centre + reach) for centre in middle)
    axes.set(xlim=x, ylim=y, zlim=z)
    axes.set_box_aspect((1, 1, 1), zoom=1.4)
    axes.set_axis_off()
    axes.view_init(elev=15, azim=-60)
    axes.set_title(f"{found:,} pairs of {len(pair.first):,} and {len(pair.second):,} triangles")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--mesh", type=Path, nargs=2, help="two files, in place of a drawn shape")
    parser.add_argument("--shape", default="torus")
    parser.add_argument("--pose", default="deep")
    parser.add_argument("--faces", type=int, default=4096)
    given = parser.parse_args()
    drawn = (
        read_mesh_pair(*given.mesh)
        if given.mesh
        else make_mesh_pair(given.shape, given.faces, given.pose)
    )
    draw(given.picture, given.device, drawn)
