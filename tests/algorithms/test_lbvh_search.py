"""The tree over particles, with a radius for each."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gpubench.algorithms.lbvh_search import LbvhSearch
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.problems.particles.inputs import ParticleSet, make


def lists_within(inputs: ParticleSet, radii: NDArray[np.float32]) -> list[set[int]]:
    """Return, by all pairs in float64, the particles nearer to each than its own radius."""
    xyz, size = inputs.positions[:, :3].astype(np.float64), np.asarray(inputs.grid.size)
    apart = xyz[:, None] - xyz[None]
    apart -= np.where(inputs.grid.periodic, size * np.rint(apart / size), 0.0)
    near = np.sqrt((apart**2).sum(axis=2)) < radii[:, None]
    np.fill_diagonal(near, False)
    return [set(np.flatnonzero(row).tolist()) for row in near]


@pytest.mark.parametrize("periodic", [(False, False, False), (True, False, True)])
@pytest.mark.parametrize("distribution", ["clusters", "coincident"])
def test_radii_that_differ_by_sixteen(
    intel: Device, periodic: tuple[bool, bool, bool], distribution: str
) -> None:
    grid = Grid((3, 4, 3), (-1.0, 0.5, 2.0), (3.0, 4.0, 3.0), periodic)
    inputs = make(400, grid, distribution, seed=5)
    radii = np.exp2(np.random.default_rng(6).uniform(-4, 0, 400)).astype(np.float32)
    search = LbvhSearch(intel, 400, grid, "list", {})
    search.load(inputs)
    search.search_within(intel.upload(radii))
    search.launch()
    offsets, found = map(intel.download, (search.answer.offsets, search.answer.neighbours))
    rows = [row.tolist() for row in np.split(found, offsets[1:-1])]
    assert [len(set(row)) for row in rows] == [len(row) for row in rows]
    assert [set(row) for row in rows] == lists_within(inputs, radii)
    assert search.outcome()["pairs"] == len(found)
