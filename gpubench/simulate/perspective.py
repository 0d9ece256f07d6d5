"""Pictures by PyVista: all particles as spheres, in perspective, rendered off screen.

The camera is in front of the box, slightly right of it and above; x points right and z up.
Matplotlib adds title and colour bar, as on other pictures.
"""

from __future__ import annotations

import math
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import binary_erosion

from gpubench.base import install
from gpubench.simulate.frames import LEAST_WIDTH, save_frame
from gpubench.simulate.look import DPI, Key, colours_of, place
from gpubench.simulate.renderers import PYVISTA
from gpubench.workloads.workload import Snapshot

NAME = PYVISTA
INSTALL = install.hint("pictures")

LONG = 860  # longer side of the scene in pixels
LEFT, RIGHT, TOP = 0.15, 0.15, 0.45  # margins in inches
SMOOTH = 2  # supersampling factor along each side

TOWARDS = (0.42, -1.0, 0.38)  # direction from the centre of the box to the camera
DISTANCE = 3.2  # distance of the camera, in diagonals of the box
PADDING = 1.02
FLOOR, EDGE = "#e9e9ec", "#8a8a90"
DIAMETER = 1.1  # a particle's diameter, in neighbour distances

HIDING = 1.5  # edge of the cells used to find hidden particles, in neighbour distances
LAYERS = 2  # number of layers of occupied cells that hide the particles behind them
TRIAL_SECONDS = 120

# Shades a disc as a sphere lit from the upper left.
_SHADER = """//VTK::Color::Impl
float radius2 = dot(offsetVCVSOutput.xy, offsetVCVSOutput.xy);
if (radius2 > 1.0) discard;
vec3 normal = vec3(offsetVCVSOutput.xy, sqrt(1.0 - radius2));
float shade = 0.6 + 0.5 * max(0.0, dot(normal, vec3(-0.35, 0.55, 0.76)));
ambientColor *= shade;
diffuseColor *= shade;
"""
_TRIAL = "from gpubench.simulate.perspective import try_out; try_out()"


