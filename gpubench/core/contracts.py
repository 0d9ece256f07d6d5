"""What an algorithm is given and what it must return.

Arrays are those of a device: with `shape`, `dtype` and `nbytes`, and downloadable by their device.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import numpy as np

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.algorithm import BACKENDS, Algorithm, Form
from gpubench.core.answers import (
    HashedCells,
    LimitedCells,
    LinkedCells,
    Neighbours,
    Noise,
    SortedCells,
)
from gpubench.core.host_work import HostWork
from gpubench.core.tasks import task_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpubench.core.grid import Grid
    from gpubench.devices.base import Device
    from gpubench.inputs import PairSet, ParticleSet


def forms_for(task: str, forms: Mapping[str, Form], backend: str) -> list[str]:
    """Return those forms of a neighbour search that do a task and need no other back end."""
    others = BACKENDS - {backend}
    return [
        name for name, form in forms.items() if task_of(name) == task and not form.requires & others
    ]


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
