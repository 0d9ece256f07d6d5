"""SPH that several ranks share: each has some planes of cells, and borrows the planes beside them.

In memory a plane is one stretch, so what ranks exchange are rows of arrays. In each step the
edges of a part travel to its neighbours while its inner planes are computed: places for the
densities, then velocities and densities for the forces (silva2012, section 6, Algorithm 2). All
sums are exact, so any number of ranks gives the same trajectory to the bit.

`slab`: each rank keeps its particles, and hands those that cross over to its neighbours; planes
change hands when loads have drifted apart. `master`: rank 0 keeps all particles; in each step it
sorts them, deals out equal parts, and gets them back, as the paper has it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.contracts import CellList, CellListUpdate, SortedCells
from gpubench.devices.base import Device
from gpubench.errors import NotSupported, UserError
from gpubench.grid import Grid
from gpubench.parallel.slabs import cut, is_unbalanced, moves
from gpubench.parallel.team import Team, together
from gpubench.parallel.transport import Parcel
from gpubench.workloads.in_cells import BLOCK, InCells
from gpubench.workloads.sph import SPH, SPHKernels
from gpubench.workloads.workload import Value, Workload

if TYPE_CHECKING:
    Shares = SPH
else:
    Shares = object

SPARE = 1.1  # rows of a part, over the particles that it has when they are allocated
SPARE_EDGE = 1.5  # rows for a borrowed plane, likewise
LEAST = 256  # rows spare in any case
BALANCE_EVERY = 32  # steps
IMBALANCE = 0.03  # of the largest part over the mean, which planes change hands for
LOW, HIGH = 0, 1

Phase = tuple[str, Callable[[], None]]


class Shared(Shares):
    """What makes an SPH workload a shared one, before it among the bases.

    Particles are kept in `places` and `state_columns`, `owned` rows of them, and in the order of
    their cells from row `edge` on: the rows before and behind are for the planes borrowed from
    the neighbours below and above, of which `borrowed` are there.

    bounds: the planes of each rank: from bounds[rank] to before bounds[rank + 1].
    counts: particles in each plane of this rank.
    """

    team: ClassVar[Team]
    decomposition: ClassVar[str]
    owned: int
    bounds: NDArray[np.int64]
    counts: NDArray[np.int64]

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
        if device is not self.team.device:
            raise ValueError("a shared simulation runs on the device that its team has")
        self.team.announce(
            self, self.name, self.decomposition, particles, algorithm.name, form,
            dict(parameters), seed, skin,
        )  # fmt: skip

        def make() -> None:
            if algorithm.shape() is not SortedCells or issubclass(algorithm, CellListUpdate):
                raise NotSupported(
                    f"{algorithm.name} does not sort anew, which parts of a box need: choose an"
                    " algorithm that does, such as counting-sort"
                )
            if skin > 0:
                raise NotSupported("parts of a box keep no lists of neighbours: the skin must be 0")
            super(Shared, self).__init__(device, particles, algorithm, form, parameters, seed, skin)

        self.team.agree(make)

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self.team.ranks.rank

    @property
    @abstractmethod
    def kept(self) -> int:
        """Rows of the state that this rank has."""

    @property
    def planes(self) -> tuple[int, int]:
        """The first plane of this rank, and the first one after."""
        return int(self.bounds[self.rank]), int(self.bounds[self.rank + 1])

    @together
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self._own_phases():
                launch()

    def phases(self) -> list[Phase]:
        def launch(index: int) -> Callable[[], None]:
            return lambda: self.do_phase(index)

        return [(name, launch(i)) for i, (name, _) in enumerate(self._own_phases())]

    @together
    def do_phase(self, index: int) -> None:
        """Do one phase of a step; rank 0 goes through all of them in order."""
        self._own_phases()[index][1]()

    def require_sound(self) -> None:
        self.device.write(self.fault, np.array(self.faults(), np.int32))
        super().require_sound()

    @together
    def faults(self) -> list[int]:
        """Return the fault record of the rank that has one, else zeros."""
        found = self.team.comm.allgather(self.device.download(self.fault).tolist())
        return next((fault for fault in found if fault[0]), found[0])

    @together
    def count_steps(self) -> None:
        InCells.count_steps(self)

    @together
    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of all particles in rank 0, and of no particle elsewhere."""
        state: dict[str, NDArray[Any]] = {
            "step": np.array(self.step, np.int64),
            "places": self._collect(self.places, 0, self.kept).view(np.uint32),
            "velocities": self._collect(self.state_columns[0], 0, self.kept),
        }
        if self.bodies:
            state["bodies"] = self.on_device.download_states()
        return state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        if not hasattr(self, "bounds"):
            self._take(state)  # which every rank has drawn
            return
        self.require_fitting(state)
        self.take(dict(state))

    @together
    def take(self, state: dict[str, NDArray[Any]]) -> None:
        """Take a rank's part of a state that rank 0 gives."""
        self._take(state)

    @together
    def computed(self, name: str) -> NDArray[Any]:
        """Return `flow` or `force` of the last step in rank 0, in the order of the state."""
        return self._collect(getattr(self, name), self.edge, self.computed_rows)

    # How parts are made and kept.

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        self._algorithm_made = algorithm, form, parameters
        nx, ny, nz = self.grid.cells
        self._plane_cells = nx * ny
        box = self.grid
        # One plane more, for rows that hold nobody.
        self._grid_with_nowhere = Grid((nx, ny, nz + 1), box.low, box.size, box.periodic)
        device = self.device
        self.packed_box = device.upload(self.box.packed(self.grid, self.reach).view("uint8"))
        self.clock = device.empty((2, 4), "uint32")
        self.fault, self.stale = device.empty(4, "int32"), device.empty(1, "int32")
        self.since = device.empty((0, 4), "float32")
        self.cells = device.empty(nx * ny * (nz + 1) + 1, "int32")
        self._found_starts = device.empty(nz + 1, "int32")
        self._edge_starts = [device.empty(nx * ny + 1, "int32") for _ in (LOW, HIGH)]
        self._leaving = device.empty(2, "int32")
        self._room = self._capacity = 0
        self.scatters = False
        self._neighbours_comm = self.team.comm.Dup()
        if self.bodies:
            self._allocate_bodies()

    def _prepare_kernels(self) -> None:
        constants = self.constants
        self._gather = self.device.kernel(
            "in_cells.cu", "gather", **constants, COLUMNS=1, GATHER_PLACES=1
        )
        self._find_cells_of_part, self._find_plane_starts, self._lay_starts = (
            self.device.kernel("slabs.cu", name, **constants)
            for name in ("cells_of_part", "plane_starts", "lay_starts")
        )
        self.kernels = SPHKernels(self.device, constants, self)

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take this rank's part of a state that all ranks have."""
        self.step = int(state["step"])
        places = state["places"].view(np.uint32)
        nz = self.grid.cells[2]
        planes = ((places[:, 2].astype(np.uint64) << np.uint64(1)) * np.uint64(nz)) >> np.uint64(32)
        planes = planes.astype(np.int64)
        counts = np.bincount(planes, minlength=nz)
        self.bounds = cut(counts, self.team.ranks.size)
        self._widest = int(counts.max(initial=0))
        low, high = self.planes
        self._take_rows(places, state["velocities"], (planes >= low) & (planes < high))
        device = self.device
        clock = [self.step % 2**32, self.step >> 32, self.seed % 2**32, self.seed >> 32]
        device.write(self.clock, np.array([clock, clock], np.uint32))
        device.fill(self.fault, 0x00)
        device.fill(self.cells, 0x00)
        if self.bodies:
            self.on_device.upload_states(state["bodies"])

    @abstractmethod
    def _take_rows(
        self,
        places: NDArray[np.uint32],
        velocities: NDArray[np.float32],
        is_mine: NDArray[np.bool_],
    ) -> None:
        """Allocate, and upload what this rank keeps."""

    def _upload(self, places: NDArray[np.uint32], velocities: NDArray[np.float32]) -> None:
        self.owned = len(places)
        for array, rows in ((self.places, places), (self.state_columns[0], velocities)):
            self._write_rows(array, 0, np.ascontiguousarray(rows).view(np.float32))

    def _write_rows(self, array: Any, first: int, rows: NDArray[Any]) -> None:
        if len(rows):
            self.device.write_rows(array, first, rows.view(np.uint8).reshape(-1))()

    def _allocate_part(self, rows: int, sorts: bool) -> None:
        """Allocate for so many rows; sorts: whether this rank sorts them."""
        device = self.device
        self.capacity = rows
        self.edge = math.ceil(SPARE_EDGE * self._widest) + LEAST
        self.places = device.empty((rows, 4), "float32")
        self.state_columns = [device.empty((rows, 4), "float32")]
        self._cell_of_part = device.empty(rows, "int32")
        if sorts:
            cls, form, parameters = self._algorithm_made
            self.algorithm = cls(device, rows, self._grid_with_nowhere, form, parameters)
        self._allocate_sorted(rows)

    def _allocate_sorted(self, rows: int) -> None:
        """Allocate what is in the order of the cells, with room for borrowed planes."""
        device, edge = self.device, self.edge
        self.rows = rows + 2 * edge
        self._leaving_rows = [device.empty((2 * edge, 4), "float32") for _ in range(2)]
        self._sorted = [device.empty((self.rows, 4), "float32") for _ in range(2)]
        self.flow = device.empty((self.rows, 4), "float32")
        self.force = device.empty((self.rows, 4), "int32")
        self.noted = device.empty(self.rows, "int32")
        self.notes = device.empty(self.rows * self.noted_room, "int32")
        self.workspace_bytes = sum(
            array.nbytes
            for array in (
                self.places, *self.state_columns, self._cell_of_part, self.cells,
                *self._leaving_rows, *self._sorted, self.flow, self.force, self.noted, self.notes,
            )
        )  # fmt: skip

    # What all decompositions do once a part is in the order of its cells.

    @abstractmethod
    def _own_phases(self) -> list[Phase]:
        """Return the phases of this rank's part of a step."""

    def _compute(self) -> list[Phase]:
        """Return the phases after the sort: Algorithm 2 of silva2012."""
        contacts: list[Phase] = []
        if self.bodies:
            contacts = [("couple", self._couple), ("exchange bodies", self._add_up_pushes)]
        return [
            ("exchange halo", self._begin_places),
            # Also of no particles, since it sets the clock.
            ("density", lambda: self._densities_of(*self._inner())),
            ("exchange halo", self._finish_places),
            ("density", lambda: self._on(self._densities_of, *self._edges())),
            ("exchange halo", self._begin_flow),
            ("force", lambda: self._on(self._forces_of, self._inner())),
            ("exchange halo", self._finish_flow),
            ("force", lambda: self._on(self._forces_of, *self._edges())),
            *contacts,
            ("integrate", self._integrate),
        ]

    def _sort_rows(self, rows: int, low: int, high: int) -> NDArray[np.int64]:
        """Sort this rank's rows; return the particles in each of some planes."""
        self.algorithm.build(self._cell_of_part, self.places)
        answer = self.algorithm.answer
        assert isinstance(answer, SortedCells)
        self._gather(
            self.device.blocks(rows, BLOCK), BLOCK, answer.order, self.places,
            self.state_columns[0], self.state_columns[0], *self._sorted, self._sorted[1], rows,
            self.edge,
        )  # fmt: skip
        ends = high - low + 1
        self._find_plane_starts(
            self.device.blocks(ends, BLOCK), BLOCK, answer.start, self._plane_cells, low, ends,
            self._found_starts,
        )  # fmt: skip
        return np.diff(self.device.download(self._found_starts)[:ends]).astype(np.int64)

    def _neighbours(self) -> list[tuple[int, int]]:
        """Return the sides on which there is a neighbour, with its rank."""
        last = self.team.ranks.size - 1
        found = [(LOW, self.rank - 1)] if self.rank > 0 else []
        return [*found, (HIGH, self.rank + 1)] if self.rank < last else found

    def _edge_rows(self, side: int) -> tuple[int, int]:
        """Return where the rows of the outermost plane on a side begin, and how many they are."""
        count = int(self.counts[0 if side == LOW else -1])
        return (self.edge if side == LOW else self.edge + self.owned - count), count

    def _inner(self) -> tuple[int, int]:
        """Return the rows of the planes that no other rank borrows: first, and first after."""
        sides = [side for side, _ in self._neighbours()]
        if len(self.counts) == 1 and sides:
            return self.edge, self.edge
        first = self.edge + (self._edge_rows(LOW)[1] if LOW in sides else 0)
        last = self.edge + self.owned - (self._edge_rows(HIGH)[1] if HIGH in sides else 0)
        return first, last

    def _edges(self) -> list[tuple[int, int]]:
        """Return the other rows."""
        first, last = self._inner()
        if first == last:
            return [(self.edge, self.edge + self.owned)]
        return [(self.edge, first), (last, self.edge + self.owned)]

    def _on(self, work: Callable[[int, int], None], *stretches: tuple[int, int]) -> None:
        for first, last in stretches:
            if first < last:
                work(first, last)

    def _begin_places(self) -> None:
        """Lay out the starts of the own cells; send the places of the edges, and their starts."""
        low, high = self.planes
        plane = self._plane_cells
        told = {}
        for side, peer in self._neighbours():
            first, count = self._edge_rows(side)
            told[peer] = np.array([count, first - self.edge + self._start_value], np.int64)
        self.borrowed = self._tell_neighbours(told)
        self._require_room(max((int(count) for count, _ in self.borrowed.values()), default=0))
        self._lay(
            self._start, self._start_row(low), self.cells, low * plane, (high - low) * plane + 1,
            self.edge - self._start_value,
        )  # fmt: skip
        sends, receives = [], []
        for side, peer in self._neighbours():
            at = self._start_row(low if side == LOW else high - 1)
            sends.append(Parcel(peer, self._sorted[0], *self._edge_rows(side)))
            sends.append(Parcel(peer, self._start, at, plane + 1))
            receives.append(Parcel(peer, self._sorted[0], *self._borrowed_rows(side, peer)))
            receives.append(Parcel(peer, self._edge_starts[side], 0, plane + 1))
        self.team.transport.begin(sends, receives)

    def _finish_places(self) -> None:
        self.team.transport.finish()
        low, high = self.planes
        plane = self._plane_cells
        for side, peer in self._neighbours():
            _, begin = self.borrowed[peer]
            first, _ = self._borrowed_rows(side, peer)
            # The end of the lower one is where the own cells begin, which is laid already.
            to, count = ((low - 1) * plane, plane) if side == LOW else (high * plane, plane + 1)
            self._lay(self._edge_starts[side], 0, self.cells, to, count, first - int(begin))

    def _begin_flow(self) -> None:
        sides = self._neighbours()
        self.team.transport.begin(
            [Parcel(peer, self.flow, *self._edge_rows(side)) for side, peer in sides],
            [Parcel(peer, self.flow, *self._borrowed_rows(side, peer)) for side, peer in sides],
        )

    def _finish_flow(self) -> None:
        self.team.transport.finish()

    def _borrowed_rows(self, side: int, peer: int) -> tuple[int, int]:
        """Return where a borrowed plane is, and its rows."""
        count = int(self.borrowed[peer][0])
        return (self.edge - count if side == LOW else self.edge + self.owned), count

    def _tell_neighbours(
        self, told: Mapping[int, NDArray[np.int64]]
    ) -> dict[int, NDArray[np.int64]]:
        """Exchange a few numbers with the neighbours, by MPI."""
        heard = {peer: np.empty_like(numbers) for peer, numbers in told.items()}
        comm = self._neighbours_comm
        requests = [comm.Irecv(heard[peer], peer) for peer in told]
        requests += [comm.Isend(numbers, peer) for peer, numbers in told.items()]
        for request in requests:
            request.Wait()
        return heard

    def _require_room(self, borrowed: int) -> None:
        """Allocate anew where a borrowed plane has more particles than there are rows for."""
        if borrowed <= self.edge:
            return
        kept, old_edge = list(self._sorted), self.edge
        self.edge = math.ceil(SPARE_EDGE * borrowed) + LEAST
        self._allocate_sorted(self.capacity)
        for old, new in zip(kept, self._sorted, strict=True):
            rows = self.device.download(old)[old_edge : old_edge + self.owned]
            self._write_rows(new, self.edge, rows)

    def _lay(self, source: Any, start: int, target: Any, to: int, count: int, shift: int) -> None:
        self._lay_starts(
            self.device.blocks(count, BLOCK), BLOCK, source, start, target, to, count, shift
        )

    def _densities_of(self, first: int, last: int) -> None:
        self.kernels.densities(
            self.device.blocks(last - first, BLOCK), BLOCK, *self._sorted, self.cells, self.noted,
            self.packed_box, self.kernels.fluid, self.clock, self.rows, first, last, self.flow,
            self.noted, self.notes,
        )  # fmt: skip

    def _forces_of(self, first: int, last: int) -> None:
        self.kernels.forces(
            self.device.blocks(last - first, BLOCK), BLOCK, self._sorted[0], self.flow, self.cells,
            self.noted, self.noted, self.notes, self.packed_box, self.kernels.fluid, self.rows,
            first, last, self.force,
        )  # fmt: skip

    def _couple(self) -> None:
        self.on_device.place(self.kernels, self.packed_box)
        self.on_device.couple(
            self.kernels, self._sorted[0], self.flow, (self.cells, self.noted), self.packed_box,
            self.rows, (self.edge, self.edge + self.owned), self.planes, self.force,
        )  # fmt: skip

    def _add_up_pushes(self) -> None:
        self.team.transport.add_up(self.on_device.pushes)

    def _integrate(self) -> None:
        first, last = self.edge, self.edge + self.owned
        self.kernels.integrate(
            self.device.blocks(self.owned, BLOCK), BLOCK, self._sorted[0], self.flow, self.force,
            self.noted, self.since, self.packed_box, self.kernels.fluid, self.clock, first, last,
            self.edge, 0.0, self.places, self.state_columns[0], self.stale, self.fault,
        )  # fmt: skip
        if self.bodies:
            self.on_device.move(
                self.kernels, self.packed_box, self.clock, self.particles, self.fault
            )
        self.computed_rows = self.owned
        self.step += 1

    def _collect(self, array: Any, first: int, rows: int) -> NDArray[Any]:
        """Return rows of all ranks in rank 0, in the order of the ranks, and none elsewhere."""
        mine = np.empty((rows, *array.shape[1:]), array.dtype)
        if rows:
            self.device.read_rows(array, first, mine.view(np.uint8).reshape(-1))()
        comm, tag = self.team.comm, 1
        counts = comm.gather(rows)
        if self.rank != 0:
            comm.Send(mine, 0, tag)
            return mine[:0]
        assert counts is not None
        parts = [mine]
        for rank, count in enumerate(counts[1:], 1):
            part = np.empty((count, *array.shape[1:]), array.dtype)
            comm.Recv(part, rank, tag)
            parts.append(part)
        return np.concatenate(parts)

    # Where the starts of the own cells are: differs where another rank sorted them.

    @property
    @abstractmethod
    def _start(self) -> Any:
        """The array of where cells begin, of which the own planes are a stretch."""

    @abstractmethod
    def _start_row(self, plane: int) -> int:
        """Return in which row of it the cells of a plane begin."""

    @property
    @abstractmethod
    def _start_value(self) -> int:
        """The entry of the first own cell."""


