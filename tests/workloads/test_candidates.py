"""Rows that are cut where a ball ends, and the test by bytes: no neighbour may be missed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpubench.devices import Device
from gpubench.physics.box import Box
from gpubench.workloads.cell_workload import BLOCK, LISTED, TRAVERSALS, SortedCells

PARTICLES = 160
NO_SHAPE = {"CAPACITY": 0, "LIST_BY_PARTICLE": 1, "COLUMNS": 1, "GATHER_PLACES": 0}


def along(rng: np.random.Generator, units: int, cells: int, steps: float) -> NDArray[np.uint64]:
    """Draw coordinates at which a cut can go wrong: at edges of cells, and a range from those.

    units: of the edge of the box. steps: the range in units.
    """
    edges = -(-rng.integers(0, cells + 1, PARTICLES) * units // cells)
    drawn = np.choose(
        rng.integers(0, 5, PARTICLES),
        [
            edges,
            edges + rng.choice([-1, 1]) * round(steps),
            rng.integers(0, units, PARTICLES),
            np.full(PARTICLES, rng.choice([0, units - 1])),
            edges + np.rint(rng.random(PARTICLES) * steps).astype(np.int64),
        ],
    ) + rng.integers(-2, 3, PARTICLES)
    inside = drawn % units if units == 2**32 else drawn.clip(0, units - 1)
    return inside.astype(np.uint64)


def listed(
    device: Device, box: Any, places: Any, cells: Any, items: Any, reach: float, **constants: int
) -> list[set[int]]:
    """Return the neighbours of each particle that `list_neighbours` finds."""
    n = PARTICLES
    kernel = device.kernel(
        "in_cells.cu", "list_neighbours", BLOCK=BLOCK, ROOM=n, **NO_SHAPE, **constants
    )
    counts, lists = device.empty(n, "int32"), device.empty((n, n), "int32")
    kernel(device.blocks(n, BLOCK), BLOCK, places, cells, items, box, reach, n, counts, lists)
    found = device.download(lists)
    rows = [found[i, :count] for i, count in enumerate(device.download(counts))]
    assert all(len(set(row)) == len(row) for row in rows), "a candidate came twice"
    return [set(row) for row in rows]


def coarsened(device: Device, box: Any, places: Any) -> NDArray[np.uint32]:
    """Return the words of bytes by which SPH tests candidates first, uint32 (particles,)."""
    constants = {"REACH": 1, "ROOM": 0, "NEAR": 36, "SYMPLECTIC": 0, "KEEP": 0, "SCATTER": 0}
    kernel = device.kernel(
        "sph.cu", "coarsen", BLOCK=BLOCK, TRAVERSAL=TRAVERSALS[SortedCells], **NO_SHAPE, **constants
    )
    words = device.empty(PARTICLES, "uint32")
    kernel(device.blocks(PARTICLES, BLOCK), BLOCK, places, box, 0, PARTICLES, words)
    found: NDArray[np.uint32] = device.download(words)
    return found


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    periodic=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    edges=st.tuples(*[st.sampled_from([3.0, 3.2, 4.0, 4.9, 7.3])] * 3),
    flat=st.sampled_from([0.3, 1.0, 1.7]),
    scale=st.sampled_from([1.0, 0.37, 123.4]),
)
@pytest.mark.parametrize(
    "parts", [1, 2, 3, *(pytest.param(parts, marks=pytest.mark.long) for parts in (4, 5))]
)
def test_rows_that_are_cut_miss_no_neighbour(
    opencl_device, parts, seed, periodic, edges, flat, scale
):
    """Found are all whom a test of all pairs finds, but those beyond the cells about one.

    Nor is any too far for the test by bytes.
    """
    rng = np.random.default_rng(seed)
    walled = [flat if rng.random() < 0.3 else edge for edge in edges]
    size = [e if p else w for e, w, p in zip(edges, walled, periodic, strict=True)]
    box = Box((size[0] * scale, size[1] * scale, size[2] * scale), periodic)
    grid = box.grid(scale, parts)
    units = [int(u) for u in box.units]
    places = np.zeros((PARTICLES, 4), np.uint32)
    cell = np.zeros((PARTICLES, 3), np.int64)
    for axis in range(3):
        at = along(rng, units[axis], grid.cells[axis], units[axis] / size[axis])
        places[:, axis] = at
        cell[:, axis] = at * np.uint64(grid.cells[axis]) // np.uint64(units[axis])
    number = (cell[:, 2] * grid.cells[1] + cell[:, 1]) * grid.cells[0] + cell[:, 0]
    order = np.argsort(number, kind="stable")
    places, cell, number = places[order], cell[order], number[order]
    start = np.searchsorted(number, np.arange(grid.count + 1)).astype(np.int32)

    device: Device = opencl_device
    packed = box.packed(grid, scale)
    on_device = device.upload(packed.view("uint8")), device.upload(places)
    all_of_them = np.tile(np.arange(PARTICLES, dtype=np.int32), (PARTICLES, 1))
    everyone = listed(
        device, *on_device, device.upload(np.full(PARTICLES, PARTICLES, np.int32)),
        device.upload(all_of_them), scale, TRAVERSAL=LISTED, REACH=1,
    )  # fmt: skip
    whole, cut = (
        listed(
            device, *on_device, device.upload(start), device.upload(start), scale,
            TRAVERSAL=TRAVERSALS[SortedCells], REACH=parts, **in_ball,
        )
        for in_ball in ({}, {"IN_BALL": 1})
    )  # fmt: skip
    coarse = coarsened(device, *on_device)
    for i in range(PARTICLES):
        apart = np.abs(cell - cell[i])
        around = np.minimum(apart, np.where(periodic, np.asarray(grid.cells) - apart, apart))
        reachable = set(np.flatnonzero((around <= (parts, 1, 1)).all(axis=1)))
        assert cut[i] == whole[i] == everyone[i] & reachable
        found = sorted(everyone[i])
        steps = (coarse[found] - coarse[i]).view(np.int8).reshape(-1, 4).astype(np.int64)
        assert ((steps**2).sum(axis=1) < packed["coarse_square"]).all()