@cache
def why_not() -> str | None:
    """Return why PyVista cannot draw here, or None.

    PyVista is tried in a separate process, which VTK may kill if there is no driver.
    """
    try:
        import pyvista  # noqa: F401
    except ImportError:
        return f"PyVista is not installed: {INSTALL}"
    try:
        command = [sys.executable, "-P", "-c", _TRIAL]
        tried = subprocess.run(command, capture_output=True, timeout=TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"PyVista made no picture within {TRIAL_SECONDS} s"
    if tried.returncode != 0:
        return "PyVista can make no picture without a window here: it needs EGL or OSMesa (libEGL)"
    return None


def try_out() -> None:
    """Draw a few particles; raise RuntimeError if none are visible."""
    corners = np.indices((2, 2, 2)).reshape(3, -1).T.astype(np.float64)
    snapshot = Snapshot(
        0, 0.0, (2.0, 2.0, 2.0), (False,) * 3, corners + 0.5, 0 * corners, np.zeros(8, np.int8),
        ("fluid",), "speed", 1.0, spacing=1.0,
    )  # fmt: skip
    seen = colours_of(snapshot)[0].astype(int)
    if not (abs(draw_scene(snapshot).astype(int) - seen).max(axis=2) < 60).any():
        raise RuntimeError("the picture is empty")


def write_frame(snapshot: Snapshot, path: Path, title: str, run: str | None = None) -> None:
    """Draw a snapshot as a PNG; all pictures of a box have the same size."""
    scene = draw_scene(snapshot)
    height, width = (side / DPI for side in scene.shape[:2])
    key = Key.of(snapshot)
    figure_width = max(LEFT + width + RIGHT, LEAST_WIDTH)
    figure = Figure((figure_width, key.height + height + TOP), dpi=DPI)
    axes = place(figure, (figure_width - width) / 2, key.height, width, height)
    axes.set_axis_off()
    axes.imshow(scene, aspect="auto", interpolation="none")
    save_frame(figure, axes, path, snapshot, title, NAME, run)


def draw_scene(snapshot: Snapshot) -> NDArray[np.uint8]:
    """Return a picture of the particles in their box, uint8 (height, width, 3)."""
    import pyvista
    from vtkmodules.vtkCommonCore import vtkLogger

    vtkLogger.SetStderrVerbosity(vtkLogger.VERBOSITY_OFF)  # no messages about missing displays
    spacing = snapshot.spacing or (math.prod(snapshot.size) / len(snapshot.positions)) ** (1 / 3)
    shown = ~hidden(snapshot.positions, HIDING * spacing)
    camera = Camera(np.array(snapshot.size))
    size = [SMOOTH * side for side in camera.pixels]
    plotter: Any = pyvista.Plotter(off_screen=True, window_size=size, lighting="none")
    try:
        plotter.background_color = "white"
        x, y, z = snapshot.size
        floor = pyvista.Plane(center=(x / 2, y / 2, 0), direction=(0, 0, 1), i_size=x, j_size=y)
        plotter.add_mesh(floor, color=FLOOR, lighting=False)
        edges = pyvista.Box(bounds=(0, x, 0, y, 0, z)).extract_all_edges()
        plotter.add_mesh(edges, color=EDGE, line_width=SMOOTH, lighting=False)
        points = pyvista.PolyData(snapshot.positions[shown].astype(np.float32))
        points["colours"] = colours_of(snapshot)[shown]
        actor = plotter.add_mesh(
            points, scalars="colours", rgb=True, style="points_gaussian", emissive=False,
            render_points_as_spheres=False, opacity=1.0, lighting=False,
        )  # fmt: skip
        actor.ForceOpaqueOn()  # PyVista treats points as translucent, which mixes near and far
        actor.mapper.SetScaleFactor(DIAMETER * spacing / 2)
        actor.mapper.SetSplatShaderCode(_SHADER)
        camera.aim(plotter)
        drawn = plotter.screenshot(return_img=True)
    finally:
        plotter.close()
    return np.asarray(Image.fromarray(drawn).reduce(SMOOTH))


class Camera:
    """A camera placed so that a box of a given size fills the picture.

    pixels: width and height of the picture.
    """

    def __init__(self, size: NDArray[np.float64]) -> None:
        back = np.array(TOWARDS) / np.linalg.norm(TOWARDS)
        right = np.cross((0, 0, 1), back)
        right /= np.linalg.norm(right)
        self._up = np.cross(back, right)
        corners = np.indices((2, 2, 2)).reshape(3, -1).T * size
        self._at = size / 2
        for _ in range(8):  # converges to equal margins left and right
            self._from = self._at + DISTANCE * np.linalg.norm(size) * back
            away = corners - self._from
            seen = np.column_stack([away @ right, away @ self._up]) / -(away @ back)[:, None]
            middle = (seen.min(axis=0) + seen.max(axis=0)) / 2
            scale = DISTANCE * np.linalg.norm(size)
            self._at = self._at + scale * (middle[0] * right + middle[1] * self._up)
        half = PADDING * (seen.max(axis=0) - seen.min(axis=0)) / 2
        self._angle = 2 * math.degrees(math.atan(half[1]))
        across, high = (max(1, round(LONG * side)) for side in half / half.max())
        self.pixels = across, high

    def aim(self, plotter: Any) -> None:
        """Point a plotter's camera at the box."""
        camera = plotter.camera
        camera.position, camera.focal_point = tuple(self._from), tuple(self._at)
        camera.up, camera.view_angle = tuple(self._up), self._angle
        camera.parallel_projection = False
        plotter.renderer.ResetCameraClippingRange()


def hidden(positions: NDArray[np.float64], edge: float) -> NDArray[np.bool_]:
    """Return which particles are hidden by others from all sides, bool (particles,).

    A particle is hidden if all cells (of the given edge) within LAYERS of its own are occupied.
    """
    cells = np.floor(positions / edge).astype(np.int64)
    cells -= cells.min(axis=0)
    at = tuple(cells.T)
    full = np.zeros(cells.max(axis=0) + 1, np.bool_)
    full[at] = True
    inside: NDArray[np.bool_] = binary_erosion(full, np.ones((3, 3, 3)), iterations=LAYERS)
    found: NDArray[np.bool_] = inside[at]
    return found