class Slabs(Shared):
    """Each rank keeps its particles."""

    decomposition = "slab"

    @property
    def kept(self) -> int:
        return self.owned

    def _own_phases(self) -> list[Phase]:
        return [
            ("exchange particles", self._hand_over),
            ("sort", self._sort_part),
            ("exchange balance", self._balance),
            *self._compute(),
        ]

    def _take_rows(
        self,
        places: NDArray[np.uint32],
        velocities: NDArray[np.float32],
        is_mine: NDArray[np.bool_],
    ) -> None:
        rows = int(is_mine.sum())
        self._allocate_part(math.ceil(SPARE * rows) + LEAST, sorts=True)
        self._upload(places[is_mine], velocities[is_mine])
        self.computed_rows = self.owned

    def _hand_over(self) -> None:
        """Find the cells; exchange who has left for a neighbour's planes."""
        leaving = self._find_part_cells()
        sides = self._neighbours()
        told = {peer: np.array([leaving[side]], np.int64) for side, peer in sides}
        heard = {peer: int(count[0]) for peer, count in self._tell_neighbours(told).items()}
        arrived = sum(heard.values())
        if self.owned + arrived > self.capacity:
            self._grow(self.owned + arrived)
            leaving = self._find_part_cells()
        sends, receives = [], []
        first = self.owned
        for side, peer in sides:
            for kept, left in zip((self.places, self.state_columns[0]), self._leaving_rows,
                                  strict=True):  # fmt: skip
                sends.append(Parcel(peer, left, side * self.edge, leaving[side]))
                receives.append(Parcel(peer, kept, first, heard[peer]))
            first += heard[peer]
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()
        self._launch_cells(self.owned, first, self.capacity)
        self.owned = first - sum(leaving)

    def _find_part_cells(self) -> list[int]:
        """Find the cells of what this rank has; return how many have left, down and up."""
        while True:
            self.device.fill(self._leaving, 0x00)
            self._launch_cells(0, self.owned, self.owned)
            leaving = [int(count) for count in self.device.download(self._leaving)]
            if max(leaving) <= self.edge:
                return leaving
            self.edge = math.ceil(SPARE_EDGE * max(leaving)) + LEAST
            self._allocate_sorted(self.capacity)

    def _launch_cells(self, first: int, owned: int, rows: int) -> None:
        if first < rows:
            self._find_cells_of_part(
                self.device.blocks(rows - first, BLOCK), BLOCK, self.places,
                self.state_columns[0], self._cell_of_part, self.packed_box, *self.planes, first,
                owned, rows, self.edge, *self._leaving_rows, self._leaving,
            )  # fmt: skip

    def _grow(self, rows: int) -> None:
        """Allocate for more rows, and keep what is there."""
        kept = [self.device.download(a)[: self.owned] for a in (self.places, *self.state_columns)]
        self._allocate_part(math.ceil(SPARE * rows) + LEAST, sorts=True)
        self._upload(kept[0].view(np.uint32), kept[1])

    def _sort_part(self) -> None:
        low, high = self.planes
        self.counts = self._sort_rows(self.owned, low, high)

    def _balance(self) -> None:
        """Every few steps, cut anew where loads have drifted apart, and sort again."""
        if self.step % BALANCE_EVERY != 0 or self.team.ranks.size == 1:
            return
        counts = np.concatenate(self._neighbours_comm.allgather(self.counts))
        if not is_unbalanced(counts, self.bounds, IMBALANCE):
            return
        new = cut(counts, self.team.ranks.size)
        if (new == self.bounds).all():
            return
        going = moves(self.bounds, new, counts)
        rows = int(counts[new[self.rank] : new[self.rank + 1]].sum())
        self._widest = int(counts.max())
        sorted_before, edge = list(self._sorted), self.edge
        if rows > self.capacity:
            self._allocate_part(math.ceil(SPARE * rows) + LEAST, sorts=True)
        sends, receives = [], []
        for move in going:
            for kept, was in zip((self.places, self.state_columns[0]), sorted_before, strict=True):
                first = edge + move.first
                if move.sender == move.receiver == self.rank:
                    self.device.copy(
                        was[first : first + move.rows], kept[move.to : move.to + move.rows]
                    )
                elif move.sender == self.rank:
                    sends.append(Parcel(move.receiver, was, first, move.rows))
                elif move.receiver == self.rank:
                    receives.append(Parcel(move.sender, kept, move.to, move.rows))
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()
        self.bounds, self.owned = new, rows
        self.device.fill(self.cells, 0x00)
        self._launch_cells(0, rows, self.capacity)
        self._sort_part()

    @property
    def _start(self) -> Any:
        return self.algorithm.answer.start  # type: ignore[union-attr]

    def _start_row(self, plane: int) -> int:
        return plane * self._plane_cells

    @property
    def _start_value(self) -> int:
        return 0


