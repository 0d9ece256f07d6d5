"""Compute the cell of each particle on the device."""

from __future__ import annotations

from typing import Any

from gpubench.core.grid import Grid
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel

BLOCK = 256


class CellIds:
    """Computes the cell ids of particles in a grid (rozen2008, section 2.3)."""

    def __init__(self, device: Device, grid: Grid) -> None:
        self._device = device
        self.packed_grid = device.upload(grid.packed().view("uint8"))
        self._kernel = NamedKernel(device, "cell_ids.cu", "cell_ids")

    def launch(self, positions: Any, cell_of: Any) -> None:
        """Queue the kernel that writes the cell of positions[i] to cell_of[i].

        positions: float32, shape (particles, 4), inside the box. cell_of: int32, (particles,).
        """
        particles = cell_of.shape[0]
        self._kernel(
            self._device.blocks(particles, BLOCK), BLOCK,
            positions=positions, cell_of=cell_of, grid=self.packed_grid, particles=particles,
        )  # fmt: skip
