"""Adaptive bitonic sort: stable, any size, and no more comparisons than Bilardi and Nicolau."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpubench import problems
from gpubench.algorithms.adaptive_bitonic import AdaptiveBitonic
from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.devices import Device
from gpubench.primitives.adaptive_merge import MAX_COUNTED, MAX_STAGES
from gpubench.problems.particles.inputs import make
from gpubench.verify.conformance import run_conformance

FORMS = list(AdaptiveBitonic.forms)
# `reorder` runs all launches of `order` and gathers behind them.
EACH_ONCE = [pytest.param("order", marks=pytest.mark.long), "reorder", "intervals"]
CELLS = Grid.with_count(16)


def built(
    device: Device, cell_of: NDArray[np.int32], form: str = "order", **parameters: int
) -> AdaptiveBitonic:
    algorithm = AdaptiveBitonic(device, len(cell_of), CELLS, form, parameters)
    positions = np.zeros((len(cell_of), 4), np.float32)
    algorithm.build(device.upload(cell_of), device.upload(positions))
    return algorithm


def order_of(algorithm: AdaptiveBitonic) -> NDArray[np.int32]:
    return algorithm.device.download(algorithm.answer.order)


def comparisons(device: Device, cell_of: NDArray[np.int32]) -> int:
    """Return how often the adaptive merge alone compares two keys."""
    algorithm = built(device, cell_of, chunk=2, count_comparisons=1)
    np.testing.assert_array_equal(order_of(algorithm), np.argsort(cell_of, kind="stable"))
    count = algorithm.outcome()["comparisons"]
    assert isinstance(count, int)
    return count


def network_comparators(particles: int) -> int:
    """Return the comparators of Batcher's network for the next power of two."""
    log2 = math.ceil(math.log2(particles))
    return 2**log2 // 2 * log2 * (log2 + 1) // 2


# Any input in chunks of 2, and a tree split by several launches, have tests below.
@pytest.mark.parametrize(
    "chunk", [pytest.param(2, marks=[pytest.mark.long, pytest.mark.thorough]), 32]
)
@pytest.mark.parametrize("form", EACH_ONCE)
def test_conformance_with_small_chunks(device: Device, form: str, chunk: int) -> None:
    results = run_conformance(
        lambda particles, grid: AdaptiveBitonic(device, particles, grid, form, {"chunk": chunk}),
        "cell-list",
    )
    assert [f"{r.name}: {r.reason}" for r in results if r.status != "ok"] == []


@given(
    cell_of=st.lists(st.integers(0, CELLS.count - 1), max_size=300),
    chunk=st.sampled_from([2, 4, 16, 256]),
    form=st.sampled_from(FORMS),
)
@settings(max_examples=60)
def test_equal_cells_keep_the_order_of_their_particles(
    device: Device, cell_of: list[int], chunk: int, form: str
) -> None:
    cells = np.array(cell_of, np.int32)
    order = order_of(built(device, cells, form, chunk=chunk))
    np.testing.assert_array_equal(order, np.argsort(cells, kind="stable"))


@pytest.mark.second_runtime
@pytest.mark.parametrize("form", FORMS)
def test_a_tree_is_split_by_more_than_one_launch(device: Device, form: str) -> None:
    particles = (4 << MAX_STAGES) + 3  # one more stage than a launch takes
    inputs = make(particles, CELLS, seed=1)
    algorithm = built(device, inputs.cell_of, form, chunk=2)
    np.testing.assert_array_equal(order_of(algorithm), np.argsort(inputs.cell_of, kind="stable"))


