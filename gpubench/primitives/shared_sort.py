"""Counting sort of small inputs by cell, in one launch."""

from __future__ import annotations

from typing import Any, ClassVar

from gpubench.core.grid import Grid
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel


class SharedSort:
    """Counting sort of particles by cell in shared memory (shared_counting_sort.cu).

    grid: the cells to sort by. most, most_cells: maximum number of particles and of cells.
    block, blocks: threads per block, and number of blocks, each of which writes part of the output.
    start, order, sorted: the answer, as in SortedCells; overwritten by the next launch.
    workspace_bytes: all memory allocated here.
    """

    block: ClassVar[int] = 1024
    blocks: ClassVar[int] = 16
    most: ClassVar[int] = 8192
    most_cells: ClassVar[int] = 16384

    def __init__(self, device: Device, particles: int, grid: Grid) -> None:
        self._particles, self._cells = particles, grid.count
        self.start = device.empty(grid.count + 1, "int32")
        self.order = device.empty(particles, "int32")
        self.sorted = device.empty((particles, 4), "float32")
        self.workspace_bytes = sum(a.nbytes for a in (self.start, self.order, self.sorted))
        self._given = {
            "grid": device.upload(grid.packed().view("uint8")), "particles": particles,
            "cells": grid.count, "start": self.start, "order": self.order,
            "sorted_positions": self.sorted,
        }  # fmt: skip
        in_thread = 4 * device.blocks(grid.count, 4 * self.block)
        self._kernel = NamedKernel(
            device, "shared_counting_sort.cu", "sort_shares", BLOCK=self.block,
            ITEMS=device.blocks(particles, self.block), IN_THREAD=in_thread,
            SHARED_BYTES=4 * self.block * in_thread,
        )  # fmt: skip

    @classmethod
    def pays(cls, device: Device, particles: int, grid: Grid) -> bool:
        """Whether one launch is faster than several: for few particles and cells on a GPU."""
        shared_bytes = 4 * (cls.most_cells + cls.block)
        fits = particles <= cls.most and grid.count <= cls.most_cells
        return fits and not device.is_cpu and shared_bytes <= device.shared_bytes

    def launch(self, positions: Any) -> None:
        """Queue the sort of positions inside the box: float32, shape (particles, 4)."""
        self._kernel(self.blocks, self.block, positions=positions, **self._given)

    def traffic_bytes(self) -> int:
        """Return the bytes of a launch: positions read and written; order and starts written."""
        return (32 + 4) * self._particles + 4 * self._cells
