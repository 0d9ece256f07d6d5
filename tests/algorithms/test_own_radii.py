"""The tree over particles, and the cells of any size, with a radius for each particle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.algorithms.own_radii import MOST_CELLS, FineCells, LbvhSearch, OwnRadii, finer_cells
from gpubench.base.errors import NotSupported, UserError
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.oracle import NeighbourSearchOracle
from gpubench.problems.neighbours.radii import LISTED
from gpubench.problems.particles.inputs import ParticleSet, make, with_radii

GRID = Grid((3, 4, 3), (-1.0, 0.5, 2.0), (3.0, 4.0, 3.0), (True, False, True))


def lists_within(inputs: ParticleSet, radii: NDArray[np.float32]) -> list[set[int]]:
    """Return, by all pairs in float64, the particles nearer to each than its own radius."""
    xyz, size = inputs.positions[:, :3].astype(np.float64), np.asarray(inputs.grid.size)
    apart = xyz[:, None] - xyz[None]
    apart -= np.where(inputs.grid.periodic, size * np.rint(apart / size), 0.0)
    near = np.sqrt((apart**2).sum(axis=2)) < radii[:, None]
    np.fill_diagonal(near, False)
    return [set(np.flatnonzero(row).tolist()) for row in near]


@pytest.mark.parametrize(
    ("cls", "given"), [(LbvhSearch, {}), (FineCells, {}), (FineCells, {"finer": 1})]
)
@pytest.mark.parametrize("periodic", [False, True])
def test_radii_that_differ_by_sixteen(
    intel: Device, cls: type[OwnRadii], given: dict[str, int], periodic: bool
) -> None:
    grid = GRID if periodic else replace(GRID, periodic=(False,) * 3)
    inputs = with_radii(make(400, grid, "coincident" if periodic else "clusters", seed=5), 16, 6)
    search = cls(intel, 400, inputs.grid, "list", given)
    search.load(inputs)
    search.launch()
    offsets, found = map(intel.download, (search.answer.offsets, search.answer.neighbours))
    rows = [row.tolist() for row in np.split(found, offsets[1:-1])]
    assert [len(set(row)) for row in rows] == [len(row) for row in rows]
    assert inputs.radii is not None
    assert [set(row) for row in rows] == lists_within(inputs, inputs.radii)
    assert search.outcome()["pairs"] == len(found)
    assert NeighbourSearchOracle(inputs).check(search) is None


def test_the_oracle_of_radii_finds_what_is_wrong() -> None:
    inputs = with_radii(make(400, GRID, seed=5), 4)
    assert inputs.particles <= LISTED and inputs.radii is not None
    right = [sorted(row) for row in lists_within(inputs, inputs.radii)]
    oracle, wrong = NeighbourSearchOracle(inputs), []

    class Answered:
        task = name = "list"
        answer = Neighbours(None)

        def download(self, array):
            return array

    def told(rows):
        lengths = np.array([len(row) for row in rows], np.int32)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        Answered.answer = Neighbours(lengths, offsets, np.concatenate(rows).astype(np.int32))
        return oracle.check(Answered()) or ""

    assert told(right) == ""
    for k in (next(k for k, row in enumerate(right) if len(row) > 2), 399):
        stranger = next(j for j in range(400) if j not in (k, *right[k]))
        for row in ([*right[k][1:], stranger], [*right[k][1:], right[k][-1]], right[k][1:]):
            rows = [*right[:k], row, *right[k + 1 :]]
            wrong.append(f"particle {k}" in told(rows))
    assert all(wrong)


def test_one_radius_for_all_declines_others() -> None:
    grid = with_radii(make(100, GRID), 16).grid
    with pytest.raises(NotSupported, match="search-counting-sort takes one radius"):
        CountingSortSearch(None, 100, grid, "count", {})  # type: ignore[arg-type]


def test_cells_are_cut_as_far_as_particles_pay(intel: Device) -> None:
    assert finer_cells(GRID, 10**6, 5).cells == (15, 20, 15)
    few = finer_cells(GRID, 40, 5)
    assert few.cells == (6, 8, 6) and few.count <= MOST_CELLS * 40
    assert few.reach == GRID.reach and few.shortest is None
    far = replace(GRID, low=(1e6, 1e6, 1e6))
    assert finer_cells(far, 10**6, 5).cells == (6, 8, 6)
    with pytest.raises(UserError, match="finer must be at least 1"):
        FineCells(intel, 10, GRID, "count", {"finer": -1})
