"""Shared by all decompositions: a part of a box, its halo, and the phases of a step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.grid import Grid
from gpubench.decomposed import room
from gpubench.decomposed.room import aligned
from gpubench.decomposed.rows import HIGH, LOW, Phase, PlaneRows
from gpubench.devices.base import Device
from gpubench.distributed.slabs import cut
from gpubench.distributed.team import Team, together
from gpubench.distributed.transport import Parcel
from gpubench.physics.motion import rows_of
from gpubench.problems.cells.contract import CellList, CellListUpdate, SortedCells
from gpubench.workloads.cell_workload import BLOCK, InCells
from gpubench.workloads.sph import COARSE_BEHIND, SPHKernels
from gpubench.workloads.workload import Value


class Shared(PlaneRows):
    """Mixin that lets ranks share an SPH workload; it precedes the workload in the bases.

    Particles are kept in `held` rows of `places` and `state_columns`; some may have gone to another
    rank. In cell order, the `owned` rows start at row `edge`; the rows before and after hold the
    halo: planes copied from the neighbours below and above.

    bounds: the planes of each rank: bounds[rank] to bounds[rank + 1], exclusive.
    top: the end of this rank's planes that have cells; there are no particles above it.
    counts: number of particles in each plane of this rank below `top`.
    halo: for each neighbour, the number of particles in its adjacent plane, and the value of the
        plane's first cell start.
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

    @together
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self._own_phases():
                launch()

    def plain_steps(self, steps: int) -> None:
        self.advance(steps)

    @together
    def paint(self) -> None:
        """Queue drawing each rank's particles, and merging the pictures on rank 0."""
        picture = self.picture
        picture.clear()
        picture.draw(self.places, self.velocities, self.packed_box, 0, self.held)
        pixels = len(picture.pixels)
        if self.rank != 0:
            self._exchange([Parcel(0, picture.pixels, 0, pixels)], [])
            return
        for peer in range(1, self.team.ranks.size):
            self._exchange([], [Parcel(peer, self._others_picture, 0, pixels)])
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
        """Do one phase of a step; rank 0 calls this for all phases in order."""
        self._own_phases()[index][1]()

    def require_sound(self) -> None:
        self.device.write(self.fault, np.array(self.faults(), np.int32))
        super().require_sound()

    @together
    def faults(self) -> list[int]:
        """Return the earliest fault record of any rank, else zeros."""
        found = self.team.comm.allgather(self.device.download(self.fault).tolist())
        return min(
            (fault for fault in found if fault[0]),
            key=lambda fault: (fault[2], fault[1] % 2**32),
            default=found[0],
        )

    def outcome(self) -> dict[str, int | float | str]:
        """Return the name of the transport between ranks."""
        return {"transport": self.team.transport.name, **super().outcome()}

    @together
    def count_steps(self) -> None:
        InCells.count_steps(self)

    @together
    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of all particles on rank 0, and an empty state elsewhere."""
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
            self._take(state)  # every rank has drawn it
            return
        self.require_fitting(state)
        self.take(dict(state))

    @together
    def take(self, state: dict[str, NDArray[Any]]) -> None:
        """Take this rank's part of a state given by rank 0."""
        self._take(state)

    @together
    def computed(self, name: str) -> NDArray[Any]:
        rows = self.edge, self.computed_rows
        ids = self._collect(self._read_rows(self._sorted[0], *rows).view(np.uint32)[:, 3])
        found = self._collect(self._read_rows(getattr(self, name), *rows))
        return found[rows_of(ids)]

    # Making and storing the parts.

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
        self._set_clock()
        # Empty cells start and end at 0.
        device.fill(self.cells, 0x00)
        if self.bodies:
            self.on_device.upload_states(state["bodies"])

    @property
    def _kept_planes(self) -> tuple[int, int]:
        """The planes whose particles this rank keeps between steps."""
        return self.planes

    def _planes_of(self, places: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the plane of cells of each position; the box has walls along z."""
        cells = np.uint64(self.grid.cells[2])
        return ((places[:, 2].astype(np.uint64) * cells) >> np.uint64(31)).astype(np.int64)

    def _cut(self, counts: NDArray[np.int64]) -> None:
        """Assign planes to ranks; counts: particles in each plane of the box."""
        self.bounds = cut(counts, self.team.ranks.size)
        self.first_of = np.concatenate([[0], np.cumsum(counts)])[self.bounds]
        self._widest = int(counts.max())
        self._highest = int(np.flatnonzero(counts).max(initial=0))
        self.top = self._top_of(self.rank)
        self.counts = counts[self.planes[0] : self.top]
        self.owned = int(self.counts.sum())

    def _top_of(self, rank: int) -> int:
        """Return the end of a rank's planes with cells; the last rank omits empty upper planes."""
        low, high = (int(bound) for bound in self.bounds[rank : rank + 2])
        if rank < self.team.ranks.size - 1:
            return high
        return min(high, max(self._highest, low) + 1 + room.SPARE_PLANES)

    @abstractmethod
    def _rows_for(self, particles: int) -> int:
        """Return the number of rows to allocate for a number of particles."""

    def _allocate_part(self, particles: int) -> None:
        """Allocate rows for a number of particles, and for the halo planes."""
        self.edge = aligned(room.SPARE_EDGE * self._widest + room.LEAST)
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
        """Make the sort into cells, with an additional plane for empty rows."""
        cls, form, parameters = self._sorter
        nx, ny, _ = self.grid.cells
        low, high = self._sorted_planes
        cells = nx, ny, high - low + 1
        grid = Grid(cells, self.grid.low, self.grid.size, self.grid.periodic)
        self.algorithm = cls(self.device, self.capacity, grid, form, parameters)

    @property
    def _sorted_planes(self) -> tuple[int, int]:
        """The planes whose cells this rank sorts into."""
        return self.planes[0], self.top

    def _allocate_sorted(self) -> None:
        """Allocate the arrays in cell order, with room for the halo."""
        device, edge = self.device, self.edge
        self.rows = aligned(self.capacity) + 2 * edge
        self._leaving_rows = [device.empty((2 * edge, 4), "float32") for _ in range(2)]
        self._sorted = [device.empty((self.rows, 4), "float32") for _ in range(2)]
        self.flow = device.empty((self.rows, 4), "float32")
        self.force = device.empty((self.rows, 4), "int32")
        self.noted = device.empty(self.rows, "int32")
        self.notes = device.empty(self.rows * self.noted_room, "int32")
        self.coarse = device.empty(self.rows + COARSE_BEHIND, "uint32")
        self.workspace_bytes = sum(
            array.nbytes
            for array in (
                self.places, *self.state_columns, self._cell_of_part, self.cells,
                *self._leaving_rows, *self._sorted, self.flow, self.force, self.noted, self.notes,
                self.coarse,
            )
        )  # fmt: skip

    # The parts of a step common to all decompositions.

    @abstractmethod
    def _own_phases(self) -> list[Phase]:
        """Return the phases of this rank's part of a step."""

    def _densities(self) -> list[Phase]:
        """Return the phases from the sort to the densities of this rank's planes."""
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
        """Queue the sort, and copying the starts of the planes to the host."""
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
        """Return the particle counts of the sorted planes, once the device has them."""
        self._wait_for_counts()
        low, high = self._sorted_planes
        return np.diff(self._found.view(np.int32)[: high - low + 1]).astype(np.int64)

    def _inner_densities(self) -> None:
        """Queue the densities of the inner planes, whose rows need not be known yet.

        Rows to send are ready before this work ends, so the host can read their number meanwhile.
        """
        low, _ = self.planes
        self._lay(
            self._start, self._start_row(low), self.cells, low * self._plane_cells,
            (self.top - low) * self._plane_cells + 1, self.edge - self._start_value,
        )  # fmt: skip
        self.team.transport.mark()
        self._on(self._coarsen, (self.edge, self.edge + self.owned))
        self._densities_of(self.edge, self.edge + self.owned, *self._inner_planes())

    def _begin_places(self) -> None:
        """Send the positions of the edges, and their cell starts."""
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
        """Set `counts`, once the device has them."""

    def _finish_places(self) -> None:
        self.team.transport.finish()
        low, high = self.planes
        plane = self._plane_cells
        for side, peer in self._neighbours():
            _, begin = self.halo[peer]
            first, rows = self._halo_rows(side, peer)
            self._on(self._coarsen, (first, first + rows))
            # The end of the lower plane is the start of this rank's cells, which is already set.
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
        """Reallocate if an edge plane has more particles than rows."""
        most = max(counts, default=0)
        if most <= self.edge:
            return
        kept = [self._read_rows(array, self.edge, self.owned) for array in self._sorted]
        self.edge = aligned(room.SPARE_EDGE * most + room.LEAST)
        self._allocate_sorted()
        for array, rows in zip(self._sorted, kept, strict=True):
            self._write_rows(array, self.edge, rows)
        self._inner_densities()