class TestComparisons:
    @pytest.mark.parametrize("distribution", ["uniform", "one-cell", "clusters"])
    @pytest.mark.parametrize("log2", [1, 2, 3, 8, 13])
    def test_are_exactly_those_of_the_trees(
        self, device: Device, log2: int, distribution: str
    ) -> None:
        """A merge of 2^k keys takes 2^(k + 1) - k - 2, whatever the keys are."""
        particles = 2**log2
        merges = sum(particles // 2**k * (2 ** (k + 1) - k - 2) for k in range(1, log2 + 1))
        cell_of = make(particles, CELLS, distribution, seed=log2).cell_of
        assert comparisons(device, cell_of) == merges

    @pytest.mark.parametrize("particles", [3, 5, 6, 31, 100, 129, 1000, 4097, 6000, 40001])
    def test_stay_below_the_bound_for_any_size(self, device: Device, particles: int) -> None:
        count = comparisons(device, make(particles, CELLS, seed=particles).cell_of)
        assert count < 2 * particles * math.log2(particles)

    def test_stay_below_the_bound_in_any_order(self, device: Device) -> None:
        rising = np.sort(make(3000, CELLS, seed=2).cell_of)
        for cell_of in (rising, rising[::-1].copy(), np.roll(rising, 1234)):
            assert comparisons(device, cell_of) < 2 * 3000 * math.log2(3000)

    @pytest.mark.parametrize("log2", [8, 13, 16])
    def test_the_plain_network_is_over_the_bound(self, device: Device, log2: int) -> None:
        particles = 2**log2
        assert network_comparators(particles) > 2 * particles * log2
        # A chunk that holds them all is the plain network, and counts as many.
        if particles <= 4096:
            cell_of = make(particles, CELLS, seed=4).cell_of
            plain = built(device, cell_of, chunk=particles, count_comparisons=1)
            assert plain.outcome()["comparisons"] == network_comparators(particles)

    def test_are_not_counted_unless_asked_for(self, device: Device) -> None:
        assert built(device, np.zeros(100, np.int32)).outcome() == {}


@pytest.mark.parametrize("form", EACH_ONCE)
@pytest.mark.parametrize("chunk", [2, 64, 4096])
def test_launches_grow_with_the_square_of_the_logarithm(
    device: Device, form: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches: list[str] = []
    compiled = device.kernel

    def noted(file: str, name: str, **constants: int | str) -> Any:
        kernel = compiled(file, name, **constants)

        def launch(*arguments: Any) -> None:
            launches.append(name)
            kernel(*arguments)

        return launch

    monkeypatch.setattr(device, "kernel", noted)
    for particles in (100, 5000, 70000):
        launches.clear()
        built(device, np.zeros(particles, np.int32), form, chunk=chunk)
        assert len(launches) <= 3 + math.ceil(math.log2(particles)) ** 2 / 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"chunk": 0}, "chunk must be a power of two from 2 to 4096, not 0"),
        ({"chunk": 1}, "not 1"),
        ({"chunk": 48}, "not 48"),
        ({"chunk": -4}, "not -4"),
        ({"chunk": 8192}, "not 8192"),
        ({"count_comparisons": 2}, "count_comparisons must be 0 or 1, not 2"),
    ],
)
def test_bad_parameters_are_one_line(
    opencl_device: Device, parameters: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message) as error:
        AdaptiveBitonic(opencl_device, 10, CELLS, "order", parameters)
    assert "\n" not in str(error.value)


def test_more_comparisons_than_can_be_counted_are_refused(opencl_device: Device) -> None:
    with pytest.raises(UserError, match=f"at most {MAX_COUNTED} particles"):
        AdaptiveBitonic(opencl_device, MAX_COUNTED + 1, CELLS, "order", {"count_comparisons": 1})


def test_every_form_over_several_chunks(device: Device) -> None:
    inputs = make(2**14 + 77, Grid.with_count(2**12), "clusters", seed=5)
    for form in FORMS:
        algorithm = AdaptiveBitonic(device, inputs.particles, inputs.grid, form, {})
        algorithm.load(inputs)
        algorithm.launch()
        assert problems.problems()["cell-list"].check(algorithm, inputs) is None, form
