"""Master: rank 0 keeps all particles and distributes them in each step."""

from __future__ import annotations

from typing import Any

from gpubench.decomposed import room
from gpubench.decomposed.planes import Planes
from gpubench.decomposed.room import aligned
from gpubench.decomposed.shared import Phase
from gpubench.distributed.transport import Parcel


class Master(Planes):
    """Rank 0 keeps all particles, and in each step sorts, distributes and collects them.

    Parts are as equal as whole planes of cells allow.
    """

    decomposition = "master"

    def _own_phases(self) -> list[Phase]:
        return [
            ("cell ids", self._find_all_cells),
            ("sort", self._sort_all),
            ("exchange deal", self._deal),
            *self._to_forces(),
            ("force", lambda: self._forces_of(*self._inner())),
            ("exchange halo", self._finish_halo),
            ("force", self._edge_forces),
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
        return particles if self.rank == 0 else aligned(room.SPARE * particles + room.LEAST)

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
        """Divide the planes among the ranks anew; send each rank its part of the sorted rows."""
        self._cut(self._comm.bcast(self._counted() if self.rank == 0 else None))
        if self.owned > self.capacity:
            self._allocate_part(self.owned)
        self.device.fill(self.cells, 0x00)  # some work reads cells in the planes of other ranks
        sends, receives = [], []
        if self.rank == 0:
            for peer in range(1, self.team.ranks.size):
                first, rows = self._stretch_of(peer)
                sends += [Parcel(peer, array, self.edge + first, rows) for array in self.current]
                sends.append(Parcel(peer, self._start, *self._cells_of(peer)))
        else:
            receives = [Parcel(0, array, self.edge, self.owned) for array in self.current]
            receives.append(Parcel(0, self._start, 0, self._cells_of(self.rank)[1]))
        self._exchange(sends, receives)

    def _return(self) -> None:
        """Send the particles back to rank 0, and end the step."""
        sends, receives = [], []
        if self.rank == 0:
            for peer in range(1, self.team.ranks.size):
                receives += [Parcel(peer, array, *self._stretch_of(peer)) for array in self._kept]
        else:
            sends = [Parcel(0, array, 0, self.owned) for array in self._kept]
        self._exchange(sends, receives)
        self.computed_rows = self.owned
        self.step += 1

    def _stretch_of(self, rank: int) -> tuple[int, int]:
        """Return a rank's first row among all rows, and its number of rows."""
        first, last = (int(row) for row in self.first_of[rank : rank + 2])
        return first, last - first

    def _cells_of(self, rank: int) -> tuple[int, int]:
        """Return the offset of a rank's cell starts, and their number, including the end."""
        low = int(self.bounds[rank])
        return low * self._plane_cells, (self._top_of(rank) - low) * self._plane_cells + 1

    def _note_counts(self) -> None:
        """Do nothing: `_deal` has set the counts."""

    @property
    def _start(self) -> Any:
        return self.algorithm.answer.start if self.rank == 0 else self._dealt_starts  # type: ignore[union-attr]

    @property
    def _start_value(self) -> int:
        return int(self.first_of[self.rank])
