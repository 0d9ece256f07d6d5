"""Limited buckets: what is kept is right, what is lost is counted, and wrong unless allowed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpubench import problems
from gpubench.algorithms.fixed_capacity import FixedCapacity
from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.problems.cells.oracle import check_limited
from gpubench.problems.particles.inputs import ParticleSet, make
from gpubench.verify.conformance import CaseResult, run_conformance

BOX = Grid((4, 3, 2), (0.0,) * 3, (4.0, 3.0, 2.0))


def launched(device: Device, inputs: ParticleSet, **parameters: int) -> FixedCapacity:
    algorithm = FixedCapacity(device, inputs.particles, inputs.grid, "one-pass", parameters)
    algorithm.load(inputs)
    algorithm.launch()
    return algorithm


def suite(device: Device, **parameters: int) -> list[CaseResult]:
    return run_conformance(
        lambda particles, grid: FixedCapacity(device, particles, grid, "one-pass", parameters),
        "cell-list",
    )


@pytest.mark.second_runtime
@pytest.mark.parametrize(
    "parameters",
    [FixedCapacity.conformance_parameters, {"capacity": 1, "allow_overflow": 1}],
    ids=["conformance parameters", "capacity 1"],
)
def test_conformance(device: Device, parameters: dict[str, int]) -> None:
    results = suite(device, **parameters)
    assert [f"{r.name}: {r.reason}" for r in results if r.status != "ok"] == []


def test_by_default_full_cells_are_wrong_and_say_how_many_were_lost(device: Device) -> None:
    results = {result.name: result for result in suite(device)}
    assert results["one particle"].status == "ok"
    assert results["empty"].status == "ok"
    dense = results["all in one cell"]
    assert dense.status == "wrong"
    assert "296 of 300 particles are lost: up to 300 lie in a cell of capacity 4" in dense.reason
    for result in results.values():
        assert result.status == "ok" or "particles are lost" in result.reason, result


@given(
    particles=st.integers(0, 400),
    distribution=st.sampled_from(["uniform", "one-cell", "clusters", "lattice"]),
    seed=st.integers(0, 2**32 - 1),
    capacity=st.integers(1, 40),
    allow=st.booleans(),
)
@settings(max_examples=40)
def test_any_input(
    device: Device, particles: int, distribution: str, seed: int, capacity: int, allow: bool
) -> None:
    inputs = make(particles, BOX, distribution, seed=seed)
    algorithm = launched(device, inputs, capacity=capacity, allow_overflow=int(allow))
    per_cell = np.bincount(inputs.cell_of, minlength=BOX.count)
    lost = int(np.maximum(per_cell - capacity, 0).sum())
    assert algorithm.outcome() == {"lost": lost}
    problem = problems.problems()["cell-list"].check(algorithm, inputs)
    if allow or lost == 0:
        assert problem is None
    else:
        assert problem is not None
        assert f"{lost} of {particles} particles are lost" in problem


def test_nothing_is_left_of_the_launch_before(device: Device) -> None:
    algorithm = FixedCapacity(device, 20, BOX, "one-pass", {})
    for distribution, lost in (("one-cell", 16), ("lattice", 0)):
        inputs = make(20, BOX, distribution)
        algorithm.load(inputs)
        algorithm.launch()
        assert algorithm.outcome() == {"lost": lost}
        assert (problems.problems()["cell-list"].check(algorithm, inputs) is None) == (lost == 0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"capacity": 0}, "the capacity must be at least 1 particle a cell, not 0"),
        ({"capacity": -4}, "not -4"),
        ({"allow_overflow": 2}, "allow_overflow must be 0 or 1, not 2"),
    ],
)
def test_bad_parameters_are_one_line(
    opencl_device: Device, parameters: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message) as error:
        FixedCapacity(opencl_device, 10, BOX, "one-pass", parameters)
    assert "\n" not in str(error.value)


# Three particles in cell 0, none in cell 1, one in cell 2; two slots a cell.
CELL_OF = np.array([0, 0, 2, 0], np.int32)
COUNT = np.array([3, 0, 1], np.int32)
SLOTS = np.array([[3, 0], [77, -5], [2, 77]], np.int32)
LOST = np.array([1], np.int32)


class TestOracle:
    def check(
        self,
        count: NDArray[np.int32] = COUNT,
        slots: NDArray[np.int32] = SLOTS,
        lost: NDArray[np.int32] = LOST,
        allow: bool = True,
    ) -> str | None:
        return check_limited(CELL_OF, 3, count, slots, lost, allow)

    def slots(self, cell: int, slot: int, particle: int) -> NDArray[np.int32]:
        changed = SLOTS.copy()
        changed[cell, slot] = particle
        return changed

    def test_the_right_answer_passes_whatever_lies_behind_the_last_particle(self) -> None:
        assert self.check() is None

    def test_what_is_lost_must_be_allowed(self) -> None:
        assert self.check(allow=False) == (
            "1 of 4 particles are lost: up to 3 lie in a cell of capacity 2"
        )

    def test_mistakes_are_named(self) -> None:
        mistakes = [
            (self.check(count=np.array([2, 0, 1], np.int32)), "cell 0 counts 2 particles"),
            (self.check(slots=self.slots(0, 1, 2)), "cell 0 holds particle 2 of cell 2"),
            (self.check(slots=self.slots(0, 1, 3)), "particle 3 of cell 0 is kept 2 times"),
            (self.check(slots=self.slots(0, 1, -1)), "cell 0 holds -1"),
            (self.check(slots=self.slots(2, 0, 4)), "cell 2 holds 4"),
            (self.check(lost=np.array([0], np.int32)), "0 particles are reported as lost, but 1"),
            (self.check(lost=np.array([2], np.int32)), "2 particles are reported as lost, but 1"),
            (self.check(lost=np.zeros(2, np.int32)), "lost has shape"),
            (self.check(slots=SLOTS[:2]), "slots has shape"),
            (self.check(count=COUNT[:2]), "count has shape"),
        ]
        for problem, expected in mistakes:
            assert problem is not None and problem.startswith(expected), (problem, expected)
