"""Sorting few particles by cell in one launch, on every device there is."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sorted_cells import sorted_right

from gpubench import registry
from gpubench.algorithms import cell_search
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives.shared_sort import SharedSort
from gpubench.verify.conformance import run_conformance

pytestmark = pytest.mark.second_runtime

GRID = Grid((30, 7, 5), (-1.0, 0.0, 2.0), (6.0, 3.5, 2.5))


def particles_of(kind: str, particles: int, grid: Grid) -> np.ndarray:
    """Return positions that lie evenly in the box, or in one cell."""
    unit = np.random.default_rng(7).random((particles, 3), np.float32)
    if kind == "first cell":
        unit *= 0.01
    if kind == "last cell":
        unit = 1 - unit * np.float32(0.01)
    positions = np.zeros((particles, 4), np.float32)
    positions[:, :3] = np.float32(grid.low) + unit * np.float32(grid.size)
    return positions


@pytest.mark.parametrize("kind", ["even", "first cell", "last cell"])
@pytest.mark.parametrize("particles", [0, 1, 17, 1025, 8192])
@pytest.mark.parametrize("cells", [(30, 7, 5), (1, 1, 1), (32, 32, 16)])
def test_particles_lie_in_the_order_of_their_cells(
    device: Device, kind: str, particles: int, cells: tuple[int, int, int]
):
    grid = Grid(cells, GRID.low, GRID.size)
    positions = particles_of(kind, particles, grid)
    sorted_right(device, SharedSort(device, particles, grid), positions, grid)


def test_one_launch_pays_for_few_particles_in_few_cells_on_a_gpu():
    gpu = SimpleNamespace(is_cpu=False, shared_bytes=227 << 10)
    assert SharedSort.pays(gpu, 8192, GRID)
    assert not SharedSort.pays(gpu, 8193, GRID)
    assert SharedSort.pays(gpu, 10, Grid((32, 32, 16), GRID.low, GRID.size))
    assert not SharedSort.pays(gpu, 10, Grid((32, 32, 17), GRID.low, GRID.size))
    assert not SharedSort.pays(SimpleNamespace(is_cpu=True, shared_bytes=227 << 10), 10, GRID)
    assert not SharedSort.pays(SimpleNamespace(is_cpu=False, shared_bytes=64 << 10), 10, GRID)


@pytest.mark.parametrize("algorithm", ["counting-sort", "search-counting-sort"])
def test_algorithms_over_one_launch_conform(
    device: Device, algorithm: str, monkeypatch: pytest.MonkeyPatch
):
    pays = SharedSort.pays
    monkeypatch.setattr(cell_search.CellSearch, "preferred_form", lambda *_: "reorder")
    gpu = SimpleNamespace(is_cpu=False, shared_bytes=227 << 10)
    monkeypatch.setattr(SharedSort, "pays", lambda _, *rest: pays(gpu, *rest))
    cls = registry.algorithms()[algorithm]
    form = {"counting-sort": "reorder", "search-counting-sort": "count"}[algorithm]
    made = partial(cls, device, form=form, parameters={**cls.conformance_parameters, "levels": 0})
    results = run_conformance(made, cls.family)
    assert {result.status for result in results} <= {"ok", "skipped"}, results
    assert sum(result.status == "ok" for result in results) > 10


def test_others_and_one_level_take_their_steps(device: Device):
    for form, levels in (("reorder", 1), ("order", 0), ("gather", 1)):
        assert "scan" in CountingSort(device, 10, GRID, form, {"levels": levels}).outcome()
