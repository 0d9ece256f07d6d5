"""Neighbours of particles from sorted cells, on a CPU through OpenCL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel

BLOCK = 256
WIDTH = 16  # vector width of kernels/neighbour_query_simd.cl
SLOTS = 64  # particles per work-item
TARGETS = 16  # particles of a cell that share a candidate buffer
SHARING = 8  # mean particles per part of a split cell (fastest on a Xeon, 16 to 200 neighbours)


def suits(device: Device) -> bool:
    """Whether a device is a CPU with OpenCL, whose kernels use SIMD vectors."""
    return device.is_cpu and "opencl" in device.features


class SimdQuery:
    """Runs a CellQuery over sorted cells with explicitly vectorised kernels.

    grid: the packed grid, on the device. constants: PERIODIC, REACH and HALF of the kernels.
    workspace_bytes: the bytes of the positions in cell order.
    """

    def __init__(
        self, device: Device, particles: int, grid: Any, cutoff2: np.float32, **constants: int
    ) -> None:
        self._device, self._particles, self._grid, self._cutoff2 = device, particles, grid, cutoff2
        self._pitch = (particles // WIDTH + 2) * WIDTH  # one vector past the end may be read
        self._sorted = device.empty(3 * self._pitch, "float32")
        self.workspace_bytes = int(self._sorted.nbytes)
        self._gather, self._count, self._fill = (
            NamedKernel(
                device, "neighbour_query_simd.cl", name,
                FILL=fill, SLOTS=SLOTS, TARGETS=TARGETS, **constants,
            )
            for name, fill in (("gather", 0), ("query", 0), ("query", 1))
        )  # fmt: skip

    def gather(self, order: Any, positions: Any) -> Any:
        """Queue a copy of positions, in cell order and the layout of `launch`; return the copy."""
        self._gather(
            self._device.blocks(self._pitch, BLOCK), BLOCK,
            order=order, positions=positions, sorted=self._sorted, particles=self._particles,
            pitch=self._pitch,
        )  # fmt: skip
        return self._sorted

    def launch(
        self, fills: bool, arrays: Mapping[str, Any], counts: Any, offsets: Any, neighbours: Any
    ) -> None:
        """Queue the count or the fill of a query.

        arrays: `positions` as returned by `gather`, `start` and `order`.
        """
        (self._fill if fills else self._count)(
            self._device.blocks(self._particles, SLOTS), 1, **arrays, grid=self._grid,
            cutoff2=self._cutoff2, particles=self._particles, pitch=self._pitch, counts=counts,
            offsets=offsets, neighbours=neighbours, capacity=np.int64(neighbours.shape[0]),
        )  # fmt: skip

    def traffic_bytes(self) -> int:
        """Return the bytes of a gather: read an index and a position, write three numbers."""
        return 32 * self._particles
