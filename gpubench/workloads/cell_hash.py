"""Hashes the integer cells of positions, for workloads that keep their cells in a hash grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpubench.algorithms.hash_grid import BLOCKS_PER_UNIT, HashGrid
from gpubench.devices.base import Device


class CellHash:
    """Hashes the cell of each position (silva2012, Algorithm 1).

    constants: compile-time constants of kernels/in_cells.cu. origin: the cell hashed as (0, 0, 0);
    with `table.limits`, the lowest cell along each axis.
    """

    def __init__(
        self,
        device: Device,
        table: HashGrid,
        constants: Mapping[str, int | str],
        origin: tuple[int, int, int],
    ) -> None:
        self._device, self._table = device, table
        self._block = int(constants["BLOCK"])
        self._origin = device.upload(np.array(origin, np.int32))
        self._buckets, self._lowest = (
            device.kernel("in_cells.cu", name, **constants)
            for name in ("bucket_ids", "lowest_cells")
        )

    def launch(self, places: Any, bucket_of: Any, packed_box: Any) -> None:
        """Queue the kernels that find the bucket of each particle.

        places: the workload's positions, (particles, 4). bucket_of: int32 (particles,).
        """
        device, corner, particles = self._device, self._table.answer.corner, self._table.particles
        blocks = device.blocks(particles, self._block)
        if self._table.limits:
            device.fill(corner, 0x7F)  # larger than any cell coordinate
            few = min(blocks, BLOCKS_PER_UNIT * device.compute_units)
            self._lowest(few, self._block, places, packed_box, corner, particles)
        else:
            device.copy(self._origin, corner)
        self._buckets(blocks, self._block, places, bucket_of, packed_box, corner, particles)
