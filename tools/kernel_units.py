"""The CUDA kernels that the algorithms use, found by making them on a recording device."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpubench import problems, registry
from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm
from gpubench.core.host_work import HostWork
from gpubench.decomposed import DECOMPOSITIONS, PHYSICS, share
from gpubench.devices.base import Device, Graph, Kernel
from gpubench.distributed.mailboxes import Mailboxes
from gpubench.libraries.cub_sort import cub_version
from gpubench.neighbours.batch import Batch, BatchPlan
from gpubench.neighbours.box import SearchBox
from gpubench.neighbours.cell import Cell
from gpubench.neighbours.images import CellPlan
from gpubench.neighbours.plan import Plan
from gpubench.neighbours.rows import kernel
from gpubench.neighbours.tilted import tilted_plan
from gpubench.problems.cells.contract import CellList
from gpubench.workloads.sph import SPH

# The last two exceed the bucket sort elements that fit in the registers of a whole GPU.
SIZES = (0, 1000, 2**20 + 1, 2**22, 2**24 + 1)
WORKLOAD_SIZE = 4096
TILTED = Cell(((9.0, 0.0, 0.0), (3.0, 9.0, 0.0), (0.0, 0.0, 0.0)), (0.0,) * 3, (-1.0,) * 3)
LONG = Cell(((34.0, 0.0, 0.0), (9.0, 34.0, 0.0), (5.0, 5.0, 34.0)), (0.0,) * 3, (-1.0,) * 3)

Constants = tuple[tuple[str, int | str], ...]


@dataclass(frozen=True)
class Unit:
    """One compilation: a kernel file with its constants, or a library."""

    file: str
    constants: Constants
    is_library: bool = False


class Placeholder(np.ndarray[Any, Any]):
    """An array with a null address for libraries."""

    data = SimpleNamespace(ptr=0)  # type: ignore[assignment]


@dataclass
class Recorder(Device):
    """A CUDA device that records what is compiled for it, and computes nothing.

    wanted: the names requested from each unit.
    """

    backend: str = "cuda"
    spec: str = "cuda:0"
    name: str = "recorder"
    is_cpu: bool = False
    features: frozenset[str] = frozenset({"cuda", "graphs"})
    compute_units: int = 132
    cache_bytes: int = 50 << 20
    memory_bytes: int = 80 << 30
    shared_bytes: int = 227 << 10
    stream: Any = field(default_factory=lambda: SimpleNamespace(handle=0))
    wanted: dict[Unit, set[str]] = field(default_factory=lambda: defaultdict(set))

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        return np.zeros(shape, dtype).view(Placeholder)

    def upload(self, host: NDArray[Any]) -> NDArray[Any]:
        return host

    def write(self, array: Any, host: NDArray[Any]) -> None:
        pass

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)

    def fill(self, array: Any, byte: int) -> None:
        pass

    def copy(self, source: Any, target: Any) -> None:
        pass

    def host_buffer(self, size: int) -> NDArray[np.uint8]:
        return np.zeros(size, np.uint8)

    def read_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        return lambda: None

    def write_rows(self, array: Any, first: int, host: NDArray[np.uint8]) -> Callable[[], None]:
        return lambda: None

    def kernel(self, file: str, name: str, **constants: int | str) -> Kernel:
        self.wanted[Unit(file, tuple(sorted(constants.items())))].add(name)
        return lambda *arguments: None

    def library(self, file: str, headers: str = "", **constants: int | str) -> Any:
        """Record the library, and each function called while an algorithm is made."""
        unit = Unit(file, tuple(sorted(constants.items())), is_library=True)
        wanted = self.wanted[unit]

        class Library:
            def __getattr__(self, name: str) -> Callable[..., int]:
                wanted.add(name)
                return lambda *arguments: 0

        return Library()

    def synchronize(self) -> None:
        pass

    def capture(self, work: Callable[[], None]) -> Graph:
        raise NotImplementedError


def is_like(name: str, word: str) -> bool:
    """Return whether a name contains a word, where - and _ are equivalent."""
    return word.replace("_", "-") in name.replace("_", "-")


def wanted_units(only: str = "") -> dict[Unit, set[str]]:
    """Return the compiled units, with the names requested from each.

    only: keeps units of algorithms, and files, with this word in their names.
    """
    chosen, others = Recorder(), Recorder()
    for name, cls in registry.algorithms().items():
        if not issubclass(cls, HostWork):  # has no kernels
            make_algorithm(cls, chosen if is_like(name, only) else others)
    make_workloads(others)
    make_shared_workloads(others)
    make_neighbour_lists(others)
    cub_version(others)
    for unit, names in others.wanted.items():
        if is_like(unit.file, only):
            chosen.wanted[unit] |= names
    return dict(chosen.wanted)


def without_repeats(wanted: dict[Unit, set[str]]) -> dict[Unit, set[str]]:
    """Omit libraries whose constants all occur in others, as each takes many seconds."""
    seen: set[tuple[str, tuple[str, int | str]]] = set()
    kept = {}
    for unit, names in wanted.items():
        constants = {(unit.file, constant) for constant in unit.constants}
        if not (unit.is_library and constants and constants <= seen):
            kept[unit] = names
        seen |= constants
    return kept


def make_neighbour_lists(device: Recorder) -> None:
    """Make NeighbourLists for users' arrays: few and many particles, half and full lists."""
    for dtype, columns, half, repeats, cutoff in itertools.product(
        ("float32", "float64"), (3, 4), (False, True), (False, True), (1.0, 2.0, 3.0, 4.0)
    ):
        box = SearchBox((0.0,) * 3, (20.0,) * 3, (repeats,) * 3)
        positions = np.zeros((40_000, columns), dtype)
        grid = box.grid(len(positions), cutoff, in_steps=True)
        few = box.grid(1000, cutoff, in_steps=True)  # whose launches are fewer too
        for given, cells in ((positions[:1000], few), (positions, grid)):
            plan = Plan(
                device, CountingSortSearch, given, box, cells, cutoff,
                half=half, in_cells=False, capacity=None,
            )  # fmt: skip
        for writes in (0, 1):
            plan.kernel("find_blocks", WRITES=writes)
        CellPlan(device, "counting-sort", positions, TILTED, cutoff, skin=0.0, half=half)
        for given in (positions, positions[:30_000]):  # a thread for each, and several
            tilted = tilted_plan(device, "counting-sort", given, LONG, cutoff, 0.0, half)
            assert tilted is not None
            tilted.count_only(given, np.zeros(len(given), np.int32))
        for cell in (np.zeros((3, 3)), np.eye(3) * cutoff):  # whose bits are kept, or too many
            systems = Batch(np.array([0, 40_000]), cell[None])
            BatchPlan(device, positions, systems, cutoff, half)
        for name in (
            "has_moved", "write_pairs", "write_geometry", "write_shifts", "write_image_geometry",
            "write_image_shifts", "block_keys", "place_packed", "keep", "keep_in_cell",
            "write_shifted_geometry", "write_cell_shifts", "write_cell_geometry",
        ):  # fmt: skip
            plan.kernel(name)
    names = ("write_keys", "read_keys", "rank_images", "write_matrix", "pack_pairs")
    for name, has_images in itertools.product(names, (False, True)):
        kernel(device, name, has_images)
    for has_images, limits, real in itertools.product((False, True), range(4), ("float", "double")):
        kernel(device, "keep_pairs", has_images, limits, real)


