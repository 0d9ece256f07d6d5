"""What an algorithm is given and what it must return.

Arrays are those of a device: with `shape`, `dtype` and `nbytes`, and downloadable by their device.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import numpy as np

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.answers import (
    HashedCells,
    LimitedCells,
    LinkedCells,
    Neighbours,
    Noise,
    SortedCells,
)
from gpubench.core.host_work import HostWork
from gpubench.core.poison import arrays_of, poison
from gpubench.core.tasks import task_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpubench.core.grid import Grid
    from gpubench.devices.base import Device
    from gpubench.inputs import PairSet, ParticleSet

BACKENDS = frozenset({"cuda", "opencl"})


@dataclass(frozen=True)
class Form:
    """One way to run an algorithm.

    summary: one line for people.
    requires: device features it needs, e.g. {"cuda"}.
    capturable: False where the host reads something back, which no CUDA graph can hold.
    reorders: whether positions come back in cell order.
    stable: whether a filter keeps the records in their order.
    halves: 2 where a filter keeps the null records too, apart from the others.
    allocates: whether a library allocates for itself in a launch, which counts as its work.
    """

    summary: str
    requires: frozenset[str] = frozenset()
    capturable: bool = True
    reorders: bool = False
    stable: bool = True
    halves: int = 1
    allocates: bool = False


def forms_for(task: str, forms: Mapping[str, Form], backend: str) -> list[str]:
    """Return those forms of a neighbour search that do a task and need no other back end."""
    others = BACKENDS - {backend}
    return [
        name for name, form in forms.items() if task_of(name) == task and not form.requires & others
    ]


class Algorithm(ABC):
    """An algorithm made for one device and one size of input, in one of its forms.

    Making it allocates and compiles everything. ``launch`` only launches: no allocation, no
    copy, no compilation; it is what gets timed. Libraries that allocate whenever they are called
    say so in their form.

    launches: how many times ``launch`` does the work; reported times and traffic are of one.
    library: name and version of whose work it is, where it is not ours.
    answers_once_loaded: whether there is an answer to check before the first launch.
    conformance_parameters: what differs from the defaults where the conformance suite is run,
        for an algorithm that by default must not answer all of it.
    variants: sets of parameters between which kernels differ; `make kernels` compiles all.
    replaces: of an update, the algorithm that builds from nothing what it updates.
    loses: the name in `outcome` of how much the answer lacks, for what may lose a part of it.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    forms: ClassVar[Mapping[str, Form]]
    defaults: ClassVar[Mapping[str, int]] = {}
    launches: int = 1
    library: str | None = None
    answers_once_loaded: ClassVar[bool] = False
    conformance_parameters: ClassVar[Mapping[str, int]] = {}
    variants: ClassVar[Sequence[Mapping[str, int]]] = ({},)
    replaces: ClassVar[str | None] = None
    loses: ClassVar[str | None] = None

    def __init__(self, device: Device, form: str, parameters: Mapping[str, int]) -> None:
        self.device = device
        self.form = form
        self.parameters = {**self.defaults, **parameters}
        self.workspace_bytes = 0

    @classmethod
    def declared(cls, form: str) -> dict[str, str | None]:
        """Return the fields of results that describe a form: reading them needs no algorithm.

        problem: what is asked. task: how far a search goes, see TASKS. answer: the kind of answer;
        only what has the same problem, task and answer does equal work. replaces, loses: as above.
        """
        task, answer = cls.task_and_answer(form)
        return {
            "problem": cls.family,
            "task": task,
            "answer": answer,
            "replaces": cls.replaces,
            "loses": cls.loses,
        }

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task of a form and the kind of its answer; None where there is only one."""
        return None, None

    def prepare(self) -> None:  # noqa: B027  # an algorithm may need nothing
        """Allocate all arrays and make all kernels; called once, with everything else set.

        Raises UserError for bad parameters, NotSupported where the device lacks something.
        """

    @abstractmethod
    def load(self, inputs: Any) -> None:
        """Bring an input of the family's kind to the device; not timed."""

    @abstractmethod
    def launch(self) -> None:
        """Do the work that is timed."""

    @property
    def answer(self) -> Any:
        """The answer of the last launch: the dataclass of arrays that the family prescribes."""
        raise NotImplementedError(f"{self.name} has no answer")

    def poison(self) -> None:
        """Queue overwriting the answer with values that no right answer contains; not timed.

        A launch must make all of it again: this comes before each launch whose answer is checked
        after timing, and an answer that is right without that launch is refused. By default the
        arrays of `answer` are filled. An algorithm that makes `answer` of something else when it
        is asked overwrites that instead, such that `answer` can still be read.
        """
        poison(self.device, *arrays_of(self.answer))

    @abstractmethod
    def traffic_bytes(self) -> int | None:
        """Return the fewest bytes that the work had to move through device memory, done once.

        None where no model exists.
        """

    @property
    def no_graph(self) -> str | None:
        """Say why no graph can hold a launch, or return None if one can."""
        form = self.forms[self.form]
        if form.allocates:
            return "its library allocates while it works, in memory that no CUDA graph would own"
        if form.capturable:
            return None
        return "the host reads a value back in the middle, which no CUDA graph can hold"

    def outcome(self) -> dict[str, int | float | str]:
        """Return what the last launch reports beside its answer, e.g. its round count."""
        return {}

    def level_steps(self) -> list[tuple[int, str, Callable[[], None]]]:
        """Return what a launch that goes level by level queues: on which level, what, and how.

        The queued work repeats the last launch. Empty where a launch has no levels.
        """
        return []

    def peak_bytes(self) -> int | None:
        """Return the most device memory that the work took, where not all is `workspace_bytes`.

        That is where a library allocates for itself; host memory for what works on the host.
        """
        return None

    def download(self, array: Any) -> NDArray[Any]:
        """Return an array of the answer on the host, when it is complete."""
        return self.device.download(array)

    def allocate(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        """Allocate a device array and count it as this algorithm's memory."""
        array = self.device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array


class ParticleAlgorithm(Algorithm):
    """An algorithm over particles, made for their number and their grid."""

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        super().__init__(device, form, parameters)
        self.particles = particles
        self.grid = grid
        self.prepare()


class CellList(ParticleAlgorithm):
    """An algorithm that sorts particles into the cells of a grid.

    It starts from cell ids, as the paper's Listing 1 does (``a[N]``); ``load`` computes them
    on the device from the positions.
    """

    family: ClassVar[str] = "cell-list"

    cell_of: Any
    positions: Any

    def load(self, inputs: ParticleSet) -> None:
        """Upload positions, float32 (particles, 4), and compute their cell ids on the device."""
        from gpubench.primitives.cell_ids import CellIds

        self.positions = self.device.upload(inputs.positions)
        self.cell_of = self.device.empty(self.particles, "int32")
        CellIds(self.device, self.grid).launch(self.positions, self.cell_of)

    def launch(self) -> None:
        """Build the cell list of the loaded input."""
        self.build(self.cell_of, self.positions)

    @abstractmethod
    def build(self, cell_of: Any, positions: Any) -> None:
        """Build the cell list.

        cell_of: int32, shape (particles,), each in [0, cells).
        positions: float32, shape (particles, 4); read only by forms that reorder.
        """

    @property
    def reads_cells(self) -> bool:
        """Whether `build` reads the cell ids; a search need not compute them for another."""
        return True

    @property
    @abstractmethod
    def answer(self) -> LinkedCells | SortedCells | LimitedCells | HashedCells:
        """The cell list that the last ``build`` made; overwritten by the next."""

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """No task; linked, sorted and limited cells are answers of different use."""
        words = {LinkedCells: "linked", SortedCells: "sorted", LimitedCells: "limited"}
        return None, words.get(cls.shape())

    @classmethod
    def shape(cls) -> type:
        """Return which of the shapes ``answer`` has, as it declares."""
        getter = inspect.getattr_static(cls, "answer").fget
        shape: type = get_type_hints(getter)["return"]
        return shape


class CellListUpdate(CellList):
    """An algorithm that brings a cell list up to date after particles have moved.

    One launch re-sorts twice, to the state after the move and back, so that it can be repeated
    and recorded; ``build`` makes the list that it starts from.

    states: cell ids and positions of each state of the input, on the device, oldest first.
    cell_of, positions: those of the state that the list is of.
    """

    family: ClassVar[str] = "cell-list-update"
    launches: int = 2
    answers_once_loaded: ClassVar[bool] = True

    states: list[tuple[Any, Any]]

    def load(self, inputs: ParticleSet) -> None:
        """Upload the input with the states before it, and build the list of the oldest."""
        self.states = []
        for state in inputs.history:
            super().load(state)
            self.states.append((self.cell_of, self.positions))
        self.cell_of, self.positions = self.states[0]
        self.build(self.cell_of, self.positions)

    def launch(self) -> None:
        """Re-sort to the newest state, then back to the oldest."""
        self.move_to(*self.states[-1])
        self.move_to(*self.states[0])

    def move_to(self, cell_of: Any, positions: Any) -> None:
        """Update the list to a state, and remember which one it is of."""
        self.update(cell_of, positions)
        self.cell_of, self.positions = cell_of, positions

    def poison(self) -> None:
        """Re-sort to the newest state: a launch works on its answer, and ends in the oldest."""
        self.move_to(*self.states[-1])

    @abstractmethod
    def update(self, cell_of: Any, positions: Any) -> None:
        """Re-sort the present list, which is of `self.cell_of`, to other cell ids.

        cell_of: int32, shape (particles,), each in [0, cells).
        positions: float32, shape (particles, 4); read only by forms that reorder.
        """


class NeighbourSearch(ParticleAlgorithm):
    """An algorithm from positions to neighbours; a form begins with the name of its task (TASKS).

    Neighbours are strictly nearer than `cutoff`, the shortest edge of the grid's cells, each pair
    appears from both sides, and no particle is its own neighbour. Nothing else about the grid's
    cells matters: a search may divide space as it likes.

    One launch of an `update` goes to the newest state of the particles and back, as those of
    `CellListUpdate` do; all other tasks start from the positions of the newest state.

    finds_images: whether it looks across periodic walls; a search that does not refuses such grids.
    tests_all_pairs: whether its work grows with the square of the number of particles.
    """

    family: ClassVar[str] = "neighbour-search"
    finds_images: ClassVar[bool] = True
    tests_all_pairs: ClassVar[bool] = False

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        self.task = task_of(form)
        self.cutoff = min(grid.cell_size)
        if self.task == "update":
            self.launches = 2
        if any(p and n < 3 for p, n in zip(grid.periodic, grid.cells, strict=True)):
            raise UserError(
                f"a periodic axis needs at least 3 cells for neighbours, this grid is"
                f" {grid.cells}: use smaller cells or a larger box"
            )
        if any(grid.periodic) and not self.finds_images:
            raise NotSupported(f"{self.name} finds no images across periodic walls: use open ones")
        super().__init__(device, particles, grid, form, parameters)

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task; it says what the answer is."""
        return task_of(form), None

    @property
    def answer(self) -> Neighbours:
        """What the last launch found; for `build`, what a query finds in the structure.

        An update has ended in the oldest state.
        """
        return self.neighbours()

    @abstractmethod
    def neighbours(self) -> Neighbours:
        """Return the `answer`, see above."""

    def poison(self) -> None:
        """Overwrite the answer; a search that only builds overwrites what it built."""
        if self.task == "build":
            raise NotImplementedError(
                f"{self.name} must overwrite what it built: define poison(), see"
                " contracts.Algorithm"
            )
        super().poison()

    def move_to(self, state: int) -> None:
        """Update the structure to a state of the input, 0 for the oldest, and count."""
        raise NotImplementedError(f"{self.name} updates nothing")


class HostSearch(HostWork, NeighbourSearch):
    """A neighbour search that works on the host, beside the device whose events time it.

    xyz: float32, shape (particles, 3), the loaded positions.
    """

    xyz: NDArray[np.float32]

    def load(self, inputs: ParticleSet) -> None:
        """Keep the positions, without their fourth component."""
        self.xyz = np.ascontiguousarray(inputs.positions[:, :3])

    def launch(self) -> None:
        """Wait until the device is idle, then work."""
        self.device.synchronize()
        self.work()

    @abstractmethod
    def work(self) -> None:
        """Search the loaded positions; return when it is done."""


class PairNoise(Algorithm):
    """A generator of the random number that belongs to a pair of particles in a step.

    It depends on both ids, the step and the key, and is the same from either side of the pair. One
    launch draws it for each pair in `launches` successive steps; as with any work that a launch
    does several times, the time reported is of one.

    generator: which of `physics.noise.GENERATORS` it is, bit for bit.
    """

    family: ClassVar[str] = "pair-noise"
    launches: int = 8

    i: Any
    j: Any
    clock: Any

    def __init__(
        self, device: Device, pairs: int, form: str, parameters: Mapping[str, int]
    ) -> None:
        super().__init__(device, form, parameters)
        self.pairs = pairs
        self.prepare()

    def load(self, inputs: PairSet) -> None:
        """Upload ids, int32 (pairs,) each, and the clock of the first step, uint32 (4,)."""
        self.i, self.j, self.clock = map(self.device.upload, (inputs.i, inputs.j, inputs.clock))

    @property
    @abstractmethod
    def generator(self) -> str:
        """The name of the generator that this form is."""

    @property
    @abstractmethod
    def answer(self) -> Noise:
        """What the last launch drew, a row for each step; overwritten by the next."""
