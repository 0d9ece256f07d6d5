"""Pairs of clusters in their other shapes, what their masks hold, and forces over them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpubench.algorithms.cluster_pairs import ClusterPairs, cells_along_curve
from gpubench.algorithms.lj_forces import LjClusterPairs, LjCsr
from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.problems.neighbours.oracle import NeighbourSearchOracle
from gpubench.problems.pair_forces.contract import Forces
from gpubench.problems.pair_forces.oracle import CHECKED, PairForcesOracle
from gpubench.problems.particles.inputs import ParticleSet, from_positions, make

TORUS = Grid((3, 4, 5), (-1.0, 0.0, 2.5), (3.0, 4.0, 5.0), (True, False, True))


def loaded(device: Device, inputs: ParticleSet, form: str = "list", **given: int) -> Any:
    search = ClusterPairs(device, inputs.particles, inputs.grid, form, given)
    search.load(inputs)
    search.launch()
    return search


def hard_inputs() -> list[ParticleSet]:
    rng = np.random.default_rng(2)
    line = np.tile([0.0, 1.0, 3.0], (77, 1))
    line[:, 0] = rng.uniform(-1, 2, 77)
    return [
        make(0, TORUS),
        make(1, TORUS),
        make(33, TORUS),
        make(1500, TORUS, seed=1),
        make(300, TORUS, "one-cell"),
        make(500, TORUS, "clusters"),
        from_positions(np.full((70, 3), [-1.0, 4.0, 2.5]), TORUS),
        from_positions(line, TORUS),  # a cluster as long as the box
    ]


@pytest.mark.parametrize("given", [{"cluster": 4, "exact": 0}, {"cluster": 32, "exact": 1}])
def test_clusters_of_other_sizes_find_the_same(intel: Device, given: dict[str, int]) -> None:
    for inputs in hard_inputs():
        assert NeighbourSearchOracle(inputs).check(loaded(intel, inputs, **given)) is None


@pytest.mark.parametrize("exact", [0, 1])
def test_masks_hold_neighbours_or_candidates(intel: Device, exact: int) -> None:
    inputs = make(1500, TORUS, seed=1)
    search = loaded(intel, inputs, exact=exact)
    pairs = intel.download(search.answer.neighbours).size
    built = search.pairs_of_clusters
    tiles, links = intel.download(built.tiles), intel.download(built.links)
    masks = np.concatenate([t[:n, 1] for t, n in zip(tiles, links[:, 1], strict=True)])
    assert masks.all()
    bits = int(np.bitwise_count(masks.view(np.uint32)).sum())
    assert bits == pairs if exact else bits > pairs
    assert search.outcome()["tiles"] == len(masks)


def test_every_run_has_the_same_list_and_forces(intel: Device) -> None:
    inputs = make(1500, TORUS, seed=3)
    rows, forces = [], []
    for _ in range(2):
        search = loaded(intel, inputs)
        rows.append(intel.download(search.answer.neighbours))
        lj = LjClusterPairs(intel, inputs.particles, inputs.grid, "step", {})
        lj.load(inputs)
        for _ in range(2):
            lj.poison()
            lj.launch()
            forces.append(intel.download(lj.answer.forces)[:, :3])
    assert np.array_equal(*rows)
    assert all(np.array_equal(forces[0], other) for other in forces[1:])


@pytest.mark.parametrize("given", [{"cluster": 6}, {"cluster": 64}, {"exact": 2}])
def test_other_shapes_are_refused(intel: Device, given: dict[str, int]) -> None:
    with pytest.raises(UserError, match="clusters hold 4, 8, 16 or 32"):
        ClusterPairs(intel, 10, TORUS, "list", given)
    with pytest.raises(UserError, match="lanes is a power of two"):
        LjCsr(intel, 10, TORUS, "step", {"lanes": 3})


@pytest.mark.parametrize("low", [0.0, 3e4])
def test_cells_along_the_curve_can_be_resolved(low: float) -> None:
    for edges in ((1.0, 1.0, 1.0), (300.0, 0.02, 1.0), (0.02, 0.02, 0.02)):
        grid = Grid((1, 1, 1), (low,) * 3, edges)
        for particles in (0, 1, 2**20):
            cells = cells_along_curve(grid, particles, 8)
            assert cells.reach == grid.reach
            assert cells.count <= max(1, 2 * particles)


@dataclass
class Answered:
    """An algorithm that answers with these forces."""

    answer: Forces
    name: str = "answered"

    def download(self, array: Any) -> Any:
        return array


class TestOracle:
    inputs = make(CHECKED + 500, Grid((8, 8, 8), (0.0,) * 3, (8.0,) * 3, (True,) * 3), seed=4)

    def right(self, device: Device) -> Any:
        lj = LjCsr(device, self.inputs.particles, self.inputs.grid, "step", {})
        lj.load(self.inputs)
        lj.launch()
        return SimpleNamespace(
            forces=device.download(lj.answer.forces), oracle=PairForcesOracle(self.inputs)
        )

    def test_wrong_forces_are_found(self, intel: Device) -> None:
        made = self.right(intel)
        check = made.oracle.check
        assert check(Answered(Forces(made.forces))) is None
        checked = int(np.argmax(np.abs(made.oracle.expected).max(axis=1) > 1e3))
        one = made.oracle.rows[checked]
        for factor in (-1.0, 0.0, 1.001):
            wrong = made.forces.copy()
            wrong[one] *= factor
            assert f"the force on particle {one} is" in (check(Answered(Forces(wrong))) or "")
        unchecked = int(np.setdiff1d(np.arange(len(made.forces)), made.oracle.rows)[0])
        made.forces[unchecked, 2] = np.nan
        assert "expected finite" in (check(Answered(Forces(made.forces))) or "")
        assert "forces" in (check(Answered(Forces(made.forces[:-1]))) or "")
