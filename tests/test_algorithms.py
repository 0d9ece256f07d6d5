"""Every algorithm in every form, on every device: right answers, and what contracts.py promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench import registry
from gpubench.conformance import run_conformance
from gpubench.contracts import Algorithm, CellList, LinkedCells, Neighbours
from gpubench.devices import Device
from gpubench.errors import UserError
from gpubench.families import FAMILIES
from gpubench.grid import Grid
from gpubench.inputs import DISTRIBUTIONS, ORDERS, ParticleSet, from_positions, make
from gpubench.studies.runner import missing_feature

FORMS = [(name, form) for name, cls in registry.algorithms().items() for form in cls.forms]
CELL_LISTS = [pair for pair in FORMS if registry.find_algorithm(pair[0]).family == "cell-list"]
BUCKET_SORTS = [pair for pair in FORMS if pair[0].startswith("bucket-sort")]

BOX = Grid((5, 4, 6), (-1.0, 0.0, 2.5), (5.0, 2.0, 3.0))


def made(
    device: Device, name: str, form: str, particles: int, grid: Grid, **parameters: int
) -> Any:
    """Make an algorithm, or skip with the reason why the device cannot run it."""
    cls = registry.find_algorithm(name)
    if lacking := missing_feature(cls.forms[form].requires, device):
        pytest.skip(lacking)
    return cls(device, particles, grid, form, parameters)


def problem_of(algorithm: Algorithm, inputs: ParticleSet) -> str | None:
    return FAMILIES[algorithm.family].check(algorithm, inputs)


def arrays_of(algorithm: Any) -> list[Any]:
    answer = algorithm.answer
    return [array for array in vars(answer).values() if array is not None]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_conformance(device: Device, name: str, form: str) -> None:
    made(device, name, form, 0, BOX)  # skips what cannot run here
    results = run_conformance(
        lambda particles, grid: made(device, name, form, particles, grid),
        registry.find_algorithm(name).family,
    )
    assert len(results) > 50
    assert [f"{r.name}: {r.status}, {r.reason}" for r in results if r.status != "ok"] == []


@st.composite
def particle_sets(draw: st.DrawFn) -> ParticleSet:
    periodic = draw(st.tuples(*[st.booleans()] * 3))
    # A query needs three cells along a periodic axis.
    cells = tuple(draw(st.integers(3 if p else 1, 9)) for p in periodic)
    edge = draw(st.sampled_from([1.0, 0.37, 12.5]))
    low = draw(st.tuples(*[st.floats(-20, 20, width=32)] * 3))
    size = tuple(n * edge for n in cells)
    grid = Grid(cells, low, size, periodic)
    return make(
        draw(st.integers(0, 700)),
        grid,
        draw(st.sampled_from(DISTRIBUTIONS)),
        draw(st.sampled_from(ORDERS)),
        draw(st.integers(0, 2**32 - 1)),
    )


@given(inputs=particle_sets(), chosen=st.sampled_from(FORMS))
@settings(max_examples=60, deadline=None)
def test_any_input(device: Device, inputs: ParticleSet, chosen: tuple[str, str]) -> None:
    name, form = chosen
    cls = registry.find_algorithm(name)
    if missing_feature(cls.forms[form].requires, device):
        return
    algorithm = cls(device, inputs.particles, inputs.grid, form, {})
    algorithm.load(inputs)
    algorithm.launch()
    assert problem_of(algorithm, inputs) is None


class TestContract:
    """What `contracts.Algorithm` promises, over all of them."""

    @pytest.fixture(params=FORMS, ids=lambda pair: "-".join(pair))
    def pair(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        return request.param

    def test_launch_neither_allocates_nor_compiles(
        self, device: Device, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inputs = make(5000, BOX, seed=1)
        algorithm = made(device, *pair, inputs.particles, BOX)
        algorithm.load(inputs)
        held = device.pool.managed_bytes if device.backend == "opencl" else 0

        def refuse(*arguments: Any, **options: Any) -> Any:
            raise AssertionError("launch must only launch")

        for method in ("empty", "upload", "write", "kernel"):
            monkeypatch.setattr(device, method, refuse)
        if device.backend == "opencl":
            import pyopencl

            monkeypatch.setattr(pyopencl.Program, "build", refuse)
        else:
            import pycuda.compiler

            monkeypatch.setattr(pycuda.compiler, "compile", refuse)
            monkeypatch.setattr(device, "library", refuse)
        algorithm.launch()
        if device.backend == "opencl":
            assert device.pool.managed_bytes == held
        assert problem_of(algorithm, inputs) is None

    def test_workspace_is_what_was_allocated(
        self, device: Device, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        allocated: list[int] = []
        empty = device.empty

        def counted(shape: Any, dtype: Any) -> Any:
            array = empty(shape, dtype)
            allocated.append(array.nbytes)
            return array

        if device.backend == "opencl":
            _ = device.radix_sort  # compiled once a device, with what that needs
        monkeypatch.setattr(device, "empty", counted)
        algorithm = made(device, *pair, 3001, BOX)
        if isinstance(algorithm, CellList):
            if pair[0] == "radix-grid" and device.backend == "opencl":
                allocated.append(4 * 4 * 3001)  # PyOpenCL's two buffers of pairs, from the pool
                allocated.remove(4 * 3001)  # what its first run sorts
            assert algorithm.workspace_bytes == sum(allocated)
        algorithm.load(make(3001, BOX, seed=2))
        algorithm.launch()
        assert sum(allocated) >= algorithm.workspace_bytes
        assert algorithm.workspace_bytes >= sum(array.nbytes for array in arrays_of(algorithm))

    def test_workspace_of_lists_follows_the_input(self, device: Device) -> None:
        algorithm = made(device, "neighbour-query", "list-sorted", 500, BOX)
        few, many = make(500, BOX, "lattice"), make(500, BOX, "one-cell")
        sizes = []
        for inputs in (few, many, few):
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None
            sizes.append(algorithm.workspace_bytes - 4 * algorithm.outcome()["pairs"])
        assert len(set(sizes)) == 1

    def test_traffic_and_outcome(self, device: Device, pair: tuple[str, str]) -> None:
        inputs = make(2000, BOX, seed=3)
        algorithm = made(device, *pair, 2000, BOX)
        algorithm.load(inputs)
        algorithm.launch()
        traffic = algorithm.traffic_bytes()
        assert traffic is None or (isinstance(traffic, int) and traffic > 4 * 2000)
        outcome = algorithm.outcome()
        assert json.loads(json.dumps(outcome)) == outcome

    def test_launch_does_not_depend_on_what_memory_held(
        self, device: Device, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        empty = device.empty
        inputs = make(3000, BOX, seed=4)
        for byte in (0x00, 0x5A, 0xFF):

            def soiled(shape: Any, dtype: Any, byte: int = byte) -> Any:
                array = empty(shape, dtype)
                device.fill(array, byte)
                return array

            monkeypatch.setattr(device, "empty", soiled)
            algorithm = made(device, *pair, 3000, BOX)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None, f"memory full of {byte:#x}"
            for array in arrays_of(algorithm):
                device.fill(array, byte)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None, f"last answer {byte:#x}"

    def test_load_again_leaves_nothing_behind(self, device: Device, pair: tuple[str, str]) -> None:
        algorithm = made(device, *pair, 1500, BOX)
        for distribution in ("uniform", "one-cell", "clusters", "uniform"):
            inputs = make(1500, BOX, distribution, seed=5)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None, distribution

    def test_two_of_a_kind_do_not_share_memory(self, device: Device, pair: tuple[str, str]) -> None:
        inputs = [make(800, BOX, seed=seed) for seed in (6, 7)]
        algorithms = [made(device, *pair, 800, BOX) for _ in inputs]
        for algorithm, particles in zip(algorithms, inputs, strict=True):
            algorithm.load(particles)
        for algorithm in algorithms:
            algorithm.launch()
        for algorithm, particles in zip(algorithms, inputs, strict=True):
            assert problem_of(algorithm, particles) is None

    def test_an_answer_has_the_shape_of_its_family(
        self, device: Device, pair: tuple[str, str]
    ) -> None:
        algorithm = made(device, *pair, 100, BOX)
        algorithm.load(make(100, BOX))
        algorithm.launch()
        answer, form = algorithm.answer, algorithm.forms[pair[1]]
        if algorithm.family == "neighbour-query":
            assert isinstance(answer, Neighbours)
            assert (answer.neighbours is not None) == pair[1].startswith("list")
        elif not isinstance(answer, LinkedCells):
            assert (answer.positions is not None) == form.reorders


@pytest.mark.parametrize(("name", "form"), CELL_LISTS)
class TestBuild:
    """`build` takes any cell ids and positions, not only those that `load` brought."""

    def test_from_arrays_of_the_callers(self, device: Device, name: str, form: str) -> None:
        algorithm = made(device, name, form, 1200, BOX)
        algorithm.load(make(1200, BOX, seed=8))
        algorithm.launch()
        for seed, distribution in ((9, "uniform"), (10, "one-cell"), (11, "lattice")):
            inputs = make(1200, BOX, distribution, seed=seed)
            cell_of = device.upload(inputs.cell_of)
            positions = device.upload(inputs.positions)
            algorithm.build(cell_of, positions)
            built = SimpleNamespace(
                device=device, name=name, form=form, forms=algorithm.forms,
                answer=algorithm.answer, cell_of=cell_of,
            )  # fmt: skip
            assert FAMILIES["cell-list"].check(built, inputs) is None
            # The arrays that came in are as they were.
            np.testing.assert_array_equal(device.download(cell_of), inputs.cell_of)
            np.testing.assert_array_equal(device.download(positions), inputs.positions)

    def test_positions_travel_whole(self, device: Device, name: str, form: str) -> None:
        """The fourth component is the user's, and goes where its particle goes."""
        inputs = make(900, BOX, seed=12)
        inputs.positions[:, 3] = np.arange(900)
        algorithm = made(device, name, form, 900, BOX)
        algorithm.load(inputs)
        algorithm.launch()
        assert problem_of(algorithm, inputs) is None
        if algorithm.forms[form].reorders:
            answer = algorithm.answer
            np.testing.assert_array_equal(
                device.download(answer.positions)[:, 3], device.download(answer.order)
            )


