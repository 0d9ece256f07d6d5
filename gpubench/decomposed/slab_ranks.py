"""Slabs: each rank keeps its particles."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpubench.decomposed import room
from gpubench.decomposed.room import aligned
from gpubench.decomposed.rows import Phase
from gpubench.decomposed.shared import Shared
from gpubench.distributed.slabs import is_unbalanced, moves
from gpubench.distributed.transport import Parcel
from gpubench.workloads.cell_workload import BLOCK


class Slabs(Shared):
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
        """Return the phases that add the bodies' forces, after all others, and move everything."""
        return [
            ("force", lambda: self._on(self._forces_of, self._inner_half(1))),
            *self._contacts(),
            ("integrate", self._integrate_all),
            ("exchange particles", self._look_for_leavers),
        ]

    def _integrate_edges(self) -> None:
        for first, last in self._edges():
            self._integrate_rows(first, last)  # even without particles, since it sets the clock

    def _look_for_leavers(self) -> None:
        """Queue the search for migrants in the outermost planes, and mark the exchange."""
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
        """Exchange migrants, and end the step."""
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
        self._exchange(sends, receives)
        self.computed_rows = self.owned
        self.owned = self.held - sum(left)
        self.step += 1

    def _grow(self, particles: int) -> None:
        """Allocate more rows; migrants and computed values are kept until the next step."""
        arrays = self.places, self.velocities
        kept = [self._read_rows(array, 0, self.owned) for array in arrays]
        self._allocate_rows(particles)
        for array, rows in zip((self.places, self.velocities), kept, strict=True):
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
        if self.step % room.BALANCE_EVERY != 0:
            return
        low, high = self.planes
        mine = np.zeros(high - low, np.int64)
        mine[: self.top - low] = self._counted()
        counts = np.concatenate(self._comm.allgather(mine))
        before = self.bounds
        if not is_unbalanced(counts, before, room.IMBALANCE):
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
        self._exchange(sends, receives)
        self.device.fill(self.cells, 0x00)
        self._find_cells()
        self._sort_rows(self.owned)

    def _rows_for(self, particles: int) -> int:
        return aligned(room.SPARE * particles + room.LEAST)

    @property
    def _start(self) -> Any:
        return self.algorithm.answer.start  # type: ignore[union-attr]

    @property
    def _start_value(self) -> int:
        return 0
