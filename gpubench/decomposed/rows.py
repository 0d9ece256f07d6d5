"""The rows of a part of a box: inner planes, edges and halo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.decomposed.shared import Shared
from gpubench.workloads.cell_workload import BLOCK

LOW, HIGH = 0, 1


class PlaneRows(Shared):
    """The mapping of planes to rows of a part's arrays, and launches over rows.

    See `Planes`, which has the other attributes.
    """

    owned: int
    edge: int
    rows: int
    counts: NDArray[np.int64]
    halo: dict[int, NDArray[np.int64]]
    _plane_cells: int
    bounds: NDArray[np.int64]
    cells: Any
    _lay_starts: Any
    _comm: Any

    @property
    def planes(self) -> tuple[int, int]:
        """The first plane of this rank, and the end of its planes (exclusive)."""
        return int(self.bounds[self.rank]), int(self.bounds[self.rank + 1])

    @property
    def is_ring(self) -> bool:
        """Whether the first and the last rank are neighbours, through a periodic edge."""
        return self.box.periodic[2] and self.team.ranks.size > 1

    @property
    def candidates(self) -> tuple[Any, Any]:
        return self.cells, self.cells  # sorted cells need no second array

    # The rows and planes of each part of the box.

    def _neighbours(self) -> list[tuple[int, int]]:
        """Return each side that has a neighbour, and the neighbour's rank."""
        size = self.team.ranks.size
        beside = [(LOW, self.rank - 1), (HIGH, self.rank + 1)]
        return [(side, peer % size) for side, peer in beside if self.is_ring or 0 <= peer < size]

    def _wraps(self, side: int) -> bool:
        """Return whether the neighbour on a side is beyond the periodic edge."""
        return self.is_ring and self.rank == (0 if side == LOW else self.team.ranks.size - 1)

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

    def _inner_halves(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return two row ranges of the inner planes; the first contains the uppermost plane.

        So the forces of the edges are complete after the first half, even if the earlier particle
        of a pair computes the force on both.
        """
        first, last = self._inner()
        _, high = self._inner_planes()
        upper = int(self.counts[: high - self.planes[0]][-1]) if first < last else 0
        middle = min((first + last) // 2, last - upper)
        return (middle, last), (first, middle)

    def _edges(self) -> list[tuple[int, int]]:
        """Return the row ranges of this rank's planes outside the inner ones."""
        first, last = self._inner()
        return [(self.edge, first), (last, self.edge + self.owned)]

    def _halo_rows(self, side: int) -> tuple[int, int]:
        """Return the first row of a halo plane, and its number of rows.

        Rows are in the order of planes: beyond a periodic edge is the far end of all rows.
        """
        count = int(self.halo[side][0])
        nearer = int(self.halo[1 - side][0]) if self._wraps(side) else 0
        if (side == LOW) is not self._wraps(side):
            return self.edge - nearer - count, count
        return self.edge + self.owned + nearer, count

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

    def _tell_neighbours(
        self, told: Mapping[int, NDArray[np.int64]]
    ) -> dict[int, NDArray[np.int64]]:
        """Exchange a few numbers with the neighbour on each side, by MPI.

        One rank may be the neighbour on both sides: what it sends from its lower side comes first,
        and arrives at the upper side here.
        """
        heard = {side: np.empty_like(numbers) for side, numbers in told.items()}
        sides = self._neighbours()
        requests = [self._comm.Irecv(heard[side], peer) for side, peer in reversed(sides)]
        requests += [self._comm.Isend(told[side], peer) for side, peer in sides]
        for request in requests:
            request.Wait()
        return heard
