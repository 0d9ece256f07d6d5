"""Gather positions in cell order, on the device."""

from __future__ import annotations

from typing import Any

from gpubench.devices.base import Device

BLOCK = 256


class Gather:
    """Copies of positions in a given order.

    sorted: float32, shape (particles, 4); overwritten by each launch.
    """

    def __init__(self, device: Device, particles: int) -> None:
        self._particles = particles
        self._blocks = device.blocks(particles, BLOCK)
        self._kernel = device.kernel("gather.cu", "gather", BLOCK=BLOCK)
        self.sorted = device.empty((particles, 4), "float32")

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the gathered copy."""
        return int(self.sorted.nbytes)

    def launch(self, order: Any, positions: Any) -> None:
        """Queue sorted[slot] = positions[order[slot]].

        order: int32, shape (particles,). positions: float32, shape (particles, 4).
        """
        self._kernel(self._blocks, BLOCK, order, positions, self.sorted, self._particles)

    def traffic_bytes(self) -> int:
        """Return the bytes of a launch: read an index and a position, write a position."""
        return 9 * self.workspace_bytes // 4