@pytest.mark.parametrize(("name", "form"), CELL_LISTS)
def test_input_in_reverse_order(device: Device, name: str, form: str) -> None:
    """What a sorting network finds hardest: every last comparator has to exchange."""
    grid = Grid.with_count(2**13)
    for particles in (2**12, 2**12 + 2**11, 2**12 + 1029):
        given = make(particles, grid, order="cell")
        inputs = from_positions(given.positions[::-1], grid)
        algorithm = made(device, name, form, particles, grid)
        algorithm.load(inputs)
        algorithm.launch()
        assert problem_of(algorithm, inputs) is None, particles


class TestBucketSort:
    @staticmethod
    def sizes() -> Iterator[tuple[str, ParticleSet]]:
        many = Grid.with_count(2**12)
        yield "uniform", make(4000, BOX, seed=13)
        yield "lattice", make(4000, BOX, "lattice", seed=13)
        yield "clusters", make(3000, many, "clusters", seed=13)
        yield "all in one cell", make(700, BOX, "one-cell", seed=13)
        yield "one", make(1, BOX, seed=13)
        yield "none", make(0, BOX, seed=13)
        yield "just past 2^16", make(2**16 + 1, Grid.with_count(2**14), seed=13)

    @pytest.mark.parametrize(("name", "form"), BUCKET_SORTS)
    def test_rounds(self, device: Device, name: str, form: str) -> None:
        # Each round finishes one element of every bucket that has any left.
        for what, inputs in self.sizes():
            algorithm = made(device, name, form, inputs.particles, inputs.grid)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None, what
            fullest = int(np.bincount(inputs.cell_of, minlength=1).max())
            rounds = algorithm.outcome()["rounds"]
            if name == "bucket-sort":
                assert rounds == fullest, what
            else:
                assert rounds >= fullest, what
                assert (rounds == 0) == (inputs.particles == 0), what

    @pytest.mark.parametrize("form", ["host-loop", "device-loop"])
    def test_no_parameters(self, device: Device, form: str) -> None:
        assert made(device, "bucket-sort", form, 10, BOX).parameters == {}

    @given(
        particles=st.integers(0, 3000),
        parts=st.integers(1, 64),
        threshold=st.integers(1, 5000),
        distribution=st.sampled_from(DISTRIBUTIONS),
        seed=st.integers(0, 2**16),
    )
    @settings(max_examples=15, deadline=None)
    def test_partial_with_any_parameters(
        self,
        device: Device,
        particles: int,
        parts: int,
        threshold: int,
        distribution: str,
        seed: int,
    ) -> None:
        inputs = make(particles, BOX, distribution, seed=seed)
        algorithm = made(
            device, "bucket-sort-partial", "host-loop", particles, BOX,
            parts=parts, threshold=threshold,
        )  # fmt: skip
        assert algorithm.parameters == {"parts": parts, "threshold": threshold}
        algorithm.load(inputs)
        for _ in range(2):
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None
        fullest = int(np.bincount(inputs.cell_of, minlength=1).max())
        rounds = algorithm.outcome()["rounds"]
        assert rounds >= fullest
        # A part that runs alone finishes as soon as its own fullest bucket has.
        assert rounds <= particles

    def test_parts_that_join_at_once_are_one_sort(self, device: Device) -> None:
        inputs = make(4000, BOX, seed=14)
        fullest = int(np.bincount(inputs.cell_of).max())
        algorithm = made(
            device, "bucket-sort-partial", "host-loop", 4000, BOX, parts=4, threshold=4000
        )
        algorithm.load(inputs)
        algorithm.launch()
        # The threshold lets a part join every round: the last joins three rounds late.
        assert fullest <= algorithm.outcome()["rounds"] <= fullest + 3

    @pytest.mark.parametrize(
        ("parameters", "says"),
        [
            ({"parts": 0}, "parts must be 1 to 64, not 0"),
            ({"parts": -3}, "parts must be 1 to 64, not -3"),
            ({"parts": 65}, "parts must be 1 to 64, not 65"),
            ({"threshold": 0}, "the threshold must be at least 1 element, not 0"),
            ({"threshold": -1}, "the threshold must be at least 1 element, not -1"),
        ],
    )
    def test_bad_parameters(
        self, opencl_device: Device, parameters: dict[str, int], says: str
    ) -> None:
        with pytest.raises(UserError) as error:
            made(opencl_device, "bucket-sort-partial", "host-loop", 10, BOX, **parameters)
        assert str(error.value) == says


