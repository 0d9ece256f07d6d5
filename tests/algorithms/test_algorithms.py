"""Every algorithm in every form, on every device: right answers, and what contracts.py promises."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_sets import any_keys, keys_for
from posed_meshes import posed_meshes
from seen import unless_seen

from gpubench import problems, registry
from gpubench.algorithms.bucket_sort import HostRounds
from gpubench.algorithms.cell_search import CellSearch
from gpubench.algorithms.cluster_pairs import ClusterPairs
from gpubench.algorithms.lj_forces import LjClusterPairs
from gpubench.base.errors import NotSupported, UserError
from gpubench.core.algorithm import Algorithm
from gpubench.core.grid import Grid
from gpubench.core.recipe import Inputs
from gpubench.core.version import version_of
from gpubench.devices import Device, missing_feature
from gpubench.libraries._image_lists import HostPairs
from gpubench.libraries.fcl_collision import FclCollision
from gpubench.libraries.list_searches import ListSearch
from gpubench.libraries.neighbour_list import NeighbourListCall
from gpubench.libraries.neighbour_list_images import NeighbourListImages
from gpubench.libraries.numpy_sort import NumpySort
from gpubench.libraries.warp_images import WarpImages
from gpubench.primitives import simd_query
from gpubench.problems.cells.contract import (
    CellListUpdate,
    HashedCells,
    LimitedCells,
    LinkedCells,
    SortedCells,
)
from gpubench.problems.cells.oracle import check_linked
from gpubench.problems.collision.axes import POSES, SHAPES
from gpubench.problems.collision.contract import Collisions
from gpubench.problems.collision.inputs import make_mesh_pair
from gpubench.problems.images.cases import TILTED
from gpubench.problems.images.contract import Images
from gpubench.problems.images.inputs import make_systems
from gpubench.problems.key_sort.contract import SortedKeys
from gpubench.problems.neighbours.contract import HostSearch, Neighbours
from gpubench.problems.neighbours.tasks import task_of
from gpubench.problems.pair_forces.contract import Forces
from gpubench.problems.pair_noise.contract import Noise
from gpubench.problems.pair_noise.inputs import make_pairs
from gpubench.problems.particles.axes import DISTRIBUTIONS, ORDERS
from gpubench.problems.particles.inputs import ParticleSet, from_positions, make, move
from gpubench.problems.sparse_product.contract import Assembled, Product
from gpubench.problems.sparse_product.inputs import of_particles
from gpubench.problems.stream_filter.axes import NULLS, RECORD_BYTES
from gpubench.problems.stream_filter.contract import Compacted
from gpubench.problems.stream_filter.inputs import make_records
from gpubench.problems.subdivision.contract import Subdivided
from gpubench.problems.subdivision.inputs import make_loop_mesh
from gpubench.verify.conformance import run_conformance

RIGHT_ON_SECOND = Path(__file__).with_name("right_on_pocl.json")  # case: version, and PoCL's
FORMS = [
    (name, form)
    for name, cls in registry.algorithms().items()
    for form in cls.forms
    if cls.family != "workload-step"
]
CELL_LISTS = [pair for pair in FORMS if registry.find_algorithm(pair[0]).family == "cell-list"]
UPDATES = [pair for pair in FORMS if registry.find_algorithm(pair[0]).family == "cell-list-update"]
SEARCHES = [pair for pair in FORMS if registry.find_algorithm(pair[0]).family == "neighbour-search"]
# Ten counts are the one count, done again; the suites of their forms would take the most time.
REPEATED = [pair for pair in SEARCHES if task_of(pair[1]) == "ten-counts"]
QUERIES = ("neighbour-query", "unbounded-query", "neighbour-search", "pair-forces")
LISTS = [("neighbour-query", "list-linked"), ("neighbour-query", "list-sorted")]
LISTS += [("hash-query", "list-original"), ("hash-query", "list-world-limits")]
SEARCH_LISTS = [("search-atomic-list", "list"), ("search-counting-sort", "list")]
SEARCH_LISTS += [("lbvh-search", "list"), ("search-fine-cells", "list")]
WHOLE = [*SEARCH_LISTS, ("cluster-pairs", "list"), ("neighbour-list", "list-numpy")]
PRODUCTS = [pair for pair in FORMS if registry.find_algorithm(pair[0]).family == "sparse-product"]
FEW = [("ellpack-blocks", form) for form in ("assemble-planes", "product-float4")]
FEW += [("ellpack-staged", "transpose-planes"), ("sliced-ell", "product-planes")]
FEW += [("csr-product", "transpose-warp")]
BUCKET_SORTS = [pair for pair in FORMS if pair[0].startswith("bucket-sort")]

FILTERED = ("by-screen-scan-search", "by-screen-bitonic")  # by-screen-atomic but for the filter
ALIKE = {
    ("filter-bitonic", "one-launch-per-step"),
    ("loop-subdivision", "by-screen-atomic"), ("obb-collision", "no-filter"),
    ("adaptive-bitonic", "reorder"), ("neighbour-list-images", "numpy"),
    *(("counting-sort-lesson", form) for form in ("kept-rank", "many-a-thread")),
    *(("counting-sort-lesson", form) for form in ("shared-runs", "shipped")),
    *(("neighbour-count-lesson", form) for form in ("given-order", "cell-order")),
    *(("neighbour-count-lesson", form) for form in ("cut-cells", "shipped", "rows")),
}  # fmt: skip
PARTS_OF_A_LIST = ("build", "count", "ten-counts")

BOX = Grid((5, 4, 6), (-1.0, 0.0, 2.5), (5.0, 2.0, 3.0))
TORUS = Grid((5, 4, 6), (-1.0, 0.0, 2.5), (5.0, 4.0, 6.0), (True, True, True))
KEPT = {"uniform": 0.5, "one-cell": 1.0, "clusters": 0.1}


def made(device: Device, name: str, form: str, inputs: Inputs, **parameters: int) -> Any:
    """Make an algorithm that must be right, or skip with the reason why it cannot run here."""
    cls: Any = registry.find_algorithm(name)
    if lacking := missing_here(device, name, form):
        pytest.skip(lacking)
    try:
        return cls(
            device,
            form=form,
            parameters={**cls.conformance_parameters, **parameters},
            **inputs.made_for,
        )
    except NotSupported as lacking:
        if device.backend == "opencl" and "is not installed" not in str(lacking):
            raise  # `missing_here` knows of all else
        pytest.skip(str(lacking))


def missing_here(device: Device, name: str, form: str) -> str | None:
    """Say why a form is not tried on a device, or return None."""
    cls: Any = registry.find_algorithm(name)
    if cls in (NeighbourListCall, NeighbourListImages) and device.spec == "opencl:pocl":
        return "searches arrays of NumPy on opencl:intel alone"
    if cls is WarpImages:
        return "searches open boxes alone: traps try them"
    if issubclass(cls, HostSearch | HostPairs | ListSearch) and device.spec == "opencl:pocl":
        return "works on the host, whatever the device: tried beside another"
    if issubclass(cls, CellSearch) and device.spec == "opencl:pocl" and form in PARTS_OF_A_LIST:
        return "launches nothing that a list or an update does not: those are tried here"
    if cls in (ClusterPairs, LjClusterPairs) and device.spec == "opencl:pocl":
        return "PoCL compiles the barriers that stand for a warp's votes for half a minute"
    return missing_feature(cls.forms[form].requires, device)


def drawn(name: str, form: str, size: int, distribution: str = "uniform", seed: int = 0) -> Any:
    """Draw an input of the kind that an algorithm takes; the distribution says of what sort."""
    cls = registry.find_algorithm(name)
    match cls.family:
        case "stream-filter":
            return make_records(size, KEPT[distribution], 16, "predicate", seed)
        case "neighbour-search" if "update" in cls.forms:
            return move(make(size, BOX, distribution, seed=seed), size // 3, "random", seed)
        case "cell-list-update":
            return move(make(size, BOX, distribution, seed=seed), size // 3, "random", seed)
        case "pair-noise":
            return make_pairs(size, seed + sum(distribution.encode()))
        case "image-search":
            seed += sum(distribution.encode())
            return make_systems([size], TILTED, 2.0, seed=seed)
        case "sparse-product":
            return of_particles(make(size, BOX, distribution, seed=seed), seed)
        case "key-sort":
            return keys_for(cls, form, size, "few-distinct", seed + sum(distribution.encode()))
        case "mesh-collision":
            return posed_meshes(seed + sum(distribution.encode()))
        case "surface-subdivision":
            return make_loop_mesh("flipped-sphere", 80, 2, seed + sum(distribution.encode()))
    return make(size, BOX, distribution, seed=seed)


def problem_of(algorithm: Algorithm, inputs: Inputs) -> str | None:
    return problems.problems()[algorithm.family].check(algorithm, inputs)


def arrays_of(algorithm: Any) -> list[Any]:
    answer = algorithm.answer
    return [array for array in vars(answer).values() if hasattr(array, "nbytes")]


def spoil(device: Device, algorithm: Any, byte: int) -> None:
    """Overwrite the last answer."""
    for array in arrays_of(algorithm):
        if isinstance(array, np.ndarray):
            array.view(np.uint8).fill(byte)
        else:
            device.fill(array, byte)


def whole_suites() -> list[Any]:
    """Return the forms whose whole suite runs; long where another form runs most of the same code.

    A search that lists also builds and counts, and one that counts also builds; the queries of all
    searches are those over linked lists or over sorted cells. A hash grid differs between its forms
    in keys, a matrix in how its blocks are stored. Forms of collision, and of subdivision by the
    screen, differ in their filter, those of a filter in whether they keep what is left out. All
    these are thorough: their contract is tested below. Of others' libraries on the host only the
    adapters are ours. The rounds of `bucket-resort` grow with the square of the fullest cell.
    Those of ALIKE have another form above that differs in a kernel or two.
    """
    return [
        pytest.param(
            name, form, marks=[pytest.mark.long] * is_long + [pytest.mark.thorough] * is_part
        )
        for name, form in FORMS
        if (name, form) not in REPEATED
        for is_of_host in [issubclass(registry.find_algorithm(name), HostSearch | ListSearch)]
        for is_part in [
            form.endswith("original")
            or form in ("count-world-limits", "both-halves")
            or (name == "obb-collision" and form in ("scan-search", "bitonic"))
            or (name == "loop-subdivision" and form in FILTERED)
            or ((name, form) in SEARCHES and (name, form) not in WHOLE and not is_of_host)
            or (name.startswith("lj-") and form == "forces")
            or ((name, form) in PRODUCTS and (name, form) not in FEW)
        ]
        for is_long in [is_part or is_of_host or name == "bucket-resort" or (name, form) in ALIKE]
    ]


UNUSUAL = "a filter is compiled for each width of records: the first runtime has all"


def of_usual_width(conforming: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """Return what makes a filter, for records of the usual widths alone."""

    def make_one(**given: Any) -> Algorithm:
        if given["record_bytes"] not in RECORD_BYTES:
            raise NotSupported(UNUSUAL)
        return conforming(**given)

    return make_one


@pytest.fixture
def unless_right(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Return what skips a test whose version has been seen right on the second runtime."""
    yield from unless_seen(request, RIGHT_ON_SECOND)


