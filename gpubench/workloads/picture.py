"""Simple pictures drawn on the device, to measure the minimum cost of showing a simulation.

silva2012 reports frames per second, where a frame is a step and a picture, with spheres whose
normals are filtered in screen space. Here each particle is a flat disc, shaded by its speed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.devices.base import Device
from gpubench.physics.box import Box

BLOCK = 128
WIDTH, HEIGHT = 1280, 720  # pixels, at most
SPEED_BITS = 12
LEAST, MOST = 1, 16  # diameter of a particle, in pixels
NOTHING = 0x7F7F7F7F  # a pixel without a particle


class Picture:
    """A picture of a box on a device.

    width, height: size in pixels; the box fills WIDTH or HEIGHT. fastest: speed of the top shade.
    """

    def __init__(self, device: Device, box: Box, diameter: float, fastest: float) -> None:
        """Make an empty picture; the axes of `box` are in memory order."""
        self.device, self.fastest = device, fastest
        _, up, right = box.size
        self.scale = min(WIDTH / right, HEIGHT / up)
        self.width, self.height = math.ceil(right * self.scale), math.ceil(up * self.scale)
        self.size = min(max(round(diameter * self.scale), LEAST), MOST)
        self._draw, self._merge = (
            device.kernel("draw.cu", name, BLOCK=BLOCK, SPEED_BITS=SPEED_BITS)
            for name in ("draw", "merge")
        )
        self.pixels = device.empty(self.width * self.height, "int32")

    def clear(self) -> None:
        """Queue a fill that clears the picture."""
        self.device.fill(self.pixels, NOTHING & 0xFF)

    def draw(self, places: Any, velocities: Any, box: Any, first: int, last: int) -> None:
        """Queue drawing the particles `first` to `last` - 1; `box` is packed, on the device."""
        self._draw(
            self.device.blocks(last - first, BLOCK), BLOCK, places, velocities, box, first, last,
            self.width, self.height, self.scale, self.size, self.fastest, self.pixels,
        )  # fmt: skip

    def merge(self, other: Any) -> None:
        """Queue merging another picture of the same size, keeping the nearest pixels."""
        count = self.width * self.height
        self._merge(self.device.blocks(count, BLOCK), BLOCK, self.pixels, other, count)

    def speeds(self) -> NDArray[np.float32]:
        """Download the visible speeds, float32 (height, width), top row first; NaN where empty."""
        found = self.device.download(self.pixels).reshape(self.height, self.width)
        shades = (found & ((1 << SPEED_BITS) - 1)).astype(np.float32) + np.float32(0.5)
        speeds = shades * np.float32(self.fastest / (1 << SPEED_BITS))
        return np.where(found == NOTHING, np.float32(np.nan), speeds)