class TestCountingSort:
    def test_empty_and_full_cells_in_turn(self, device: Device) -> None:
        """Counts are cleared by the scan that reads them, also when cells go from full to empty."""
        grid = Grid.with_count(2**15)
        algorithm = made(device, "counting-sort", "reorder", 2**12, grid)
        for distribution in ("one-cell", "lattice", "clusters", "lattice"):
            inputs = make(2**12, grid, distribution)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None


class TestBounds:
    """Long stretches of empty cells, which cell_bounds leaves to the whole block."""

    @pytest.mark.parametrize("gap", [30, 31, 32, 33, 34, 300])
    def test_gaps_of_every_length(self, device: Device, gap: int) -> None:
        # 257 particles, each `gap` cells from the next: more long gaps in a block than it lists.
        grid = Grid((gap, 257, 1), (0.0,) * 3, (float(gap), 257.0, 1.0))
        xyz = np.full((257, 3), 0.5)
        xyz[:, 1] += np.arange(257)
        for x in (0, gap - 1):
            xyz[:, 0] = x + 0.5
            inputs = from_positions(xyz, grid)
            algorithm = made(device, "radix-grid", "order", 257, grid)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None


class TestQuery:
    @pytest.mark.parametrize("form", ["count-linked", "count-sorted", "list-linked", "list-sorted"])
    def test_two_cells_along_a_periodic_axis_are_refused(
        self, opencl_device: Device, form: str
    ) -> None:
        grid = Grid((4, 2, 4), (0.0,) * 3, (4.0, 2.0, 4.0), (False, True, False))
        with pytest.raises(UserError, match="at least 3 cells"):
            made(opencl_device, "neighbour-query", form, 10, grid)

    @pytest.mark.parametrize("form", ["list-linked", "list-sorted"])
    def test_more_pairs_than_there_is_room_for_write_nothing_outside(
        self, device: Device, form: str
    ) -> None:
        """Lists are sized by `load`; particles moved since then must not spill over."""
        algorithm = made(device, "neighbour-query", form, 300, BOX)
        algorithm.load(make(300, BOX, "lattice"))
        room = algorithm.answer.neighbours
        guard = device.empty(room.shape[0] + 64, np.int32)
        device.fill(guard, 0xFF)
        algorithm._neighbours = guard[: room.shape[0] // 2]
        algorithm.launch()
        np.testing.assert_array_equal(device.download(guard)[room.shape[0] // 2 :], -1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_positions_that_are_no_numbers_never_reach_a_device(value: float) -> None:
    positions = make(10, BOX).positions
    positions[7, 1] = value
    with pytest.raises(UserError, match="particle 7"):
        from_positions(positions, BOX)
