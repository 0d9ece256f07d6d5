"""Particles in a box, kept in cells by any algorithm: the base of all workloads over cells.

Each step rebuilds or updates the cells; with a skin, neighbour lists are kept instead, until a
particle has moved half the skin. If the algorithm sorts, particles are stored in cell order.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms.hash_grid import HashGrid
from gpubench.base.errors import UserError
from gpubench.base.threads import put, stable_order, take
from gpubench.core.poison import empty
from gpubench.devices.base import Device, Graph
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box
from gpubench.physics.motion import rows_of
from gpubench.problems.cells.contract import (
    CellList,
    CellListUpdate,
    HashedCells,
    LimitedCells,
    LinkedCells,
    SortedCells,
)
from gpubench.workloads.cell_hash import CellHash
from gpubench.workloads.parameters import require_size
from gpubench.workloads.workload import BlowUp, State, Value, Workload, drawn

BLOCK = 128
# Values of TRAVERSAL in kernels/common/candidates.h.
TRAVERSALS = {SortedCells: 0, LinkedCells: 1, LimitedCells: 2, HashedCells: 4}
LISTED = 3
# Neighbours that a thread collects before it computes their forces; GPU threads have less room.
DEFERRED, DEFERRED_ON_CPU = 24, 48
PARTS = 3  # sorted cells per reach along x
LIST_MARGIN = 2.5  # capacity of a neighbour list, relative to the mean length
ROOM_STEP = 32
STEPS_PER_GRAPH = 2  # even: a graph must leave double-buffered arrays as it found them


class InCells(Workload):
    """A workload whose state consists of a position ("place") and some columns per particle.

    A place is (x, y, z, id), uint32, in units of the box (see physics/box.py). Each column is
    float32 (particles, 4). Arrays hold the bits of places as float32, as algorithms expect.

    columns: the names of at most two columns. box: the box. reach: maximum distance of neighbours.
    flat: axes along which nothing moves. origin_cell: the cell of the origin, for hashed cells.
    """

    columns: tuple[str, ...]
    box: Box
    reach: float
    flat: tuple[int, ...] = ()
    origin_cell: tuple[int, int, int] = (0, 0, 0)
    coarsely: tuple[Any, ...] = ()  # if cells are sorted: (packed box, array of coarse places)
    _is_built = False  # whether valid cells exist
    common: ClassVar[Mapping[str, Value]] = {}

    def __init__(
        self,
        device: Device,
        particles: int,
        algorithm: type[CellList],
        form: str,
        parameters: Mapping[str, Value],
        seed: int,
        skin: float = 0.0,
    ) -> None:
        self.device, self.particles, self.seed, self.skin = device, particles, seed, skin
        of_algorithm = {n: int(v) for n, v in parameters.items() if n in algorithm.defaults}
        self.parameters = {**self.defaults, **parameters}
        self._require_sensible()
        rng = np.random.default_rng(seed)
        self._shape = algorithm.shape()
        self.is_hashed = self._shape is HashedCells
        self.set_up(rng)
        self._parts = PARTS if self._shape is SortedCells else 1
        self.grid = self.box.grid(self.reach + skin, self._parts, hashed=self.is_hashed)
        self.workspace_bytes = 0
        self._keep_in(algorithm, form, of_algorithm)
        given = sorted(self.parameters.items())
        alike = type(self), self.is_hashed, particles, seed, skin, *given
        begin = drawn(alike, lambda: self.draw(rng))
        self.restore({"step": np.array(0, np.int64), **begin})
        self._prepare_kernels()

    @abstractmethod
    def set_up(self, rng: np.random.Generator) -> None:
        """Set box, reach, columns, flat, and everything else derived from the parameters."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Return the initial places and columns; see `numbered`."""

    @abstractmethod
    def work(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the phases of a step after the cells are found; the last calls `stepped`."""

    @abstractmethod
    def compare(self, before: State, after: State) -> str | None:
        """Compare the states before and after a step with a float64 reference; return any error.

        The device arrays still hold the results of the step.
        """

    def numbered(self, positions: Floats) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
        """Return places, numbered in cell order, and the permutation that sorts the positions."""
        units = self.box.to_units(positions)
        order = stable_order(self.box.cell_numbers(units, self.reach))
        ids = np.arange(self.particles, dtype=np.uint32)
        return np.column_stack([units[order], ids]), order

    def cell_by_id(self) -> NDArray[np.int64]:
        """Return the cell of each particle, in order of their ids, int64, shape (particles,).

        These cells are at least as long as the reach, whichever cells the algorithm uses.
        """
        places = self.device.download(self.places).view(np.uint32)
        return take(self.box.cell_numbers(places, self.reach), rows_of(places[:, 3]))

    def number(self, name: str) -> float:
        """Return a numeric parameter."""
        return float(self.parameters[name])

    def share(self, name: str) -> float:
        """Return a parameter that is a fraction between 0 and 1."""
        value = self.number(name)
        if not 0 <= value <= 1:
            raise UserError(f"{name} must be 0 to 1, not {value:g}")
        return value

    def advance(self, steps: int) -> None:
        left = steps
        while left > 0:
            if left >= STEPS_PER_GRAPH and self._replays():
                assert self._graph is not None
                self._graph.launch()
                self.step += STEPS_PER_GRAPH
                left -= STEPS_PER_GRAPH
                continue
            self.plain_steps(1)
            left -= 1

    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        if self.skin == 0:
            return [("cell ids", self._find_cells), ("sort", self._sort), *self.work()]
        return [
            ("test", self._test),
            ("cell ids", self._if_stale(self._find_cells)),
            ("sort", self._if_stale(self._sort)),
            ("lists", self._if_stale(self._make_lists)),
            *self.work(),
        ]

    def stepped(self) -> None:
        """Note that a step has been queued."""
        if self.skin > 0:
            # The step wrote the state, in the order of the lists; the next step reads it there.
            self.current = [self.places, *self.state_columns]
        self.step += 1

    def check(self) -> str | None:
        self.count_steps()
        before = self.state()
        self.plain_steps(1)
        try:
            self.require_sound()
        except BlowUp as error:
            return str(error)
        return self.compare(before, self.state())

    def require_sound(self) -> None:
        flag, low, high, particle = (int(word) for word in self.device.download(self.fault))
        if flag:
            step = low % 2**32 + (high << 32)
            if particle < 0:
                raise BlowUp(
                    f"step {step}: particle {~particle} would leave the world, whose edges are"
                    f" {', '.join(f'{edge:g}' for edge in self.box.size)} long"
                )
            raise BlowUp(
                f"step {step}: particle {particle} would move further than a cell, or nowhere:"
                f" make the time step smaller than {self.time_step:g}"
                " (--parameter time_step=...), or the forces weaker"
            )
        answer = self.algorithm.answer if self._is_built else None
        if isinstance(answer, LimitedCells) and (lost := int(self.device.download(answer.lost)[0])):
            raise BlowUp(
                f"step {self.step}: {self.algorithm.name} has no room for {lost} particles:"
                " choose another algorithm"
            )
        if self.skin > 0 and int(self.device.download(self._counts).max(initial=0)) > self._room:
            raise BlowUp(
                f"step {self.step}: a particle has more than {self._room} neighbours:"
                " choose a smaller skin, or 0"
            )

    def state(self) -> dict[str, NDArray[Any]]:
        download = self.device.download
        return {
            "step": np.array(self.step, np.int64),
            "places": download(self.places).view(np.uint32),
            **{
                name: download(column)
                for name, column in zip(self.columns, self.state_columns, strict=True)
            },
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        device = self.device
        self.require_fitting(state)
        self.step = int(state["step"])
        device.write(self.places, state["places"].view(np.float32))
        for name, column in zip(self.columns, self.state_columns, strict=True):
            device.write(column, state[name])
        self._set_clock()
        # A cell list must be built before it can be updated; neighbour lists must be rebuilt.
        self._is_built = False
        device.fill(self.stale, 0xFF)
        self.current = [self.places, *self.state_columns]

    def _set_clock(self) -> None:
        """Upload the step and the seed, and clear faults."""
        clock = [self.step % 2**32, self.step >> 32, self.seed % 2**32, self.seed >> 32]
        self.device.write(self.clock, np.array([clock, clock], np.uint32))
        self.device.fill(self.fault, 0x00)

    def require_fitting(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Raise UserError for a state of another workload."""
        rows = (self.particles, 4)
        columns = {name: (rows, np.dtype(np.float32)) for name in self.columns}
        expected = {
            "step": ((), np.dtype(np.int64)), "places": (rows, np.dtype(np.uint32)), **columns
        }  # fmt: skip
        if {name: (array.shape, array.dtype) for name, array in state.items()} != expected:
            raise UserError(f"this is no state of {self.name} with {self.particles} particles")

    def poison(self) -> None:
        """Clear neighbour lists and cells, except cells that the next step updates."""
        if self.skin > 0:
            self.device.fill(self._counts, 0x00)
            self.device.fill(self.stale, 0xFF)
        elif isinstance(self.algorithm, CellListUpdate):
            return
        empty(self.device, self.algorithm.answer)

    def require_possible(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.require_fitting(state)
        places = state["places"]
        if state["step"] < 0:
            raise UserError(f"a state of {self.name} has a step below 0")
        if (places[:, :3].max(axis=0) >= self.box.units).any():
            raise UserError(f"a state of {self.name} has particles outside its box")
        is_there = np.zeros(self.particles, np.bool_)
        is_there[places[places[:, 3] < self.particles, 3]] = True
        if not is_there.all():
            raise UserError(f"a state of {self.name} lacks particle {int(is_there.argmin())}")
        for name in self.columns:
            if not np.isfinite(state[name][:, :3]).all():
                raise UserError(f"a state of {self.name} has {name} that are no finite numbers")

    def count_steps(self) -> None:
        low, high = self.device.download(self.clock)[0, :2]
        self.step = int(low) + (int(high) << 32)

    @property
    def number_density(self) -> float:
        """Particles per unit of volume (area in two dimensions) of the occupied region."""
        edges = (edge for axis, edge in enumerate(self.box.size) if axis not in self.flat)
        return self.particles / math.prod(edges)

    @property
    def blocks(self) -> int:
        """Blocks of a launch with one thread per particle."""
        return self.device.blocks(self.particles, BLOCK)

    @property
    def constants(self) -> dict[str, int | str]:
        """The compile-time constants of a step's kernels."""
        return {
            **self._traversal(LISTED if self.skin > 0 else TRAVERSALS[self._shape]),
            "KEEP": int(self.skin > 0),
            "SCATTER": int(self.scatters),
            "DEFER": DEFERRED_ON_CPU if self.device.is_cpu else DEFERRED,
        }

    def _traversal(self, traversal: int) -> dict[str, int | str]:
        """Return the compile-time constants of kernels that visit a particle's candidates.

        Constants that a traversal does not use have fixed values, so that binaries are shared.
        """
        return {
            "BLOCK": BLOCK,
            "TRAVERSAL": traversal,
            "REACH": self._parts if traversal == TRAVERSALS[SortedCells] else 1,
            "CAPACITY": self._capacity if traversal == TRAVERSALS[LimitedCells] else 0,
            "ROOM": self._room,
            "LIST_BY_PARTICLE": int(self.device.is_cpu),
            **(self.algorithm.constants if self.is_hashed else {}),  # type: ignore[attr-defined]
        }

    @property
    def candidates(self) -> tuple[Any, Any]:
        """The two arrays by which kernels find the candidates of a particle."""
        return (self._counts, self._lists) if self.skin > 0 else self._cells

    @property
    def order(self) -> Any:
        """The state row of each particle in cell order, if `scatters`; else an unused array."""
        return self._cells[1] if self.scatters else self._cell_of[0]

    def by_id(self, column: Any) -> NDArray[Any]:
        """Download an array of the last step, ordered like `current`, and sort it by id."""
        ids = self.device.download(self.places).view(np.uint32)[:, 3]
        return take(self.in_place(column), rows_of(ids))

    def in_place(self, column: Any) -> NDArray[np.float32]:
        """Download an array of the last step, ordered like `current`; return it in state order."""
        found: NDArray[np.float32] = self.device.download(column)
        return put(found, self.device.download(self.order)) if self.scatters else found

    def array(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        """Allocate a device array and count it as this workload's memory."""
        array = self.device.empty(shape, dtype)
        self.workspace_bytes += array.nbytes
        return array

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        """Construct the algorithm that maintains the cells, and the arrays that depend on it."""
        self.algorithm = algorithm(self.device, self.particles, self.grid, form, parameters)
        if not self.algorithm.reads_cells:
            raise UserError(
                f"{algorithm.name} {form} computes cells from float32 positions here, and this"
                " workload's are whole numbers"
            )
        self._allocate()
        self._allocate_for_shape()
        self._allocate_lists()

    def _require_sensible(self) -> None:
        if self.particles < 1:
            raise UserError(f"a simulation needs particles, not {self.particles}")
        for name, value in self.parameters.items():
            require_size(name, value)
        self.time_step = self.number("time_step")
        if not 0 < self.time_step < math.inf:
            raise UserError(f"time_step must be positive and finite, not {self.time_step}")
        if not (self.skin >= 0 and math.isfinite(self.skin)):
            raise UserError(f"the skin must be 0 or positive, not {self.skin}")
        if not 0 <= self.seed < 2**64:
            raise UserError(f"the seed must be 0 to 2^64 - 1, not {self.seed}")

    def _allocate(self) -> None:
        n, device = self.particles, self.device
        self.places = self.array((n, 4), "float32")
        self.state_columns = [self.array((n, 4), "float32") for _ in self.columns]
        self._cell_of = [self.array(n, "int32") for _ in range(2)]
        self.clock = self.array((2, 4), "uint32")
        self.fault, self.stale = self.array(4, "int32"), self.array(1, "int32")
        buckets = self.algorithm.buckets if isinstance(self.algorithm, HashGrid) else 1
        packed = self.box.packed(self.grid, self.reach, buckets)
        self.packed_box = device.upload(packed.view("uint8"))
        self._graph: Graph | None = None
        self._graph_cells: Any = None

    def _allocate_for_shape(self) -> None:
        """Allocate the arrays that hold particles in cell order, if the cells are sorted."""
        n, is_sorted = self.particles, self._shape in (SortedCells, HashedCells)
        form = self.algorithm.forms[self.algorithm.form]
        self._reorders = is_sorted and form.reorders
        # An updated cell list refers to particles by index, so each step scatters the state back.
        self.scatters = is_sorted and isinstance(self.algorithm, CellListUpdate) and self.skin == 0
        rows = n if is_sorted else 0
        self._sorted_columns = [self.array((rows, 4), "float32") for _ in self.columns]
        self._sorted_places = self.array((0 if self._reorders else rows, 4), "float32")
        self._capacity = 0
        if self._shape is LimitedCells:
            slots = self.algorithm.answer.slots  # type: ignore[union-attr]
            self._capacity = int(slots.shape[1])

    def _allocate_lists(self) -> None:
        """Allocate neighbour lists with LIST_MARGIN times the mean number of neighbours."""
        listed = self.particles if self.skin > 0 else 0
        reach = self.reach + self.skin
        ball = math.pi * reach**2 if self.flat else 4 / 3 * math.pi * reach**3
        room = LIST_MARGIN * ball * self.number_density + 16
        # Rounded up, so that similar inputs share compiled kernels.
        self._room = ROOM_STEP * math.ceil(room / ROOM_STEP) if listed else 0
        self._counts = self.array(listed, "int32")
        self._lists = self.array(listed * self._room, "int32")
        self.since = self.array((listed, 4), "float32")

    def _prepare_kernels(self) -> None:
        constants = {
            **self._traversal(TRAVERSALS[self._shape]),
            "COLUMNS": len(self.columns),
            "GATHER_PLACES": int(not self._reorders),
            "COARSE": int(bool(self.coarsely)),
        }
        self._cell_ids, self._gather, self._list = (
            self.device.kernel("in_cells.cu", name, **constants)
            for name in ("cell_ids", "gather", "list_neighbours")
        )
        self._cell_hash = None
        if isinstance(self.algorithm, HashGrid):
            self._cell_hash = CellHash(self.device, self.algorithm, constants, self.origin_cell)

    def _replays(self) -> bool:
        """Record a graph of some steps if possible; return whether it can be replayed now."""
        form = self.algorithm.forms[self.algorithm.form]
        is_capturable = "graphs" in self.device.features and form.capturable and self.skin == 0
        if not is_capturable or not self._is_built:
            return False
        if self._graph is None:
            step, self._graph_cells = self.step, self._cells_in_use()
            self._graph = self.device.capture(partial(self.plain_steps, STEPS_PER_GRAPH))
            self.step = step
        return self._graph_cells is self._cells_in_use()

    def _cells_in_use(self) -> Any:
        """Return the double-buffered array of cell ids that the current list refers to."""
        return self.algorithm.cell_of if isinstance(self.algorithm, CellListUpdate) else None

    def _choose_cells(self) -> None:
        """Choose the array for the new cell ids; an update still needs the old ids."""
        first, second = self._cell_of
        turns = isinstance(self.algorithm, CellListUpdate) and self._is_built
        self._next_cells = second if turns and self.algorithm.cell_of is first else first

    def _find_cells(self) -> None:
        self._choose_cells()
        if self._cell_hash:
            self._cell_hash.launch(self.places, self._next_cells, self.packed_box)
            return
        self._cell_ids(
            self.blocks, BLOCK, self.places, self._next_cells, self.packed_box, self.particles
        )

    def _sort(self) -> None:
        algorithm, cells = self.algorithm, self._next_cells
        if isinstance(algorithm, CellListUpdate) and self._is_built and self.skin == 0:
            algorithm.move_to(cells, self.places)
        else:
            algorithm.build(cells, self.places)
            algorithm.cell_of, algorithm.positions = cells, self.places
        self._is_built = True
        answer = algorithm.answer
        if not isinstance(answer, SortedCells | HashedCells):
            return
        places = self._sorted_places if answer.positions is None else answer.positions
        self._gather(
            self.blocks, BLOCK, answer.order, self.places, self.state_columns[0],
            self.state_columns[-1], places, self._sorted_columns[0], self._sorted_columns[-1],
            self.particles, 0, *self.coarsely,
        )  # fmt: skip
        self.current = [places, *self._sorted_columns]

    @property
    def _cells(self) -> tuple[Any, Any]:
        match self.algorithm.answer:
            case SortedCells(start, order, _):
                return start, order
            case LinkedCells(head, following):
                return head, following
            case LimitedCells(count, slots):
                return count, slots
            case HashedCells(bounds, _, _, corner):
                return bounds, corner
        raise TypeError(f"{self.algorithm.name} makes no cells")

    def _test(self) -> None:
        """Read back whether the lists are still valid."""
        self._is_stale = bool(self.device.download(self.stale)[0])

    def _if_stale(self, work: Callable[[], None]) -> Callable[[], None]:
        def launch() -> None:
            if self._is_stale:
                work()

        return launch

    def _make_lists(self) -> None:
        places = self.current[0]
        self.device.copy(places, self.since)
        self._list(
            self.blocks, BLOCK, places, *self._cells, self.packed_box, self.reach + self.skin,
            self.particles, self._counts, self._lists,
        )  # fmt: skip
        self.device.fill(self.stale, 0x00)
