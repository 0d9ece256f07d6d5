"""Slabs: each rank keeps its particles."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpubench.decomposed import room
from gpubench.decomposed.planes import Planes
from gpubench.decomposed.room import aligned
from gpubench.decomposed.shared import Phase
from gpubench.distributed.slabs import is_unbalanced, moves
from gpubench.distributed.transport import Parcel
from gpubench.workloads.cell_workload import BLOCK


class Slabs(Planes):
    """Each rank keeps its particles.

    No particle moves further than a cell in a step, so migrants come from an outermost plane: these
    planes are moved first, and migrants travel while the inner planes are computed.
    """

    decomposition = "slab"

    def _own_phases(self) -> list[Phase]:
        return [
            ("cell ids", self._find_own_cells),
            ("sort", lambda: self._sort_rows(self.owned)),
            ("exchange balance", self._balance),
            *self._to_forces(),
            ("force", lambda: self._forces_of(*self._inner_halves()[0])),
            ("exchange halo", self._finish_halo),
            ("force", self._edge_forces),
            *(self._move_after(contacts) if (contacts := self._contacts()) else self._move()),
            ("exchange particles", self._hand_over),
        ]

    def _move(self) -> list[Phase]:
        return [
            ("integrate", self._integrate_edges),
            ("exchange particles", self._look_for_leavers),
            ("force", lambda: self._on(self._forces_of, self._inner_halves()[1])),
            ("integrate", lambda: self._on(self._integrate_rows, self._inner())),
        ]

    def _move_after(self, contacts: list[Phase]) -> list[Phase]:
        """Return the phases that move everything by forces to which contacts are added last."""
        return [
            ("force", lambda: self._on(self._forces_of, self._inner_halves()[1])),
            *contacts,
            ("integrate", self._integrate_all),
            ("exchange particles", self._look_for_leavers),
        ]

    def _integrate_edges(self) -> None:
        for first, last in self._edges():
            self._integrate_rows(first, last)  # even without particles, since it sets the clock

    def _look_for_leavers(self) -> None:
        """Queue the search for migrants in the outermost planes, and mark the exchange."""
        self.device.fill(self._leaving, 0x00)
        low, high = self.planes
        above = high % self.grid.cells[2] if self.is_ring else high
        for first, last in self._edges():
            self._find_leavers(
                self.device.blocks(last - first, BLOCK), BLOCK, self.places,
                self.state_columns[0], self.state_columns[-1], self.packed_box, low, high, above,
                first - self.edge, last - self.edge, self.edge, *self._leaving_rows[:2],
                self._leaving_rows[-1], self._leaving,
            )  # fmt: skip
        self._wait_for_leavers = self.device.read_rows(self._leaving, 0, self._left)
        self.team.transport.mark()

    def _hand_over(self) -> None:
        """Exchange migrants, and end the step."""
        self._wait_for_leavers()
        left = [int(count) for count in self._left.view(np.int32)]
        sides = self._neighbours()
        told = {side: np.array([left[side]], np.int64) for side, _ in sides}
        came = {side: int(count[0]) for side, count in self._tell_neighbours(told).items()}
        self.held = self.owned + sum(came.values())
        if self.held > self.capacity:
            self._grow(self.held)
        sends, receives, row = [], [], self.owned
        for side, peer in sides:
            begin = side * self.edge
            sends += [Parcel(peer, array, begin, left[side]) for array in self._leaving_rows]
        for side, peer in reversed(sides):
            receives += [Parcel(peer, array, row, came[side]) for array in self._kept]
            row += came[side]
        self._exchange(sends, receives)
        self.computed_rows = self.owned
        self.owned = self.held - sum(left)
        self.step += 1

    def _grow(self, particles: int) -> None:
        """Allocate more rows; migrants and computed values are kept until the next step."""
        kept = [self._read_rows(array, 0, self.owned) for array in self._kept]
        self._allocate_rows(particles)
        for array, rows in zip(self._kept, kept, strict=True):
            self._write_rows(array, 0, rows)

    def _find_own_cells(self) -> None:
        if self.rows < aligned(self.capacity) + 2 * self.edge:
            self._allocate_sorted()
        if self.top < self.planes[1] and self.counts[-1] > 0:
            # Particles may soon rise above the planes that have cells.
            self.top = min(self.planes[1], self.top + room.SPARE_PLANES)
            self._make_sorter()
        self._find_cells()

    def _note_counts(self) -> None:
        self.counts = self._counted()

    def _balance(self) -> None:
        """Every BALANCE_EVERY steps, cut and sort again if loads have become unequal."""
        if self.step % room.BALANCE_EVERY == 0:
            self._cut_again(room.IMBALANCE)

    def _cut_again(self, tolerance: float) -> None:
        """Cut and sort again if loads are so unequal; see `is_unbalanced`."""
        low, high = self.planes
        mine = np.zeros(high - low, np.int64)
        mine[: self.top - low] = self._counted()
        counts = np.concatenate(self._comm.allgather(mine))
        before = self.bounds
        if not is_unbalanced(counts, before, tolerance):
            return
        sorted_before, edge = list(self.current), self.edge
        self._cut(counts)
        self.held = self.owned
        if self.owned > room.FULL_SHARE * self.capacity:  # else the next block would ask for a cut
            self._allocate_part(self.owned)
        else:
            self._make_sorter()
        sends, receives = [], []
        for move in moves(before, self.bounds, counts):
            first = edge + move.first
            for array, was in zip(self._kept, sorted_before, strict=True):
                if move.sender == move.receiver == self.rank:
                    self.device.copy(
                        was[first : first + move.rows], array[move.to : move.to + move.rows]
                    )
                elif move.sender == self.rank:
                    sends.append(Parcel(move.receiver, was, first, move.rows))
                elif move.receiver == self.rank:
                    receives.append(Parcel(move.sender, array, move.to, move.rows))
        self._exchange(sends, receives)
        self.device.fill(self.cells, 0x00)
        self._find_cells()
        self._sort_rows(self.owned)

    def _rows_for(self, particles: int) -> int:
        return aligned(self._spare * particles + room.LEAST)

    @property
    def _start(self) -> Any:
        return self.algorithm.answer.start  # type: ignore[union-attr]

    @property
    def _start_value(self) -> int:
        return 0
