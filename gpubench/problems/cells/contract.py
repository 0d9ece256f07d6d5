"""Contract of cell lists: the input and the answer of algorithms."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from gpubench.problems.particles.contract import ParticleAlgorithm

if TYPE_CHECKING:
    from gpubench.problems.particles.inputs import ParticleSet

NULL = -1  # ends a linked list, marks an empty cell: the paper's "/" (rozen2008, Figure 1)


@dataclass(frozen=True)
class LinkedCells:
    """Linked lists of the particles in each cell (rozen2008, Listing 1).

    head: int32, shape (cells,), the first particle of each cell; -1 if it is empty.
    next: int32, shape (particles,), the next particle in the same cell; -1 for the last one.
    empty_byte: the value of every byte of the arrays if there are no particles.
    """

    empty_byte: ClassVar[int] = 0xFF

    head: Any
    next: Any


@dataclass(frozen=True)
class SortedCells:
    """Particles sorted by cell.

    start: int32, shape (cells + 1,); cell c holds order[start[c]:start[c + 1]].
    order: int32, shape (particles,), a permutation of the particles.
    positions: float32, shape (particles, 4), the input's positions[order], all four components;
        or None if the form does not reorder.
    empty_byte: as in LinkedCells.
    """

    empty_byte: ClassVar[int] = 0x00

    start: Any
    order: Any
    positions: Any = None


@dataclass(frozen=True)
class LimitedCells:
    """Cells of limited capacity, which lose the particles that do not fit.

    count: int32, shape (cells,), the number of particles in each cell, kept or not.
    slots: int32, shape (cells, capacity); the first min(count[c], capacity) of slots[c] are
        particles of cell c, the rest is undefined.
    lost: int32, shape (1,), the number of particles in no slot.
    allow_overflow: whether an answer that lost particles is accepted.
    empty_byte: as in LinkedCells.
    """

    empty_byte: ClassVar[int] = 0x00

    count: Any
    slots: Any
    lost: Any
    allow_overflow: bool = False


@dataclass(frozen=True)
class HashedCells:
    """Particles sorted by bucket of a hash table (silva2012, section 5, Figure 4).

    bounds: int32, shape (buckets, 2); bucket b holds order[bounds[b, 0]:bounds[b, 1]], and both
        bounds are -1 if it is empty. A bucket may hold particles of several cells.
    order: int32, shape (particles,), a permutation of the particles.
    positions: float32, shape (particles, 4), positions[order].
    corner: int32, shape (3,), the coordinates of the cell hashed as (0, 0, 0).
    empty_byte: as in LinkedCells.
    """

    empty_byte: ClassVar[int] = 0x00

    bounds: Any
    order: Any
    positions: Any
    corner: Any


class CellList(ParticleAlgorithm):
    """An algorithm that sorts particles into the cells of a grid.

    Like Listing 1 of rozen2008 (``a[N]``), it starts from cell ids, which ``load`` computes on the
    device from the positions.
    """

    family: ClassVar[str] = "cell-list"

    cell_of: Any
    positions: Any

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions, float32 (particles, 4), and compute cell ids on the device."""
        from gpubench.problems.particles.cell_ids import CellIds

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
        """Whether `build` reads the cell ids; if not, a search need not compute them."""
        return True

    @property
    @abstractmethod
    def answer(self) -> LinkedCells | SortedCells | LimitedCells | HashedCells:
        """The cell list of the last ``build``; overwritten by the next."""

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return None as the task, and the kind of answer, which is None for hashed cells."""
        words = {LinkedCells: "linked", SortedCells: "sorted", LimitedCells: "limited"}
        return None, words.get(cls.shape())

    @classmethod
    def shape(cls) -> type:
        """Return the class of ``answer``, from its annotation."""
        getter = inspect.getattr_static(cls, "answer").fget
        shape: type = get_type_hints(getter)["return"]
        return shape


class CellListUpdate(CellList):
    """An algorithm that updates a cell list after particles have moved.

    A launch updates the list twice, to the newest state and back, so that launches can be repeated
    and recorded in graphs; ``build`` makes the initial list.

    states: cell ids and positions of each state of the input, on the device, oldest first.
    cell_of, positions: cell ids and positions of the list's current state.
    """

    family: ClassVar[str] = "cell-list-update"
    needs: ClassVar[Mapping[str, Any]] = {"periodic": True, "destination": "step"}
    launches: int = 2
    answers_once_loaded: ClassVar[bool] = True

    states: list[tuple[Any, Any]]

    def load(self, inputs: ParticleSet) -> None:
        """Upload all states of the input, and build the list of the oldest."""
        self.states = []
        for state in inputs.history:
            super().load(state)
            self.states.append((self.cell_of, self.positions))
        self.cell_of, self.positions = self.states[0]
        self.build(self.cell_of, self.positions)

    def launch(self) -> None:
        """Update the list to the newest state, then back to the oldest."""
        self.move_to(*self.states[-1])
        self.move_to(*self.states[0])

    def move_to(self, cell_of: Any, positions: Any) -> None:
        """Update the list to a state, and record it as the current one."""
        self.update(cell_of, positions)
        self.cell_of, self.positions = cell_of, positions

    def poison(self) -> None:
        """Update to the newest state, so that the next launch cannot find its answer ready."""
        self.move_to(*self.states[-1])

    @abstractmethod
    def update(self, cell_of: Any, positions: Any) -> None:
        """Update the current list, made for `self.cell_of`, to new cell ids.

        cell_of: int32, shape (particles,), each in [0, cells).
        positions: float32, shape (particles, 4); read only by forms that reorder.
        """