class Master(Shared):
    """Rank 0 keeps all particles, sorts them, deals them out, and gets them back.

    Parts are equal up to a plane of cells.
    """

    decomposition = "master"

    @property
    def kept(self) -> int:
        return self.particles if self.rank == 0 else 0

    def _own_phases(self) -> list[Phase]:
        return [
            ("cell ids", self._find_all_cells),
            ("sort", self._sort_all),
            ("exchange deal", self._deal),
            *self._compute(),
            ("exchange return", self._return),
        ]

    def _take_rows(
        self,
        places: NDArray[np.uint32],
        velocities: NDArray[np.float32],
        is_mine: NDArray[np.bool_],
    ) -> None:
        self.owned = self.computed_rows = int(is_mine.sum())
        if self.rank == 0:
            self._allocate_part(self.particles, sorts=True)
            self._write_rows(self.places, 0, np.ascontiguousarray(places).view(np.float32))
            self._write_rows(self.state_columns[0], 0, np.ascontiguousarray(velocities))
        else:
            self._allocate_part(math.ceil(SPARE * self.owned) + LEAST, sorts=False)
            self._dealt_starts = self.device.empty(self.cells.shape[0], "int32")

    def _find_all_cells(self) -> None:
        if self.rank == 0:
            n = self.particles
            self._find_cells_of_part(
                self.device.blocks(n, BLOCK), BLOCK, self.places, self.state_columns[0],
                self._cell_of_part, self.packed_box, 0, self.grid.cells[2], 0, n, n, self.edge,
                *self._leaving_rows, self._leaving,
            )  # fmt: skip

    def _sort_all(self) -> None:
        if self.rank == 0:
            self.all_counts = self._sort_rows(self.particles, 0, self.grid.cells[2])

    def _deal(self) -> None:
        """Cut anew, and send each rank its stretch of what is sorted."""
        counts = self._neighbours_comm.bcast(self.all_counts if self.rank == 0 else None)
        self.bounds = cut(counts, self.team.ranks.size)
        self._first_of = np.concatenate([[0], np.cumsum(counts)])[self.bounds]
        low, high = self.planes
        self.counts = counts[low:high]
        self.owned = int(self.counts.sum())
        if self.owned > self.capacity:
            self._widest = int(counts.max())
            self._allocate_part(math.ceil(SPARE * self.owned) + LEAST, sorts=False)
        if self.bodies:
            self.device.fill(self.cells, 0x00)  # bodies look into the planes of others
        sends, receives = [], []
        if self.rank == 0:
            for peer in range(1, self.team.ranks.size):
                first, last = (int(row) for row in self._first_of[peer : peer + 2])
                begin, end = (int(b) * self._plane_cells for b in self.bounds[peer : peer + 2])
                sends += [Parcel(peer, a, self.edge + first, last - first) for a in self._sorted]
                sends.append(Parcel(peer, self._start, begin, end - begin + 1))
        else:
            receives = [Parcel(0, array, self.edge, self.owned) for array in self._sorted]
            receives.append(Parcel(0, self._start, 0, (high - low) * self._plane_cells + 1))
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()

    def _return(self) -> None:
        """Send the particles back to rank 0."""
        arrays = (self.places, self.state_columns[0])
        sends, receives = [], []
        if self.rank == 0:
            for peer in range(1, self.team.ranks.size):
                first, last = (int(row) for row in self._first_of[peer : peer + 2])
                receives += [Parcel(peer, array, first, last - first) for array in arrays]
        else:
            sends = [Parcel(0, array, 0, self.owned) for array in arrays]
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()

    @property
    def _start(self) -> Any:
        return self.algorithm.answer.start if self.rank == 0 else self._dealt_starts  # type: ignore[union-attr]

    def _start_row(self, plane: int) -> int:
        return (plane - self.planes[0]) * self._plane_cells

    @property
    def _start_value(self) -> int:
        return int(self._first_of[self.rank])


DECOMPOSITIONS: Mapping[str, type[Shared]] = {kind.decomposition: kind for kind in (Slabs, Master)}


def share(workload: type[Workload], decomposition: str | None, device: Device) -> type[Workload]:
    """Return a workload's class whose simulations the ranks of a device's team share.

    That is the workload itself where there is no decomposition. Raises UserError for a workload
    that cannot be shared.
    """
    if decomposition is None:
        return workload
    if not issubclass(workload, SPH):
        raise UserError(
            f"{workload.name} runs on one rank: start it without mpirun; what ranks can share are"
            " the SPH workloads, such as sph-dam-break"
        )
    kind = DECOMPOSITIONS[decomposition]
    return type(f"{kind.__name__}{workload.__name__}", (kind, workload), {"team": device.team})
