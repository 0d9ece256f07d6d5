"""Parts of a box: planes of cells for each rank, copies of adjacent planes, and a step's phases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.grid import Grid
from gpubench.decomposed import room
from gpubench.decomposed.room import aligned
from gpubench.decomposed.rows import HIGH, LOW, PlaneRows
from gpubench.decomposed.shared import Phase
from gpubench.devices.base import Kernel
from gpubench.distributed.slabs import cut
from gpubench.distributed.team import together
from gpubench.distributed.transport import Parcel
from gpubench.physics.motion import rows_of
from gpubench.problems.cells.contract import CellList, CellListUpdate, SortedCells
from gpubench.workloads.cell_workload import BLOCK
from gpubench.workloads.sph import COARSE_BEHIND


class Planes(PlaneRows):
    """Base of workloads whose box ranks divide by planes of sorted cells.

    Particles are kept in `held` rows of `places` and `state_columns`; some may have gone to another
    rank. In cell order, the `owned` rows start at row `edge`; the rows before and after hold the
    halo: planes copied from the neighbours below and above.

    bounds: the planes of each rank: bounds[rank] to bounds[rank + 1], exclusive.
    top: the end of this rank's planes that have cells; there are no particles above it.
    counts: number of particles in each plane of this rank below `top`.
    halo: for each neighbour, the number of particles in its adjacent plane, and the value of the
        plane's first cell start.
    """

    held: int
    top: int
    is_marked: bool  # whether candidates are tested by coarse positions first
    _coarse_of: Kernel | None  # computes these

    def _require_shareable(self, algorithm: type[CellList], skin: float) -> None:
        if algorithm.shape() is not SortedCells or issubclass(algorithm, CellListUpdate):
            raise NotSupported(
                f"{algorithm.name} does not sort anew, which parts of a box need: choose an"
                " algorithm that does, such as counting-sort"
            )
        if skin > 0:
            raise NotSupported("parts of a box keep no lists of neighbours: the skin must be 0")

    @together
    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state of all particles on rank 0, and an empty state elsewhere."""
        mine = [self._read_rows(array, 0, self.held) for array in self._kept]
        planes = self._planes_of(mine[0].view(np.uint32))
        low, high = self._kept_planes
        here = (planes >= low) & (planes < high)
        places, *columns = (self._collect(rows[here]) for rows in mine)
        return {
            "step": np.array(self.step, np.int64),
            "places": places.view(np.uint32),
            **dict(zip(self.columns, columns, strict=True)),
        }

    @together
    def computed(self, name: str) -> NDArray[Any]:
        rows = self.edge, self.computed_rows
        ids = self._collect(self._read_rows(self.current[0], *rows).view(np.uint32)[:, 3])
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
        self._room = self._capacity = self._part_bytes = 0
        self.scatters = False
        self._comm = self.team.comm.Dup()

    def _prepare_kernels(self) -> None:
        constants = {**self.constants, "COLUMNS": len(self.columns)}
        self._gather = self.device.kernel("in_cells.cu", "gather", **constants, GATHER_PLACES=1)
        self._cells_of_part, self._find_leavers, self._find_plane_starts, self._lay_starts = (
            self.device.kernel("slabs.cu", name, **constants)
            for name in ("cells_of_part", "find_leavers", "plane_starts", "lay_starts")
        )

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.step = int(state["step"])
        places = state["places"].view(np.uint32)
        planes = self._planes_of(places)
        self._cut(np.bincount(planes, minlength=self.grid.cells[2]))
        self.computed_rows = 0
        low, high = self._kept_planes
        mine = (planes >= low) & (planes < high)
        self.held = int(mine.sum())
        self._allocate_part(max(self.held, self.owned))
        for array, name in zip(self._kept, ("places", *self.columns), strict=True):
            self._write_rows(array, 0, state[name][mine])
        self._set_clock()
        # Empty cells start and end at 0.
        self.device.fill(self.cells, 0x00)

    @property
    def _kept(self) -> list[Any]:
        """The arrays of the state."""
        return [self.places, *self.state_columns]

    @property
    def _kept_planes(self) -> tuple[int, int]:
        """The planes whose particles this rank keeps between steps."""
        return self.planes

    def _planes_of(self, places: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the plane of cells of each position."""
        cells, bits = np.uint64(self.grid.cells[2]), np.uint64(32 if self.box.periodic[2] else 31)
        return ((places[:, 2].astype(np.uint64) * cells) >> bits).astype(np.int64)

    def _cut(self, counts: NDArray[np.int64]) -> None:
        """Assign planes to ranks; counts: particles in each plane of the box."""
        ranks = self.team.ranks.size
        # Two ranks of a ring are neighbours on both sides, so each has two planes to copy.
        self.bounds = cut(counts, ranks, least=2 if self.is_ring and ranks == 2 else 1)
        self.first_of = np.concatenate([[0], np.cumsum(counts)])[self.bounds]
        self._widest = int(counts.max())
        self._highest = int(np.flatnonzero(counts).max(initial=0))
        self.top = self._top_of(self.rank)
        self.counts = counts[self.planes[0] : self.top]
        self.owned = int(self.counts.sum())

    def _top_of(self, rank: int) -> int:
        """Return the end of a rank's planes with cells; the last rank omits empty upper planes."""
        low, high = (int(bound) for bound in self.bounds[rank : rank + 2])
        if rank < self.team.ranks.size - 1 or self.box.periodic[2]:
            return high
        return min(high, max(self._highest, low) + 1 + room.SPARE_PLANES)

    @property
    def _spare(self) -> float:
        """The rows to allocate per particle."""
        return room.SPARE

    @abstractmethod
    def _rows_for(self, particles: int) -> int:
        """Return the number of rows to allocate for a number of particles."""

    def _allocate_part(self, particles: int) -> None:
        """Allocate rows for a number of particles, and for the halo planes."""
        self.edge = self._room_beside(self._widest)
        self._allocate_rows(particles)
        self._allocate_sorted()

    def _room_beside(self, most: int) -> int:
        """Return the rows for the halo on one side; both planes of a ring's end are there."""
        return aligned(room.SPARE_EDGE * most * (2 if self.is_ring else 1) + room.LEAST)

    def _allocate_rows(self, particles: int) -> None:
        device = self.device
        self.capacity = self._rows_for(particles)
        self.places = device.empty((self.capacity, 4), "float32")
        self.state_columns = [device.empty((self.capacity, 4), "float32") for _ in self.columns]
        self._cell_of_part = device.empty(self.capacity, "int32")
        self._make_sorter()

    def _make_sorter(self) -> None:
        """Make the sort into cells."""
        low, high = self._sorted_planes
        self._sort_into(high - low)

    def _sort_into(self, planes: int) -> None:
        """Make a sort into so many planes of cells, and an additional one for empty rows."""
        cls, form, parameters = self._sorter
        nx, ny, _ = self.grid.cells
        cells = nx, ny, planes + 1
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
        self._leaving_rows = [device.empty((2 * edge, 4), "float32") for _ in self._kept]
        self.current = [device.empty((self.rows, 4), "float32") for _ in self._kept]
        self.coarse = device.empty(self.rows + COARSE_BEHIND if self.is_marked else 0, "uint32")
        before, self._part_bytes = self._part_bytes, sum(
            array.nbytes
            for array in (
                *self._kept, self._cell_of_part, self.cells, *self._leaving_rows, *self.current,
                self.coarse, *self._allocate_computed(),
            )
        )  # fmt: skip
        self.workspace_bytes += self._part_bytes - before

    @abstractmethod
    def _allocate_computed(self) -> list[Any]:
        """Allocate and return the arrays of `rows` rows that a step computes."""
        return []

    # The parts of a step common to all decompositions.

    @abstractmethod
    def _to_forces(self) -> list[Phase]:
        """Return the phases from the sort until the halo of the forces travels."""

    def _finish_halo(self) -> None:
        """Wait for the halo of the forces."""
        self.team.transport.finish()

    @abstractmethod
    def _forces_of(self, first: int, last: int) -> None:
        """Queue the forces on some rows."""

    def _edge_forces(self) -> None:
        """Queue the forces on the rows of the edges."""
        self._on(self._forces_of, *self._edges())

    def _contacts(self) -> list[Phase]:
        """Return the phases that add to the forces once all others are known."""
        return []

    @abstractmethod
    def _integrate_rows(self, first: int, last: int) -> None:
        """Queue moving some rows."""

    def _integrate_all(self) -> None:
        self._integrate_rows(self.edge, self.edge + self.owned)

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
            self.device.blocks(rows, BLOCK), BLOCK, answer.order, self.places,
            self.state_columns[0], self.state_columns[-1], *self.current[:2], self.current[-1],
            rows, self.edge,
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

    def _begin_own(self) -> None:
        """Queue what needs neither the halo nor the number of rows in each plane.

        Rows to send are ready before this work ends, so the host can read their number meanwhile.
        """
        low, _ = self.planes
        self._lay(
            self._start, self._start_row(low), self.cells, low * self._plane_cells,
            (self.top - low) * self._plane_cells + 1, self.edge - self._start_value,
        )  # fmt: skip
        self.team.transport.mark()
        self._coarsen(self.edge, self.owned)

    def _coarsen(self, first: int, rows: int) -> None:
        """Queue computing the coarse positions of some rows, if a kernel reads any."""
        if self.is_marked and rows:
            assert self._coarse_of is not None
            self._coarse_of(
                self.device.blocks(rows, BLOCK), BLOCK, self.current[0], self.packed_box, first,
                first + rows, self.coarse,
            )  # fmt: skip

    def _begin_places(self) -> None:
        """Send the rows of the edges, and their cell starts."""
        self._note_counts()
        told = {}
        sides = self._neighbours()
        for side, _ in sides:
            first, count = self._edge_rows(side)
            told[side] = np.array([count, first - self.edge + self._start_value], np.int64)
        self.halo = self._tell_neighbours(told)
        self._require_room(*(int(count) for count, _ in (*told.values(), *self.halo.values())))
        low, high = self.planes
        plane = self._plane_cells
        sends, receives = [], []
        for side, peer in sides:
            at = self._start_row(low if side == LOW else high - 1)
            sends += [Parcel(peer, array, *self._edge_rows(side)) for array in self._travelling]
            sends.append(Parcel(peer, self._start, at, plane + 1))
        for side, peer in reversed(sides):
            receives += [Parcel(peer, array, *self._halo_rows(side)) for array in self._travelling]
            receives.append(Parcel(peer, self._edge_starts[side], 0, plane + 1))
        self.team.transport.begin(sends, receives)

    @property
    def _travelling(self) -> list[Any]:
        """The arrays in cell order whose edges travel first."""
        return self.current[:1]

    @abstractmethod
    def _note_counts(self) -> None:
        """Set `counts`, once the device has them."""

    def _finish_places(self) -> None:
        self.team.transport.finish()
        low, high = self.planes
        plane = self._plane_cells
        for side, _ in self._neighbours():
            _, begin = self.halo[side]
            first, rows = self._halo_rows(side)
            self._coarsen(first, rows)
            beside = (low - 1 if side == LOW else high) % self.grid.cells[2]
            # The end of the lower plane is the start of this rank's cells, which is already set.
            count = plane if beside == low - 1 else plane + 1
            self._lay(
                self._edge_starts[side], 0, self.cells, beside * plane, count, first - int(begin)
            )

    def _require_room(self, *counts: int) -> None:
        """Reallocate if an edge plane has more particles than rows."""
        most = max(counts, default=0)
        if most * (2 if self.is_ring else 1) <= self.edge:
            return
        kept = [self._read_rows(array, self.edge, self.owned) for array in self.current]
        self.edge = self._room_beside(most)
        self._allocate_sorted()
        for array, rows in zip(self.current, kept, strict=True):
            self._write_rows(array, self.edge, rows)
        self._begin_own()
