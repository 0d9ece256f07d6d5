"""Cells that a step finds for the next, and the coarse positions of the sorted particles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpi_programs.coarse_rows import coarse_of
from small_simulations import FORMS, bits, made

from gpubench.devices.base import Graph
from gpubench.workloads import dpd
from gpubench.workloads.cell_workload import BLOCK
from gpubench.workloads.dpd import DPDRayleighTaylor, DPDStandard
from gpubench.workloads.sph import SPHDamBreak, SPHRigidBody

Launch = tuple[str, Callable[..., None], tuple[Any, ...]]


class Replayed(Graph):
    """Launches with the arguments that they had when they were recorded, as in a CUDA graph."""

    def __init__(self, launches: list[Launch]) -> None:
        self.launches = launches

    def launch(self) -> None:
        for _, work, arguments in self.launches:
            work(*arguments)


@pytest.fixture
def with_graphs(opencl_device, monkeypatch):
    """An OpenCL device that records launches, fills and copies in place of graphs."""
    recording: list[list[Launch]] = []

    def recorded(name: str, work: Callable[..., None]) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            if recording:
                recording[-1].append((name, work, arguments))
            else:
                work(*arguments)

        return launch

    def capture(work: Callable[[], None]) -> Graph:
        recording.append([])
        work()
        return Replayed(recording.pop())

    device, kernel = opencl_device, opencl_device.kernel
    monkeypatch.setattr(device, "features", device.features | {"graphs"})
    monkeypatch.setattr(
        device, "kernel", lambda file, name, **given: recorded(name, kernel(file, name, **given))
    )
    for name in ("fill", "copy"):
        monkeypatch.setattr(device, name, recorded(name, getattr(device, name)))
    monkeypatch.setattr(device, "capture", capture)
    return device


def searches(simulation: Any) -> list[int]:
    """Return a list to which each search for cells will add its step."""
    found: list[int] = []
    holder, name = simulation, "_cell_ids"
    if simulation.is_hashed:
        holder, name = simulation._cell_hash, "launch"
    original = getattr(holder, name)
    setattr(holder, name, lambda *given: (found.append(simulation.step), original(*given)))
    return found


ONCE = [
    (DPDStandard, "counting-sort", "reorder"),
    (DPDStandard, "counting-resort", "order"),
    (DPDStandard, "atomic-list", "one-pass"),
    (DPDRayleighTaylor, "fixed-capacity", "one-pass"),
    (SPHDamBreak, "counting-sort", "order"),
]


@pytest.mark.parametrize(("workload", "algorithm", "form"), ONCE)
def test_cells_are_found_once_and_then_by_the_steps(device, workload, algorithm, form):
    simulation = made(device, workload, algorithm, form)
    found = searches(simulation)
    simulation.advance(4)
    assert found == [0]
    known, again = simulation._next_cells, device.empty(simulation.particles, "int32")
    simulation._cell_ids(
        simulation.blocks, BLOCK, simulation.places, again, simulation.packed_box,
        simulation.particles,
    )  # fmt: skip
    np.testing.assert_array_equal(device.download(known), device.download(again))
    simulation.restore(simulation.state())
    del found[:]
    simulation.advance(2)
    assert found == [4]


@pytest.mark.parametrize(
    ("workload", "algorithm", "given"),
    [
        (DPDStandard, "hash-grid", {}), (DPDStandard, "counting-sort", {"skin": 1e-6}),
        (SPHDamBreak, "hash-grid", {}), (SPHDamBreak, "atomic-list", {}),
        (SPHRigidBody, "counting-sort", {}),
    ],
)  # fmt: skip
def test_others_find_them_in_each_step(device, workload, algorithm, given):
    form = {"hash-grid": "original", "atomic-list": "one-pass"}.get(algorithm, "order")
    simulation = made(device, workload, algorithm, form, **given)
    found = searches(simulation)
    simulation.advance(3)
    assert found == [0, 1, 2]


@pytest.mark.parametrize("workload", [DPDStandard, SPHDamBreak])
@pytest.mark.parametrize(("algorithm", "form"), FORMS)
def test_what_is_done_between_graphs_changes_nothing(with_graphs, workload, algorithm, form):
    """Neither what a snapshot computes, nor a check, nor steps launch by launch."""
    simulation = made(with_graphs, workload, algorithm, form, particles=400)
    plain = made(with_graphs, workload, algorithm, form, particles=400)
    between = [
        lambda: simulation.snapshot(), lambda: None, lambda: simulation.check(),
        lambda: simulation.poison(), lambda: (simulation.snapshot(), simulation.snapshot()),
        lambda: simulation.restore(simulation.state()), lambda: simulation.plain_steps(1),
    ]  # fmt: skip
    for steps, act in zip((1, 4, 5, 2, 3, 4, 3), between, strict=True):
        simulation.advance(steps)
        act()
        plain.plain_steps(simulation.step - plain.step)
        assert bits(simulation) == bits(plain)
    graph = simulation._graph
    assert (graph is not None) == simulation.algorithm.forms[form].capturable
    if graph:
        names = [name for name, *_ in graph.launches]
        is_sph = isinstance(simulation, SPHDamBreak)
        moves = simulation.moves_with_forces if is_sph else simulation.moves_find_cells
        finds = not (moves or simulation.is_hashed)
        assert names.count("cell_ids") == 2 * finds


@pytest.mark.parametrize(("workload", "algorithm", "form"), [
    (DPDStandard, "counting-sort", "reorder"), (DPDStandard, "counting-resort", "order"),
    (DPDRayleighTaylor, "counting-sort", "order"), (SPHDamBreak, "counting-sort", "reorder"),
])  # fmt: skip
def test_sorted_particles_have_coarse_positions(device, monkeypatch, workload, algorithm, form):
    for name in ("PAIRS_ONCE", "MARKS"):
        monkeypatch.setattr(dpd, name, {device.backend})
    simulation = made(device, workload, algorithm, form)
    simulation.advance(5)
    places = device.download(simulation.current[0])
    found = device.download(simulation.coarse)[: simulation.particles]
    assert len(set(found.tolist())) > simulation.particles // 2
    np.testing.assert_array_equal(found, coarse_of(simulation.box, simulation.reach, places))


@pytest.mark.parametrize("given", [{"skin": 0.4}, {"algorithm": "atomic-list", "form": "one-pass"}])
def test_others_have_none(device, monkeypatch, given):
    for name in ("PAIRS_ONCE", "MARKS"):
        monkeypatch.setattr(dpd, name, {device.backend})
    assert made(device, DPDStandard, **given).coarse.size == 0
