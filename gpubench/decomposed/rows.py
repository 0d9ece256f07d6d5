"""The rows of a part of a box: inner planes, edges and halo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.distributed.team import Team
from gpubench.distributed.transport import Parcel
from gpubench.workloads.cell_workload import BLOCK
from gpubench.workloads.sph import SPH

if TYPE_CHECKING:
    Shares = SPH
else:
    Shares = object

LOW, HIGH = 0, 1

Phase = tuple[str, Callable[[], None]]


class PlaneRows(Shares):
    """The mapping of planes to rows of a part's arrays, and launches over rows.

    See `Shared`, which has the other attributes.
    """

    team: ClassVar[Team]
    owned: int
    edge: int
    rows: int
    counts: NDArray[np.int64]
    halo: dict[int, NDArray[np.int64]]
    _plane_cells: int
    bounds: NDArray[np.int64]
    cells: Any
    coarse: Any
    _sorted: list[Any]
    _lay_starts: Any
    _comm: Any

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self.team.ranks.rank

    @property
    def planes(self) -> tuple[int, int]:
        """The first plane of this rank, and the end of its planes (exclusive)."""
        return int(self.bounds[self.rank]), int(self.bounds[self.rank + 1])

    @property
    def velocities(self) -> Any:
        """The velocity column of the state."""
        return self.state_columns[0]

    # The rows and planes of each part of the box.

    def _neighbours(self) -> list[tuple[int, int]]:
        """Return each side that has a neighbour, and the neighbour's rank."""
        last = self.team.ranks.size - 1
        found = [(LOW, self.rank - 1)] if self.rank > 0 else []
        return [*found, (HIGH, self.rank + 1)] if self.rank < last else found

    def _inner_planes(self) -> tuple[int, int]:
        """Return the range of planes that no neighbour's halo contains, end exclusive."""
        sides = [side for side, _ in self._neighbours()]
        low, high = self.planes
        return low + (LOW in sides), high - (HIGH in sides)

    def _edge_rows(self, side: int) -> tuple[int, int]:
        """Return the first row and the number of rows of the outermost plane on a side."""
        count = int(self.counts[0 if side == LOW else -1])
        return (self.edge if side == LOW else self.edge + self.owned - count), count

    def _inner(self) -> tuple[int, int]:
        """Return the range of rows of the inner planes, end exclusive."""
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
        """Return the row ranges of this rank's planes outside the inner ones."""
        first, last = self._inner()
        return [(self.edge, first), (last, self.edge + self.owned)]

    def _halo_rows(self, side: int, peer: int) -> tuple[int, int]:
        """Return the first row of a halo plane, and its number of rows."""
        count = int(self.halo[peer][0])
        return (self.edge - count if side == LOW else self.edge + self.owned), count

    # Which array holds the cell starts depends on the rank that sorted the particles.

    @property
    @abstractmethod
    def _start(self) -> Any:
        """The array of cell starts; this rank's planes are a slice of it."""

    def _start_row(self, plane: int) -> int:
        """Return the index in `_start` of the first cell of a plane."""
        return (plane - self.planes[0]) * self._plane_cells

    @property
    @abstractmethod
    def _start_value(self) -> int:
        """The value in `_start` for this rank's first cell."""

    # Launches and messages.

    def _on(self, work: Callable[[int, int], None], *stretches: tuple[int, int]) -> None:
        for first, last in stretches:
            if first < last:
                work(first, last)

    def _lay(self, source: Any, start: int, target: Any, to: int, count: int, shift: int) -> None:
        self._lay_starts(
            self.device.blocks(count, BLOCK), BLOCK, source, start, target, to, count, shift
        )

    def _coarsen(self, first: int, last: int) -> None:
        """Queue computing the coarse positions of some rows, for the first test of candidates."""
        assert self.kernels.coarsen is not None
        self.kernels.coarsen(
            self.device.blocks(last - first, BLOCK), BLOCK, self._sorted[0], self.packed_box,
            first, last, self.coarse,
        )  # fmt: skip

    def _densities_of(
        self, first: int, last: int, low: int | None = None, high: int | None = None
    ) -> None:
        """Queue computing the densities of some rows, only in a range of planes if given."""
        self.kernels.densities(
            self.device.blocks(last - first, BLOCK), BLOCK, self._sorted[0], self.coarse,
            self._sorted[1], self.cells, self.noted, self.packed_box, self.kernels.fluid,
            self.clock, self.rows, first, last, low or 0,
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

    def _exchange(self, sends: Sequence[Parcel], receives: Sequence[Parcel]) -> None:
        """Exchange rows, and make all work queued from now on wait for them."""
        self.team.transport.begin(sends, receives)
        self.team.transport.finish()

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
        """Return the rows of all ranks on rank 0, in order of ranks; none elsewhere."""
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