@pytest.mark.second_runtime
@pytest.mark.parametrize(("name", "form"), whole_suites())
def test_conformance(
    device: Device,
    name: str,
    form: str,
    unless_right: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if device.spec == "opencl:pocl":
        unless_right(f"{version_of(name, None, 'opencl')} {device.environment()['driver']}")
    if name == "neighbour-query":  # the kernels of GPUs, on a CPU too: searches have its own
        monkeypatch.setattr(simd_query, "suits", lambda device: False)
    cls: Any = registry.find_algorithm(name)
    made(device, name, form, drawn(name, form, 10))  # or skip
    conforming = partial(cls, device, form=form, parameters=cls.conformance_parameters)
    if device.spec == "opencl:pocl" and cls.family == "stream-filter":
        conforming = of_usual_width(conforming)
    try:
        results = run_conformance(conforming, cls.family)
    except RuntimeError as error:
        if device.backend == "opencl" or "out of memory" not in str(error):
            raise
        pytest.skip(f"{name} needs more memory than other tests have left on the GPU")
    results = [r for r in results if r.reason != UNUSUAL]
    assert len(results) > 50
    if not getattr(cls, "finds_images", True):
        refused = [r for r in results if r.reason.startswith(f"{name} finds no images")]
        assert 0 < len(refused) < len(results) - 50
        results = [r for r in results if r not in refused]
    if cls.family == "neighbour-search" and not getattr(cls, "takes_radii", False):
        refused = [r for r in results if r.reason == f"{name} takes one radius for all particles"]
        # Their boxes are periodic.
        assert len(refused) == (2 if getattr(cls, "finds_images", True) else 0)
        results = [r for r in results if r not in refused]
    if cls.family == "key-sort":
        results = [r for r in results if f"{name} sorts no" not in r.reason]
        assert len(results) > 5
    if form == "pairs-gpu":  # vesin's cells lose pairs at distance 0
        lost = [
            r
            for r in results
            if r.reason.endswith("[0 0 0] is missing")
            or (r.name == "on the corners" and r.reason.endswith("is missing"))
        ]
        assert 0 < len(lost) < 4
        results = [r for r in results if r not in lost]
    if form.startswith("transpose") and not cls.transposes_any:
        results = [r for r in results if "which needs blocks with B_ji = -B_ij" not in r.reason]
        assert len(results) > 30
    assert [f"{r.name}: {r.status}, {r.reason}" for r in results if r.status != "ok"] == []


def test_what_runs_on_opencl_runs_here(intel: Device) -> None:
    """That no suite is skipped on the runtime that is always there."""
    lacking = {pair for pair in FORMS if missing_here(intel, *pair)}
    assert lacking == {
        (name, form)
        for name, form in FORMS
        if registry.find_algorithm(name).forms[form].requires - {"opencl"}
        or registry.find_algorithm(name) is WarpImages
    }


@st.composite
def particle_sets(draw: st.DrawFn, may_repeat: bool = True) -> ParticleSet:
    periodic = draw(st.tuples(*[st.booleans() if may_repeat else st.just(False)] * 3))
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


@st.composite
def moved_particles(draw: st.DrawFn, may_repeat: bool = True) -> ParticleSet:
    before = draw(particle_sets(may_repeat))
    can_move = before.particles if before.grid.count > 1 else 0
    destination = draw(st.sampled_from(["random", "next"]))
    return move(before, draw(st.integers(0, can_move)), destination, draw(st.integers(0, 2**32)))


# What inputs each family is tried on.
TRIED = {
    "cell-list": particle_sets(),
    "cell-list-update": moved_particles(),
    "neighbour-query": particle_sets(),
    "pair-forces": particle_sets(),
    "hash-grid": particle_sets(may_repeat=False),
    "unbounded-query": particle_sets(may_repeat=False),
    "stream-filter": st.builds(
        make_records,
        st.integers(0, 5000),
        st.floats(0, 1),
        st.sampled_from(RECORD_BYTES),
        st.sampled_from(NULLS),
        st.integers(0, 2**32),
    ),
    "pair-noise": st.builds(make_pairs, st.integers(0, 5000), st.integers(0, 2**32)),
    "sparse-product": st.builds(of_particles, particle_sets(may_repeat=False)),
    "mesh-collision": st.builds(
        make_mesh_pair,
        st.sampled_from(SHAPES),
        st.sampled_from([32, 64]),
        st.sampled_from(POSES),
        st.integers(0, 2**32),
    ),
    "image-search": st.builds(
        make_systems,
        st.lists(st.integers(0, 100), min_size=1, max_size=5),
        st.sampled_from([TILTED, np.diag([6.0, 5.0, 4.0])]),
        st.floats(0.125, 9.0, width=32),
        st.sampled_from([(True, True, True), (True, True, False)]),
        st.integers(0, 2**32),
    ),
    "surface-subdivision": st.builds(
        make_loop_mesh,
        st.sampled_from(["icosphere", "flipped-sphere"]),
        st.sampled_from([20, 80]),
        st.integers(1, 3),
        st.integers(0, 2**32),
    ),
}


def tried(name: str, form: str) -> st.SearchStrategy[Any]:
    """Return a strategy of inputs that a form takes, all of them."""
    cls: Any = registry.find_algorithm(name)
    if cls.family == "key-sort":
        return any_keys(cls, form)
    if cls.family == "neighbour-search":
        may_repeat = getattr(cls, "finds_images", True)
        return particle_sets(may_repeat) | moved_particles(may_repeat)
    return TRIED[cls.family]


def test_there_are_inputs_to_try_any_form_with() -> None:
    assert not any(tried(*pair).is_empty for pair in FORMS)


@given(data=st.data())
@settings(max_examples=80)
def test_any_input(device: Device, data: st.DataObject) -> None:
    here = [pair for pair in FORMS if not missing_here(device, *pair)]
    name, form = data.draw(st.sampled_from(here))
    inputs: Any = data.draw(tried(name, form))
    try:
        algorithm = made(device, name, form, inputs)
    except pytest.skip.Exception:  # a library that is not installed: one chosen form of many
        return
    algorithm.load(inputs)
    for _ in range(2):
        algorithm.launch()
        assert problem_of(algorithm, inputs) is None


# Not those whose library allocates for itself while it works.
LAUNCHING = [
    pair for pair in FORMS if not registry.find_algorithm(pair[0]).forms[pair[1]].allocates
]
# Nor those whose memory is in the pool of CuPy or PyTorch.
OWNING = [pair for pair in LAUNCHING if pair[0] != "neighbour-list"]


def test_what_was_seen_right_is_a_case() -> None:
    """So that no renamed case keeps another's name."""
    cases = {f"conformance[opencl:pocl-{'-'.join(case.values[:2])}]" for case in whole_suites()}
    assert {*json.loads(RIGHT_ON_SECOND.read_text())} <= cases


class TestContract:
    """What `contracts.Algorithm` promises, over all of them."""

    @pytest.fixture(params=FORMS, ids=lambda pair: "-".join(pair))
    def pair(self, request: pytest.FixtureRequest) -> tuple[str, str]:
        return request.param

    @pytest.mark.parametrize("pair", LAUNCHING, ids="-".join)
    def test_launch_neither_allocates_nor_compiles(
        self, device: Device, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inputs = drawn(*pair, 5000, seed=1)
        algorithm = made(device, *pair, inputs)
        algorithm.load(inputs)

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
        assert problem_of(algorithm, inputs) is None

    @pytest.mark.parametrize("pair", OWNING, ids="-".join)
    def test_workspace_is_what_was_allocated(
        self, device: Device, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        allocated: list[int] = []
        empty = device.empty

        def counted(shape: Any, dtype: Any) -> Any:
            array = empty(shape, dtype)
            allocated.append(array.nbytes)
            return array

        monkeypatch.setattr(device, "empty", counted)
        inputs = drawn(*pair, 3001, seed=2)
        algorithm = made(device, *pair, inputs)
        if algorithm.family not in QUERIES:  # these size their lists in `load`
            assert algorithm.workspace_bytes == sum(allocated)
        algorithm.load(inputs)
        algorithm.launch()
        if isinstance(
            algorithm, HostSearch | ListSearch | NumpySort | FclCollision
        ):  # what it allocates is not the device's
            assert algorithm.workspace_bytes == sum(allocated) == 0
            return
        assert sum(allocated) >= algorithm.workspace_bytes
        assert algorithm.workspace_bytes >= sum(array.nbytes for array in arrays_of(algorithm))

    @pytest.mark.parametrize("pair", [*LISTS, *SEARCH_LISTS])
    def test_workspace_of_lists_follows_the_input(
        self, device: Device, pair: tuple[str, str]
    ) -> None:
        few, many = make(500, BOX, "lattice"), make(500, BOX, "one-cell")
        algorithm = made(device, *pair, few)
        sizes = []
        for inputs in (few, many, few):
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None
            sizes.append(algorithm.workspace_bytes - 4 * algorithm.outcome()["pairs"])
        assert len(set(sizes)) == 1

    def test_traffic_and_outcome(self, device: Device, pair: tuple[str, str]) -> None:
        inputs = drawn(*pair, 2000, seed=3)
        algorithm = made(device, *pair, inputs)
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
        inputs = drawn(*pair, 1500, seed=4)
        oracle = problems.problems()[registry.find_algorithm(pair[0]).family].oracle(inputs, False)
        for byte in (0x5A, 0xFF):  # other tests get zeros

            def soiled(shape: Any, dtype: Any, byte: int = byte) -> Any:
                array = empty(shape, dtype)
                device.fill(array, byte)
                return array

            monkeypatch.setattr(device, "empty", soiled)
            algorithm = made(device, *pair, inputs)
            algorithm.load(inputs)
            algorithm.launch()
            assert oracle.check(algorithm) is None, f"memory full of {byte:#x}"
            spoil(device, algorithm, byte)
            if isinstance(algorithm, CellListUpdate):  # a launch starts from the list that is there
                algorithm.build(*algorithm.states[0])
            algorithm.launch()
            assert oracle.check(algorithm) is None, f"last answer {byte:#x}"

    def test_load_again_leaves_nothing_behind(self, device: Device, pair: tuple[str, str]) -> None:
        # All pairs of a full cell take the oracle seconds.
        size = 400 if pair in SEARCHES or pair in PRODUCTS else 1500
        algorithm = made(device, *pair, drawn(*pair, size))
        for distribution in ("uniform", "one-cell", "uniform"):
            inputs = drawn(*pair, size, distribution, seed=5)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None, distribution

    def test_two_of_a_kind_do_not_share_memory(self, device: Device, pair: tuple[str, str]) -> None:
        inputs = [drawn(*pair, 800, seed=seed) for seed in (6, 7)]
        algorithms = [made(device, *pair, one) for one in inputs]
        for algorithm, one in zip(algorithms, inputs, strict=True):
            algorithm.load(one)
        for algorithm in algorithms:
            algorithm.launch()
        for algorithm, one in zip(algorithms, inputs, strict=True):
            assert problem_of(algorithm, one) is None

    def test_an_answer_has_the_shape_of_its_family(
        self, device: Device, pair: tuple[str, str]
    ) -> None:
        inputs = drawn(*pair, 100)
        algorithm = made(device, *pair, inputs)
        algorithm.load(inputs)
        algorithm.launch()
        answer, form = algorithm.answer, algorithm.forms[pair[1]]
        match algorithm.family:
            case "hash-grid":
                assert isinstance(answer, HashedCells)
            case "neighbour-query" | "unbounded-query":
                assert isinstance(answer, Neighbours)
                assert (answer.neighbours is not None) == pair[1].startswith("list")
            case "neighbour-search":
                assert isinstance(answer, Neighbours)
                assert (answer.neighbours is not None) == (algorithm.task == "list")
            case "stream-filter":
                assert isinstance(answer, Compacted)
            case "pair-forces":
                assert isinstance(answer, Forces)
            case "pair-noise":
                assert isinstance(answer, Noise)
                assert answer.values.shape == (algorithm.launches, 100)
            case "image-search":
                assert isinstance(answer, Images)
            case "sparse-product":
                assert isinstance(answer, Assembled if algorithm.task == "assemble" else Product)
            case "key-sort":
                assert isinstance(answer, SortedKeys)
            case "mesh-collision":
                assert isinstance(answer, Collisions)
            case "surface-subdivision":
                assert isinstance(answer, Subdivided)
            case _:
                assert isinstance(answer, LinkedCells | SortedCells | LimitedCells)
                assert (getattr(answer, "positions", None) is not None) == form.reorders


@pytest.mark.parametrize(("name", "form"), CELL_LISTS)
class TestBuild:
    """`build` takes any cell ids and positions, not only those that `load` brought."""

    def test_from_arrays_of_the_callers(self, device: Device, name: str, form: str) -> None:
        loaded = make(1200, BOX, seed=8)
        algorithm = made(device, name, form, loaded)
        algorithm.load(loaded)
        algorithm.launch()
        for seed, distribution in ((9, "uniform"), (10, "one-cell"), (11, "lattice")):
            inputs = make(1200, BOX, distribution, seed=seed)
            cell_of = device.upload(inputs.cell_of)
            positions = device.upload(inputs.positions)
            algorithm.build(cell_of, positions)
            built = SimpleNamespace(
                device=device, download=device.download,
                name=name, form=form, forms=algorithm.forms,
                answer=algorithm.answer, cell_of=cell_of,
            )  # fmt: skip
            assert problems.problems()["cell-list"].check(built, inputs) is None
            # The arrays that came in are as they were.
            np.testing.assert_array_equal(device.download(cell_of), inputs.cell_of)
            np.testing.assert_array_equal(device.download(positions), inputs.positions)

    def test_positions_travel_whole(self, device: Device, name: str, form: str) -> None:
        """The fourth component is the user's, and goes where its particle goes."""
        inputs = make(900, BOX, seed=12)
        inputs.positions[:, 3] = np.arange(900)
        algorithm = made(device, name, form, inputs)
        algorithm.load(inputs)
        algorithm.launch()
        assert problem_of(algorithm, inputs) is None
        if algorithm.forms[form].reorders:
            answer = algorithm.answer
            np.testing.assert_array_equal(
                device.download(answer.positions)[:, 3], device.download(answer.order)
            )


@pytest.mark.parametrize(("name", "form"), UPDATES)
def test_an_update_leaves_its_input_as_it_was(device: Device, name: str, form: str) -> None:
    inputs = drawn(name, form, 1200, seed=8)
    algorithm = made(device, name, form, inputs)
    algorithm.load(inputs)
    algorithm.launch()
    assert problem_of(algorithm, inputs) is None
    for (cell_of, positions), state in zip(algorithm.states, inputs.history, strict=True):
        np.testing.assert_array_equal(device.download(cell_of), state.cell_of)
        np.testing.assert_array_equal(device.download(positions), state.positions)


@pytest.mark.parametrize(("name", "form"), CELL_LISTS)
def test_input_in_reverse_order(device: Device, name: str, form: str) -> None:
    """What a sorting network finds hardest: every last comparator has to exchange."""
    grid = Grid.with_count(2**13)
    for particles in (2**12, 2**12 + 2**11, 2**12 + 1029):
        given = make(particles, grid, order="cell")
        inputs = from_positions(given.positions[::-1], grid)
        algorithm = made(device, name, form, inputs)
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
            algorithm = made(device, name, form, inputs)
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

    def test_one_part_is_listing_1(self, device: Device) -> None:
        assert registry.find_algorithm("bucket-sort").defaults == {}
        inputs = make(2500, BOX, "clusters", seed=13)
        listing = made(device, "bucket-sort", "host-loop", inputs)
        partial_update = made(device, "bucket-sort-partial", "host-loop", inputs, parts=1)
        for algorithm in (listing, partial_update):
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None
        assert listing.outcome() == partial_update.outcome()
        assert listing.traffic_bytes() == partial_update.traffic_bytes()

    @given(
        particles=st.integers(0, 3000),
        parts=st.integers(1, 64),
        threshold=st.integers(1, 5000),
        distribution=st.sampled_from(DISTRIBUTIONS),
        seed=st.integers(0, 2**16),
    )
    @settings(max_examples=15)
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
            device, "bucket-sort-partial", "host-loop", inputs, parts=parts, threshold=threshold
        )
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
            device, "bucket-sort-partial", "host-loop", inputs, parts=4, threshold=4000
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
            made(opencl_device, "bucket-sort-partial", "host-loop", make(10, BOX), **parameters)
        assert str(error.value) == says


class TestHostRounds:
    """The rounds that bucket sort, partial update and re-sort share."""

    class Owner:
        """What the rounds need of the algorithm whose they are."""

        def __init__(self, device: Device, particles: int) -> None:
            self.device, self.particles = device, particles

        def allocate(self, shape: int, dtype: str) -> Any:
            return self.device.empty(shape, dtype)

    @given(
        particles=st.integers(0, 2000),
        parts=st.integers(1, 8),
        threshold=st.integers(1, 400),
        share=st.floats(0, 1),
        distribution=st.sampled_from(DISTRIBUTIONS),
        seed=st.integers(0, 2**16),
    )
    @settings(max_examples=15)
    def test_some_first_then_the_others_into_their_lists(
        self,
        device: Device,
        particles: int,
        parts: int,
        threshold: int,
        share: float,
        distribution: str,
        seed: int,
    ) -> None:
        cell_of = make(particles, BOX, distribution, seed=seed).cell_of
        is_late = np.random.default_rng(seed).random(particles) < share
        rounds: Any = HostRounds(self.Owner(device, particles), parts)
        head, next = device.empty(BOX.count, "int32"), device.empty(particles, "int32")
        device.fill(head, 0xFF)
        device.fill(next, 0xFF)
        cells = device.upload(cell_of)
        for is_in_turn, into_lists in ((~is_late, False), (is_late, True)):
            visited = device.upload((~is_in_turn).astype(np.int32))
            rounds.run(
                cells, visited, head, next, parts=parts, threshold=threshold, into_lists=into_lists
            )
            per_cell = np.bincount(cell_of[is_in_turn], minlength=BOX.count)
            assert device.download(visited).all()
            assert rounds.rounds >= per_cell.max()
            if parts == 1:
                # Of n elements of a cell n are drawn in the first round, n - 1 in the next.
                assert rounds.rounds == per_cell.max()
                assert rounds.drawn == (per_cell * (per_cell + 1) // 2).sum()
                # The last of the scatters finds nothing, and no link follows it.
                passes = 2 * rounds.rounds + 1 + into_lists
                assert rounds.traffic_bytes == 4 * passes * max(1, particles) + 20 * rounds.drawn
        links = device.download(head), device.download(next)
        assert check_linked(cell_of, BOX.count, *links) is None


class TestCountingSort:
    def test_empty_and_full_cells_in_turn(self, device: Device) -> None:
        """Counts are cleared by the scan that reads them, also when cells go from full to empty."""
        grid = Grid.with_count(2**15)
        algorithm = made(device, "counting-sort", "reorder", make(2**12, grid))
        for distribution in ("one-cell", "lattice", "clusters", "lattice"):
            inputs = make(2**12, grid, distribution)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None


class TestBounds:
    """Long stretches of empty cells, which cell_bounds leaves to the whole block."""

    @pytest.mark.second_runtime
    @pytest.mark.parametrize("gap", [30, 31, 32, 33, 34, 300])
    def test_gaps_of_every_length(self, device: Device, gap: int) -> None:
        # 257 particles, each `gap` cells from the next: more long gaps in a block than it lists.
        grid = Grid((gap, 257, 1), (0.0,) * 3, (float(gap), 257.0, 1.0))
        xyz = np.full((257, 3), 0.5)
        xyz[:, 1] += np.arange(257)
        for x in (0, gap - 1):
            xyz[:, 0] = x + 0.5
            inputs = from_positions(xyz, grid)
            algorithm = made(device, "radix-grid", "order", inputs)
            algorithm.load(inputs)
            algorithm.launch()
            assert problem_of(algorithm, inputs) is None


class TestSearch:
    def test_ten_counts_are_ten(self, device: Device) -> None:
        inputs = make(500, BOX)
        algorithm = made(device, "search-counting-sort", "ten-counts", inputs)
        algorithm.load(inputs)
        done = []
        count = algorithm._query.count
        algorithm._query.count = lambda arrays: (done.append(1), count(arrays))
        algorithm.launch()
        assert len(done) == 10

    @pytest.mark.parametrize(
        ("form", "vectors"), [("build", True), ("count", True), ("list", True), ("list", False)]
    )
    def test_parts_are_cells_along_x(
        self, device: Device, form: str, vectors: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not vectors:
            monkeypatch.setattr(simd_query, "suits", lambda device: False)
        for parts in (1, 5):  # the suites have 3
            for inputs in (make(900, BOX, seed=3), make(900, TORUS, seed=4)):
                algorithm = made(device, "search-counting-sort", form, inputs, parts=parts)
                algorithm.load(inputs)
                algorithm.launch()
                assert problem_of(algorithm, inputs) is None, parts

    @pytest.mark.parametrize(("particles", "parts"), [(0, 1), (10, 1), (240, 2), (5000, 5)])
    def test_cells_are_cut_while_enough_particles_are_left(
        self, device: Device, particles: int, parts: int
    ) -> None:
        if particles == 240 and simd_query.suits(device):
            parts = 1
        algorithm = made(device, "search-counting-sort", "count", make(particles, BOX), parts=0)
        assert algorithm.outcome()["cells_along_x"] == parts * BOX.cells[0]

    @pytest.mark.parametrize("parts", [-1, 2**30])
    def test_no_parts_and_too_many_are_refused(self, opencl_device: Device, parts: int) -> None:
        with pytest.raises(UserError, match=f"parts must be at least 1 .*, not {parts}"):
            made(opencl_device, "search-counting-sort", "count", make(10, BOX), parts=parts)

    @pytest.mark.parametrize(
        "name", ["search-counting-sort", "search-atomic-list", "brute-force", "scipy-ckdtree"]
    )
    def test_two_cells_along_a_periodic_axis_are_refused(
        self, opencl_device: Device, name: str
    ) -> None:
        grid = Grid((4, 2, 4), (0.0,) * 3, (4.0, 2.0, 4.0), (False, True, False))
        with pytest.raises(UserError, match="at least 3 cells"):
            registry.find_algorithm(name)(
                opencl_device, form="count", parameters={}, **make(10, grid).made_for
            )

    def test_an_update_counts_in_each_state(self, device: Device) -> None:
        """One launch goes there and back, and its check goes through the states between."""
        inputs = move(make(800, TORUS), 300, "next")
        algorithm = made(device, "search-counting-resort", "update", inputs)
        algorithm.load(inputs)
        algorithm.launch()
        assert algorithm.launches == 2
        assert problem_of(algorithm, inputs) is None
        algorithm.move_to(1)  # an answer of the newest state is not one of the oldest
        assert problem_of(algorithm, inputs) is not None

    def test_others_update_nothing(self, opencl_device: Device) -> None:
        algorithm = made(opencl_device, "brute-force", "count", make(10, BOX))
        with pytest.raises(NotImplementedError, match="brute-force updates nothing"):
            algorithm.move_to(0)


class TestQuery:
    @pytest.mark.parametrize("form", ["count-linked", "count-sorted", "list-linked", "list-sorted"])
    def test_two_cells_along_a_periodic_axis_are_refused(
        self, opencl_device: Device, form: str
    ) -> None:
        grid = Grid((4, 2, 4), (0.0,) * 3, (4.0, 2.0, 4.0), (False, True, False))
        with pytest.raises(UserError, match="at least 3 cells"):
            made(opencl_device, "neighbour-query", form, make(10, grid))

    @pytest.mark.parametrize("pair", LISTS)
    def test_more_pairs_than_there_is_room_for_write_nothing_outside(
        self, device: Device, pair: tuple[str, str]
    ) -> None:
        """Lists are sized by `load`; particles moved since then must not spill over."""
        loaded = make(300, BOX, "lattice")
        algorithm = made(device, *pair, loaded)
        algorithm.load(loaded)
        room = algorithm.answer.neighbours
        guard = device.empty(room.shape[0] + 64, np.int32)
        device.fill(guard, 0xFF)
        owner = algorithm._query if pair[0] == "neighbour-query" else algorithm
        owner._neighbours = guard[: room.shape[0] // 2]
        algorithm.launch()
        assert (device.download(guard)[: room.shape[0] // 2] >= 0).any()
        np.testing.assert_array_equal(device.download(guard)[room.shape[0] // 2 :], -1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_positions_that_are_no_numbers_never_reach_a_device(value: float) -> None:
    positions = make(10, BOX).positions
    positions[7, 1] = value
    with pytest.raises(UserError, match="particle 7"):
        from_positions(positions, BOX)
