"""SPH that several ranks share: each has planes of cells, and copies of the planes beside them.

In memory a plane is one stretch, so what ranks exchange are rows of arrays. In each step the
edges of a part travel to its neighbours while its inner planes are computed: places for the
densities, then velocities and densities for the forces (silva2012, section 6, Algorithm 2). All
sums are exact, so any number of ranks gives the same trajectory to the bit.

`slab`: each rank keeps its particles, and hands those that cross over to its neighbours while it
moves the others; planes change hands when loads have drifted apart. `master`: rank 0 keeps all
particles; in each step it sorts them, deals out equal parts, and gets them back, as the paper has
it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.core.answers import SortedCells
from gpubench.core.contracts import CellList, CellListUpdate
from gpubench.core.errors import NotSupported, UserError
from gpubench.core.grid import Grid
from gpubench.devices.base import Device
from gpubench.distributed.slabs import cut, is_unbalanced, moves
from gpubench.distributed.team import Team, together
from gpubench.distributed.transport import Parcel
from gpubench.workloads.cell_workload import BLOCK, InCells
from gpubench.workloads.sph import SPH, SPHKernels
from gpubench.workloads.workload import Value, Workload

if TYPE_CHECKING:
    Shares = SPH
else:
    Shares = object

SPARE = 1.1  # rows of a part, over the particles that it has when they are allocated
SPARE_PLANES = 8  # of the last rank, above its particles
SPARE_EDGE = 1.5  # rows for a plane of the halo, likewise
LEAST = 256  # rows spare in any case
BALANCE_EVERY = 32  # steps
IMBALANCE = 0.03  # of the largest part over the mean, which planes change hands for
WARP = 32
LOW, HIGH = 0, 1

Phase = tuple[str, Callable[[], None]]


class Shared(Shares):
    """What makes an SPH workload a shared one, before it among the bases.

    Particles are kept in `places` and `state_columns`, `held` rows of them, some of which may have
    left for another rank. In the order of their cells, `owned` of them lie from row `edge` on: the
    rows before and behind are for the planes copied from the neighbours below and above.

    bounds: the planes of each rank: from bounds[rank] to before bounds[rank + 1].
    top: where this rank's planes end for the cells; past it, there are no particles.
    counts: particles in each plane of this rank up to there.
    halo: of each neighbour, how many there are in the plane beside, and the entry of its first
        cell.
    """

    team: ClassVar[Team]
    decomposition: ClassVar[str]
    host_part = "the host reads back how many particles travel, which no CUDA graph can hold"
    owned: int
    held: int
    top: int
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
    def planes(self) -> tuple[int, int]:
        """The first plane of this rank, and the first one after."""
        return int(self.bounds[self.rank]), int(self.bounds[self.rank + 1])

    @together
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self._own_phases():
                launch()

    def plain_steps(self, steps: int) -> None:
        self.advance(steps)

    @together
    def paint(self) -> None:
        """Queue drawing what each rank has, and putting all before what rank 0 has."""
        picture, transport = self.picture, self.team.transport
        picture.clear()
        picture.draw(self.places, self.velocities, self.packed_box, 0, self.held)
        pixels = len(picture.pixels)
        if self.rank != 0:
            transport.begin([Parcel(0, picture.pixels, 0, pixels)], [])
            transport.finish()
            return
        for peer in range(1, self.team.ranks.size):
            transport.begin([], [Parcel(peer, self._others_picture, 0, pixels)])
            transport.finish()
            picture.merge(self._others_picture)

    @cached_property
    def _others_picture(self) -> Any:
        return self.device.empty(len(self.picture.pixels), "int32")

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
        """Return the earliest fault record of a rank that has one, else zeros."""
        found = self.team.comm.allgather(self.device.download(self.fault).tolist())
        return min(
            (fault for fault in found if fault[0]),
            key=lambda fault: (fault[2], fault[1] % 2**32),
            default=found[0],
        )

    @together
    def count_steps(self) -> None:
        InCells.count_steps(self)

    @together
    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of all particles in rank 0, and of no particle elsewhere."""
        mine = [self._read_rows(array, 0, self.held) for array in (self.places, self.velocities)]
        planes = self._planes_of(mine[0].view(np.uint32))
        low, high = self._kept_planes
        here = (planes >= low) & (planes < high)
        places, velocities = (self._collect(rows[here]) for rows in mine)
        state: dict[str, NDArray[Any]] = {
            "step": np.array(self.step, np.int64),
            "places": places.view(np.uint32),
            "velocities": velocities,
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
        rows = self.edge, self.computed_rows
        ids = self._collect(self._read_rows(self._sorted[0], *rows).view(np.uint32)[:, 3])
        found = self._collect(self._read_rows(getattr(self, name), *rows))
        return found[np.argsort(ids)]

    @property
    def velocities(self) -> Any:
        """The column of the state."""
        return self.state_columns[0]

    # How parts are made and kept.

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        self._sorter = algorithm, form, parameters
        nx, ny, nz = self.grid.cells
        self._plane_cells = nx * ny
        device = self.device
        self.packed_box = device.upload(self.box.packed(self.grid, self.reach).view("uint8"))
        self.clock = device.empty((2, 4), "uint32")
        self.fault, self.stale = device.empty(4, "int32"), device.empty(1, "int32")
        self.since = device.empty((0, 4), "float32")
        self.cells = device.empty(nx * ny * (nz + 1) + 1, "int32")
        self._found_starts = device.empty(nz + 1, "int32")
        self._found = device.host_buffer(4 * (nz + 1))
        self._edge_starts = [device.empty(nx * ny + 1, "int32") for _ in (LOW, HIGH)]
        self._leaving = device.empty(2, "int32")
        self._left = device.host_buffer(8)
        self._room = self._capacity = 0
        self.scatters = False
        self._comm = self.team.comm.Dup()
        if self.bodies:
            self._allocate_bodies()

    def _prepare_kernels(self) -> None:
        constants = self.constants
        self._gather = self.device.kernel(
            "in_cells.cu", "gather", **constants, COLUMNS=1, GATHER_PLACES=1
        )
        self._cells_of_part, self._find_leavers, self._find_plane_starts, self._lay_starts = (
            self.device.kernel("slabs.cu", name, **constants)
            for name in ("cells_of_part", "find_leavers", "plane_starts", "lay_starts")
        )
        self.kernels = SPHKernels(self.device, constants, self)

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take this rank's part of a state that all ranks have."""
        self.step = int(state["step"])
        places = state["places"].view(np.uint32)
        planes = self._planes_of(places)
        self._cut(np.bincount(planes, minlength=self.grid.cells[2]))
        self.computed_rows = 0
        low, high = self._kept_planes
        mine = (planes >= low) & (planes < high)
        self.held = int(mine.sum())
        self._allocate_part(max(self.held, self.owned))
        self._write_rows(self.places, 0, places[mine])
        self._write_rows(self.velocities, 0, state["velocities"][mine])
        device = self.device
        clock = [self.step % 2**32, self.step >> 32, self.seed % 2**32, self.seed >> 32]
        device.write(self.clock, np.array([clock, clock], np.uint32))
        device.fill(self.fault, 0x00)
        # Where nobody is, cells begin and end at 0.
        device.fill(self.cells, 0x00)
        if self.bodies:
            self.on_device.upload_states(state["bodies"])

    @property
    def _kept_planes(self) -> tuple[int, int]:
        """The planes of which this rank keeps the particles between steps."""
        return self.planes

    def _planes_of(self, places: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return in which plane of cells each place is; along z the box has walls."""
        cells = np.uint64(self.grid.cells[2])
        return ((places[:, 2].astype(np.uint64) * cells) >> np.uint64(31)).astype(np.int64)

    def _cut(self, counts: NDArray[np.int64]) -> None:
        """Give each rank its planes; counts: particles in each plane of the box."""
        self.bounds = cut(counts, self.team.ranks.size)
        self.first_of = np.concatenate([[0], np.cumsum(counts)])[self.bounds]
        self._widest = int(counts.max())
        self._highest = int(np.flatnonzero(counts).max(initial=0))
        self.top = self._top_of(self.rank)
        self.counts = counts[self.planes[0] : self.top]
        self.owned = int(self.counts.sum())

    def _top_of(self, rank: int) -> int:
        """Return where a rank's planes end for the cells: the last rank's, above all particles."""
        low, high = (int(bound) for bound in self.bounds[rank : rank + 2])
        if rank < self.team.ranks.size - 1:
            return high
        return min(high, max(self._highest, low) + 1 + SPARE_PLANES)

    @abstractmethod
    def _rows_for(self, particles: int) -> int:
        """Return how many rows to allocate for so many particles."""

    def _allocate_part(self, particles: int) -> None:
        """Allocate for so many particles, and more for the planes of the halo."""
        self.edge = aligned(SPARE_EDGE * self._widest + LEAST)
        self._allocate_rows(particles)
        self._allocate_sorted()

    def _allocate_rows(self, particles: int) -> None:
        device = self.device
        self.capacity = self._rows_for(particles)
        self.places = device.empty((self.capacity, 4), "float32")
        self.state_columns = [device.empty((self.capacity, 4), "float32")]
        self._cell_of_part = device.empty(self.capacity, "int32")
        self._make_sorter()

    def _make_sorter(self) -> None:
        """Make what sorts the rows into cells, and empty rows into one more plane of them."""
        cls, form, parameters = self._sorter
        nx, ny, _ = self.grid.cells
        low, high = self._sorted_planes
        cells = nx, ny, high - low + 1
        grid = Grid(cells, self.grid.low, self.grid.size, self.grid.periodic)
        self.algorithm = cls(self.device, self.capacity, grid, form, parameters)

    @property
    def _sorted_planes(self) -> tuple[int, int]:
        """The planes into whose cells this rank sorts."""
        return self.planes[0], self.top

    def _allocate_sorted(self) -> None:
        """Allocate what is in the order of the cells, with room for the halo."""
        device, edge = self.device, self.edge
        self.rows = aligned(self.capacity) + 2 * edge
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

    # The parts of a step that all decompositions have.

    @abstractmethod
    def _own_phases(self) -> list[Phase]:
        """Return the phases of this rank's part of a step."""

    def _densities(self) -> list[Phase]:
        """Return the phases from the sort to the densities of the own planes."""
        return [
            ("density", self._inner_densities),
            ("exchange halo", self._begin_places),
            ("exchange halo", self._finish_places),
            ("density", lambda: self._on(self._densities_of, *self._edges())),
        ]

    def _contacts(self) -> list[Phase]:
        """Return the phases of the forces between bodies and fluid."""
        if not self.bodies:
            return []
        return [
            ("couple", self._couple),
            ("exchange bodies", lambda: self.team.transport.add_up(self.on_device.pushes)),
        ]

    def _find_cells(self) -> None:
        """Find the cells of the rows."""
        self._cells_of_part(
            self.device.blocks(self.capacity, BLOCK), BLOCK, self.places, self._cell_of_part,
            self.packed_box, *self._sorted_planes, self.held, self.capacity,
        )  # fmt: skip

    def _sort_rows(self, rows: int) -> None:
        """Sort; where the planes begin is then on its way to the host."""
        self.algorithm.build(self._cell_of_part, self.places)
        answer = self.algorithm.answer
        assert isinstance(answer, SortedCells)
        self._gather(
            self.device.blocks(rows, BLOCK), BLOCK, answer.order, self.places, self.velocities,
            self.velocities, *self._sorted, self._sorted[1], rows, self.edge,
        )  # fmt: skip
        low, high = self._sorted_planes
        ends = high - low + 1
        self._find_plane_starts(
            self.device.blocks(ends, BLOCK), BLOCK, answer.start, self._plane_cells, 0, ends,
            self._found_starts,
        )  # fmt: skip
        found = self._found[: 4 * ends]
        self._wait_for_counts = self.device.read_rows(self._found_starts, 0, found)

    def _counted(self) -> NDArray[np.int64]:
        """Return the particles in each plane that was sorted, once the device has counted them."""
        self._wait_for_counts()
        low, high = self._sorted_planes
        return np.diff(self._found.view(np.int32)[: high - low + 1]).astype(np.int64)

    def _inner_densities(self) -> None:
        """Queue the densities of the planes that no halo contains, wherever their rows are.

        What is to travel is ready before: so the host can look meanwhile how much of it there is.
        """
        low, _ = self.planes
        self._lay(
            self._start, self._start_row(low), self.cells, low * self._plane_cells,
            (self.top - low) * self._plane_cells + 1, self.edge - self._start_value,
        )  # fmt: skip
        self.team.transport.mark()
        self._densities_of(self.edge, self.edge + self.owned, *self._inner_planes())

    def _begin_places(self) -> None:
        """Send the places of the edges, and where their cells begin."""
        self._note_counts()
        told = {}
        for side, peer in self._neighbours():
            first, count = self._edge_rows(side)
            told[peer] = np.array([count, first - self.edge + self._start_value], np.int64)
        self.halo = self._tell_neighbours(told)
        self._require_room(*(int(count) for count, _ in (*told.values(), *self.halo.values())))
        low, high = self.planes
        plane = self._plane_cells
        sends, receives = [], []
        for side, peer in self._neighbours():
            at = self._start_row(low if side == LOW else high - 1)
            sends.append(Parcel(peer, self._sorted[0], *self._edge_rows(side)))
            sends.append(Parcel(peer, self._start, at, plane + 1))
            receives.append(Parcel(peer, self._sorted[0], *self._halo_rows(side, peer)))
            receives.append(Parcel(peer, self._edge_starts[side], 0, plane + 1))
        self.team.transport.begin(sends, receives)

    @abstractmethod
    def _note_counts(self) -> None:
        """Set `counts`, once the device has counted."""

    def _finish_places(self) -> None:
        self.team.transport.finish()
        low, high = self.planes
        plane = self._plane_cells
        for side, peer in self._neighbours():
            _, begin = self.halo[peer]
            first, _ = self._halo_rows(side, peer)
            # The end of the lower one is where the own cells begin, which is laid already.
            to, count = ((low - 1) * plane, plane) if side == LOW else (high * plane, plane + 1)
            self._lay(self._edge_starts[side], 0, self.cells, to, count, first - int(begin))

    def _begin_flow(self) -> None:
        sides = self._neighbours()
        self.team.transport.begin(
            [Parcel(peer, self.flow, *self._edge_rows(side)) for side, peer in sides],
            [Parcel(peer, self.flow, *self._halo_rows(side, peer)) for side, peer in sides],
        )

    def _finish_flow(self) -> None:
        self.team.transport.finish()

    def _require_room(self, *counts: int) -> None:
        """Allocate anew where a plane at an edge has more particles than there are rows for."""
        most = max(counts, default=0)
        if most <= self.edge:
            return
        kept = [self._read_rows(array, self.edge, self.owned) for array in self._sorted]
        self.edge = aligned(SPARE_EDGE * most + LEAST)
        self._allocate_sorted()
        for array, rows in zip(self._sorted, kept, strict=True):
            self._write_rows(array, self.edge, rows)
        self._inner_densities()

    # Which rows and planes are which.

    def _neighbours(self) -> list[tuple[int, int]]:
        """Return the sides on which there is a neighbour, with its rank."""
        last = self.team.ranks.size - 1
        found = [(LOW, self.rank - 1)] if self.rank > 0 else []
        return [*found, (HIGH, self.rank + 1)] if self.rank < last else found

    def _inner_planes(self) -> tuple[int, int]:
        """Return the planes that are in no halo: the first, and the first after."""
        sides = [side for side, _ in self._neighbours()]
        low, high = self.planes
        return low + (LOW in sides), high - (HIGH in sides)

    def _edge_rows(self, side: int) -> tuple[int, int]:
        """Return where the rows of the outermost plane on a side begin, and how many they are."""
        count = int(self.counts[0 if side == LOW else -1])
        return (self.edge if side == LOW else self.edge + self.owned - count), count

    def _inner(self) -> tuple[int, int]:
        """Return the rows of the inner planes: the first, and the first after."""
        low, high = self._inner_planes()
        first = self.edge + int(self.counts[: low - self.planes[0]].sum())
        behind = int(self.counts[high - self.planes[0] :].sum()) if high < self.planes[1] else 0
        return first, max(first, self.edge + self.owned - behind)

    def _inner_half(self, half: int) -> tuple[int, int]:
        """Return the rows of the first or the second half of the inner planes."""
        first, last = self._inner()
        middle = (first + last) // 2
        return (first, middle) if half == 0 else (middle, last)

    def _edges(self) -> list[tuple[int, int]]:
        """Return the other rows."""
        first, last = self._inner()
        return [(self.edge, first), (last, self.edge + self.owned)]

    def _halo_rows(self, side: int, peer: int) -> tuple[int, int]:
        """Return where a plane of the halo is, and its rows."""
        count = int(self.halo[peer][0])
        return (self.edge - count if side == LOW else self.edge + self.owned), count

    # Where the starts of the own cells are differs where another rank sorted them.

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

    # Launches and messages.

    def _on(self, work: Callable[[int, int], None], *stretches: tuple[int, int]) -> None:
        for first, last in stretches:
            if first < last:
                work(first, last)

    def _lay(self, source: Any, start: int, target: Any, to: int, count: int, shift: int) -> None:
        self._lay_starts(
            self.device.blocks(count, BLOCK), BLOCK, source, start, target, to, count, shift
        )

    def _densities_of(
        self, first: int, last: int, low: int | None = None, high: int | None = None
    ) -> None:
        """Queue the densities of some rows, of those in some planes if planes are given."""
        self.kernels.densities(
            self.device.blocks(last - first, BLOCK), BLOCK, *self._sorted, self.cells, self.noted,
            self.packed_box, self.kernels.fluid, self.clock, self.rows, first, last, low or 0,
            self.grid.cells[2] if high is None else high, self.flow, self.noted, self.notes,
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

    def _integrate_rows(self, first: int, last: int) -> None:
        self.kernels.integrate(
            self.device.blocks(last - first, BLOCK), BLOCK, self._sorted[0], self.flow, self.force,
            self.noted, self.since, self.packed_box, self.kernels.fluid, self.clock, first, last,
            self.edge, 0.0, self.places, self.velocities, self.stale, self.fault,
        )  # fmt: skip

    def _integrate_all(self) -> None:
        self._integrate_rows(self.edge, self.edge + self.owned)
        if self.bodies:
            self.on_device.move(
                self.kernels, self.packed_box, self.clock, self.particles, self.fault
            )

    def _tell_neighbours(
        self, told: Mapping[int, NDArray[np.int64]]
    ) -> dict[int, NDArray[np.int64]]:
        """Exchange a few numbers with the neighbours, by MPI."""
        heard = {peer: np.empty_like(numbers) for peer, numbers in told.items()}
        requests = [self._comm.Irecv(heard[peer], peer) for peer in told]
        requests += [self._comm.Isend(numbers, peer) for peer, numbers in told.items()]
        for request in requests:
            request.Wait()
        return heard

    def _read_rows(self, array: Any, first: int, rows: int) -> NDArray[Any]:
        host = np.empty((rows, *array.shape[1:]), array.dtype)
        if rows:
            self.device.read_rows(array, first, host.view(np.uint8).reshape(-1))()
        return host

    def _write_rows(self, array: Any, first: int, rows: NDArray[Any]) -> None:
        if len(rows):
            host = np.ascontiguousarray(rows).view(np.uint8).reshape(-1)
            self.device.write_rows(array, first, host)()

    def _collect(self, mine: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of all ranks in rank 0, in the order of the ranks; none elsewhere."""
        comm = self.team.comm
        counts = comm.gather(len(mine))
        if self.rank != 0:
            comm.Send(np.ascontiguousarray(mine), 0)
            return mine[:0]
        assert counts is not None
        parts = [mine]
        for rank, count in enumerate(counts[1:], 1):
            part = np.empty((count, *mine.shape[1:]), mine.dtype)
            comm.Recv(part, rank)
            parts.append(part)
        return np.concatenate(parts)


class Slabs(Shared):
    """Each rank keeps its particles.

    No particle moves further than a cell in a step, so migrants were in an outermost plane: these
    are moved first, and migrants travel while the inner planes are computed.
    """

    decomposition = "slab"

    def _own_phases(self) -> list[Phase]:
        return [
            ("cell ids", self._find_own_cells),
            ("sort", lambda: self._sort_rows(self.owned)),
            ("exchange balance", self._balance),
            *self._densities(),
            ("exchange halo", self._begin_flow),
            ("force", lambda: self._on(self._forces_of, self._inner_half(0))),
            ("exchange halo", self._finish_flow),
            ("force", lambda: self._on(self._forces_of, *self._edges())),
            *(self._move_with_bodies() if self.bodies else self._move()),
            ("exchange particles", self._hand_over),
        ]

    def _move(self) -> list[Phase]:
        return [
            ("integrate", self._integrate_edges),
            ("exchange particles", self._look_for_leavers),
            ("force", lambda: self._on(self._forces_of, self._inner_half(1))),
            ("integrate", lambda: self._on(self._integrate_rows, self._inner())),
        ]

    def _move_with_bodies(self) -> list[Phase]:
        """Bodies push the fluid, after all other forces and before it moves."""
        return [
            ("force", lambda: self._on(self._forces_of, self._inner_half(1))),
            *self._contacts(),
            ("integrate", self._integrate_all),
            ("exchange particles", self._look_for_leavers),
        ]

    def _integrate_edges(self) -> None:
        for first, last in self._edges():
            self._integrate_rows(first, last)  # also nobody, since it sets the clock

    def _look_for_leavers(self) -> None:
        """Queue looking through the outermost planes for who has left; and mark the exchange."""
        self.device.fill(self._leaving, 0x00)
        for first, last in self._edges():
            self._find_leavers(
                self.device.blocks(last - first, BLOCK), BLOCK, self.places, self.velocities,
                self.packed_box, *self.planes, first - self.edge, last - self.edge, self.edge,
                *self._leaving_rows, self._leaving,
            )  # fmt: skip
        self._wait_for_leavers = self.device.read_rows(self._leaving, 0, self._left)
        self.team.transport.mark()

    def _hand_over(self) -> None:
        """Exchange who has left, and end the step."""
        self._wait_for_leavers()
        left = [int(count) for count in self._left.view(np.int32)]
        sides = self._neighbours()
        told = {peer: np.array([left[side]], np.int64) for side, peer in sides}
        came = {peer: int(count[0]) for peer, count in self._tell_neighbours(told).items()}
        self.held = self.owned + sum(came.values())
        if self.held > self.capacity:
            self._grow(self.held)
        sends, receives, row = [], [], self.owned
        for side, peer in sides:
            for array, leaving in zip(
                (self.places, self.velocities), self._leaving_rows, strict=True
            ):
                sends.append(Parcel(peer, leaving, side * self.edge, left[side]))
                receives.append(Parcel(peer, array, row, came[peer]))
            row += came[peer]
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()
        self.computed_rows = self.owned
        self.owned = self.held - sum(left)
        self.step += 1

    def _grow(self, particles: int) -> None:
        """Allocate more rows; migrants, and what was computed, stay until the next step."""
        arrays = self.places, self.velocities
        kept = [self._read_rows(array, 0, self.owned) for array in arrays]
        self._allocate_rows(particles)
        for array, rows in zip((self.places, self.velocities), kept, strict=True):
            self._write_rows(array, 0, rows)

    def _find_own_cells(self) -> None:
        if self.rows < aligned(self.capacity) + 2 * self.edge:
            self._allocate_sorted()
        if self.top < self.planes[1] and self.counts[-1] > 0:
            # Somebody may be about to leave the planes that have cells.
            self.top = min(self.planes[1], self.top + SPARE_PLANES)
            self._make_sorter()
        self._find_cells()

    def _note_counts(self) -> None:
        self.counts = self._counted()

    def _balance(self) -> None:
        """Every few steps, cut anew where loads have drifted apart, and sort again."""
        if self.step % BALANCE_EVERY != 0:
            return
        low, high = self.planes
        mine = np.zeros(high - low, np.int64)
        mine[: self.top - low] = self._counted()
        counts = np.concatenate(self._comm.allgather(mine))
        before = self.bounds
        if not is_unbalanced(counts, before, IMBALANCE):
            return
        sorted_before, edge = list(self._sorted), self.edge
        self._cut(counts)
        self.held = self.owned
        if self.owned > self.capacity:
            self._allocate_part(self.owned)
        else:
            self._make_sorter()
        sends, receives = [], []
        for move in moves(before, self.bounds, counts):
            first = edge + move.first
            for array, was in zip((self.places, self.velocities), sorted_before, strict=True):
                if move.sender == move.receiver == self.rank:
                    self.device.copy(
                        was[first : first + move.rows], array[move.to : move.to + move.rows]
                    )
                elif move.sender == self.rank:
                    sends.append(Parcel(move.receiver, was, first, move.rows))
                elif move.receiver == self.rank:
                    receives.append(Parcel(move.sender, array, move.to, move.rows))
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()
        self.device.fill(self.cells, 0x00)
        self._find_cells()
        self._sort_rows(self.owned)

    def _rows_for(self, particles: int) -> int:
        return aligned(SPARE * particles + LEAST)

    @property
    def _start(self) -> Any:
        return self.algorithm.answer.start  # type: ignore[union-attr]

    def _start_row(self, plane: int) -> int:
        return (plane - self.planes[0]) * self._plane_cells

    @property
    def _start_value(self) -> int:
        return 0


class Master(Shared):
    """Rank 0 keeps all particles, sorts them, deals them out, and gets them back.

    Parts are equal up to a plane of cells.
    """

    decomposition = "master"

    def _own_phases(self) -> list[Phase]:
        return [
            ("cell ids", self._find_all_cells),
            ("sort", self._sort_all),
            ("exchange deal", self._deal),
            *self._densities(),
            ("exchange halo", self._begin_flow),
            ("force", lambda: self._on(self._forces_of, self._inner())),
            ("exchange halo", self._finish_flow),
            ("force", lambda: self._on(self._forces_of, *self._edges())),
            *self._contacts(),
            ("integrate", self._integrate_all),
            ("exchange return", self._return),
        ]

    @property
    def _kept_planes(self) -> tuple[int, int]:
        return 0, self.grid.cells[2] if self.rank == 0 else 0

    @property
    def _sorted_planes(self) -> tuple[int, int]:
        return self._kept_planes

    def _rows_for(self, particles: int) -> int:
        return particles if self.rank == 0 else aligned(SPARE * particles + LEAST)

    def _make_sorter(self) -> None:
        if self.rank == 0:
            super()._make_sorter()
        else:
            self._dealt_starts = self.device.empty(self.cells.shape[0], "int32")

    def _find_all_cells(self) -> None:
        if self.rank == 0:
            self._find_cells()

    def _sort_all(self) -> None:
        if self.rank == 0:
            self._sort_rows(self.particles)

    def _deal(self) -> None:
        """Cut anew, and send each rank its stretch of what is sorted."""
        self._cut(self._comm.bcast(self._counted() if self.rank == 0 else None))
        if self.owned > self.capacity:
            self._allocate_part(self.owned)
        if self.bodies:
            self.device.fill(self.cells, 0x00)  # bodies look into the planes of others
        sends, receives = [], []
        if self.rank == 0:
            for peer in range(1, self.team.ranks.size):
                first, rows = self._stretch_of(peer)
                sends += [Parcel(peer, array, self.edge + first, rows) for array in self._sorted]
                sends.append(Parcel(peer, self._start, *self._cells_of(peer)))
        else:
            receives = [Parcel(0, array, self.edge, self.owned) for array in self._sorted]
            receives.append(Parcel(0, self._start, 0, self._cells_of(self.rank)[1]))
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()

    def _return(self) -> None:
        """Send the particles back to rank 0, and end the step."""
        arrays = (self.places, self.velocities)
        sends, receives = [], []
        if self.rank == 0:
            for peer in range(1, self.team.ranks.size):
                receives += [Parcel(peer, array, *self._stretch_of(peer)) for array in arrays]
        else:
            sends = [Parcel(0, array, 0, self.owned) for array in arrays]
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()
        self.computed_rows = self.owned
        self.step += 1

    def _stretch_of(self, rank: int) -> tuple[int, int]:
        """Return the rows of a rank among all: the first, and how many."""
        first, last = (int(row) for row in self.first_of[rank : rank + 2])
        return first, last - first

    def _cells_of(self, rank: int) -> tuple[int, int]:
        """Return where the starts of a rank's cells are among all, and how many, with the end."""
        low = int(self.bounds[rank])
        return low * self._plane_cells, (self._top_of(rank) - low) * self._plane_cells + 1

    def _note_counts(self) -> None:
        """Leave the counts as they were dealt."""

    @property
    def _start(self) -> Any:
        return self.algorithm.answer.start if self.rank == 0 else self._dealt_starts  # type: ignore[union-attr]

    def _start_row(self, plane: int) -> int:
        return (plane - self.planes[0]) * self._plane_cells

    @property
    def _start_value(self) -> int:
        return int(self.first_of[self.rank])


DECOMPOSITIONS: Mapping[str, type[Shared]] = {kind.decomposition: kind for kind in (Slabs, Master)}


def aligned(rows: float) -> int:
    """Return at least so many rows, so that what begins behind them is aligned for a warp."""
    return math.ceil(rows / WARP) * WARP


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
