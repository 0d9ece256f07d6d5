"""Sorting few particles by cell in one launch, on every device there is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sorted_cells import GRID, conforms, particles_of, sorted_right

from gpubench.algorithms import cell_search
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives.shared_sort import SharedSort

pytestmark = pytest.mark.second_runtime


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


@pytest.mark.parametrize(
    ("algorithm", "form"), [("counting-sort", "reorder"), ("search-counting-sort", "count")]
)
def test_algorithms_over_one_launch_conform(
    device: Device, algorithm: str, form: str, monkeypatch: pytest.MonkeyPatch
):
    pays = SharedSort.pays
    monkeypatch.setattr(cell_search.CellSearch, "preferred_form", lambda *_: "reorder")
    gpu = SimpleNamespace(is_cpu=False, shared_bytes=227 << 10)
    monkeypatch.setattr(SharedSort, "pays", lambda _, *rest: pays(gpu, *rest))
    conforms(device, algorithm, form, levels=0)


def test_others_and_one_level_take_their_steps(device: Device):
    for form, levels in (("reorder", 1), ("order", 0), ("gather", 1)):
        assert "scan" in CountingSort(device, 10, GRID, form, {"levels": levels}).outcome()
