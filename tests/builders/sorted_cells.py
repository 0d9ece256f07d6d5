"""Sorts of particles by cell, launched and checked."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpubench import registry
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives.bucketed_sort import BucketedSort
from gpubench.primitives.shared_sort import SharedSort
from gpubench.problems.cells.oracle import check_sorted
from gpubench.verify.conformance import run_conformance

GRID = Grid((30, 7, 5), (-1.0, 0.0, 2.0), (6.0, 3.5, 2.5))


def particles_of(kind: str, particles: int, grid: Grid = GRID) -> np.ndarray:
    """Return positions that lie evenly in the box, mostly in a corner, or in one cell."""
    unit = np.random.default_rng(7).random((particles, 3), np.float32)
    if kind == "corner":
        unit[particles // 4 :] *= 0.2
    if kind == "first cell":
        unit *= 0.01
    if kind == "last cell":
        unit = 1 - unit * np.float32(0.01)
    positions = np.zeros((particles, 4), np.float32)
    positions[:, :3] = np.float32(grid.low) + unit * np.float32(grid.size)
    return positions


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


def conforms(device: Device, algorithm: str, form: str, levels: int) -> None:
    """See that an algorithm answers right with so many levels of sorting."""
    cls = registry.algorithms()[algorithm]
    parameters = {**cls.conformance_parameters, "levels": levels}
    results = run_conformance(partial(cls, device, form=form, parameters=parameters), cls.family)
    assert {result.status for result in results} <= {"ok", "skipped"}, results
    assert sum(result.status == "ok" for result in results) > 10