def make_algorithm(cls: type[Algorithm], device: Recorder) -> None:
    """Make an algorithm in all its forms and variants, on inputs of every size."""
    make: Any = cls
    forms = [form for form, found in make.forms.items() if found.requires <= device.features]
    problem = problems.problems()[make.family]
    blanks = itertools.chain.from_iterable(map(problem.blanks, SIZES))
    for form, variant, inputs in itertools.product(forms, make.variants, blanks):
        with suppress(NotSupported):
            make(device, form=form, parameters=variant, **inputs.made_for).load(inputs)


class LoneTeam:
    """The team of a single rank that acts as if there were a second one."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.ranks = SimpleNamespace(rank=0, size=2)
        self.comm = self
        self.transport = SimpleNamespace(mailbox_kind=Mailboxes, mailboxes=lambda *kinds: None)

    def Dup(self) -> LoneTeam:  # noqa: N802
        """Return a stand-in for a communicator."""
        return self

    def announce(self, *arguments: Any) -> None:
        """Do nothing: there is no other rank."""

    def agree(self, work: Callable[[], Any]) -> Any:
        """Run `work`: there is no other rank to agree with."""
        return work()


def make_shared_workloads(device: Recorder) -> None:
    """Make distributed workloads, and the kernels that draw."""
    device.team = LoneTeam(device)
    for workload, decomposition, (name, form) in itertools.product(
        (w for w in registry.workloads().values() if issubclass(w, tuple(PHYSICS))),
        DECOMPOSITIONS,
        (("counting-sort", "order"), ("hash-grid", "original")),
    ):
        cells = registry.find_algorithm(name)
        assert issubclass(cells, CellList)
        with suppress(NotSupported):
            made = share(workload, decomposition, device, cells)(
                device, WORKLOAD_SIZE, cells, form, {}, seed=1
            )
            if isinstance(made, SPH):
                made.picture.clear()


def make_workloads(device: Recorder) -> None:
    """Make every workload with every cell list algorithm, with and without a skin."""
    for workload, algorithm in itertools.product(
        registry.workloads().values(), registry.algorithms().values()
    ):
        if not issubclass(algorithm, CellList):
            continue
        for form, variant, skin in itertools.product(
            algorithm.forms, workload.variants, (0.0, 0.3)
        ):
            if variant and skin:
                continue
            with suppress(NotSupported):
                workload(device, WORKLOAD_SIZE, algorithm, form, variant, seed=1, skin=skin)
