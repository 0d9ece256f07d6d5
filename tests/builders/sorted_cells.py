"""Sorts of particles by cell, launched and checked."""

from __future__ import annotations

import numpy as np

from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives.bucketed_sort import BucketedSort
from gpubench.primitives.shared_sort import SharedSort
from gpubench.problems.cells.oracle import check_sorted


def sorted_right(
    device: Device, sorts: BucketedSort | SharedSort, positions: np.ndarray, grid: Grid
) -> None:
    """Launch twice, since the second finds what the first left, and check both answers."""
    uploaded = device.upload(positions)
    for _ in range(2):
        for array in (sorts.start, sorts.order, sorts.sorted):
            device.fill(array, 0xA5)
        sorts.launch(uploaded)
        start, order, moved = map(device.download, (sorts.start, sorts.order, sorts.sorted))
        cells = grid.cell_ids(positions)
        assert check_sorted(cells, grid.count, start, order, positions, moved) is None
