"""Master with a hash grid: as in silva2012, particles are structured first, then distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.decomposed.shared import Phase, Shared
from gpubench.decomposed.sph_ranks import SPHRows
from gpubench.distributed.team import together
from gpubench.distributed.transport import Parcel
from gpubench.physics.motion import rows_of
from gpubench.problems.cells.contract import CellList, HashedCells


class HashedMaster(SPHRows):
    """Rank 0 keeps all particles, and hashes and sorts them; all ranks compute equal shares.

    A hash scatters neighbours over all rows, so a share has no edge: each rank gets the positions
    of all particles and, before the forces, their densities.
    """

    decomposition = "master"

    def _require_shareable(self, algorithm: type[CellList], skin: float) -> None:
        if skin > 0:
            raise NotSupported("ranks share no lists of neighbours: the skin must be 0")

    @property
    def moves_with_forces(self) -> bool:
        return False

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        super()._keep_in(algorithm, form, parameters)
        self.rows = self.particles
        self.edge, self.owned = self._stretch_of(self.rank)

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        super(Shared, self).restore(state)

    def _stretch_of(self, rank: int) -> tuple[int, int]:
        """Return a rank's first row, and its number of rows."""
        first, last = (self.particles * r // self.team.ranks.size for r in (rank, rank + 1))
        return first, last - first

    @property
    def _peers(self) -> list[int]:
        return [peer for peer in range(self.team.ranks.size) if peer != self.rank]

    def _own_phases(self) -> list[Phase]:
        own = self.edge, self.edge + self.owned
        return [
            ("cell ids", self._find_cells if self.rank == 0 else lambda: None),
            ("sort", self._sort if self.rank == 0 else lambda: None),
            ("exchange deal", self._deal),
            ("density", lambda: self._densities_of(*own)),
            ("exchange densities", self._exchange_flow),
            ("force", lambda: self._forces_of(*own)),
            *self._contacts(),
            ("integrate", self._integrate_all),
            ("exchange return", self._return),
        ]

    def _deal(self) -> None:
        """Send the sorted particles and the hash table to all ranks."""
        answer = self.algorithm.answer
        assert isinstance(answer, HashedCells)
        self.current = [answer.positions, *self._sorted_columns]
        arrays = [*self.current, answer.bounds, answer.corner]
        if self.rank == 0:
            sends = [Parcel(peer, array, 0, len(array)) for peer in self._peers for array in arrays]
            self.team.transport.begin(sends, [])  # finished after rank 0's densities
        else:
            self._exchange([], [Parcel(0, array, 0, len(array)) for array in arrays])

    def _exchange_flow(self) -> None:
        if self.rank == 0:
            self.team.transport.finish()
        self._exchange(
            [Parcel(peer, self.flow, self.edge, self.owned) for peer in self._peers],
            [Parcel(peer, self.flow, *self._stretch_of(peer)) for peer in self._peers],
        )

    def _return(self) -> None:
        """Send the particles back to rank 0, and end the step."""
        arrays = self.places, self.state_columns[0]
        sends, receives = [], []
        if self.rank == 0:
            receives = [
                Parcel(peer, array, *self._stretch_of(peer))
                for peer in self._peers
                for array in arrays
            ]
        else:
            sends = [Parcel(0, array, 0, self.owned) for array in arrays]
        self._exchange(sends, receives)
        self.step += 1

    @together
    def computed(self, name: str) -> NDArray[Any]:
        found = self._collect(self._read_rows(getattr(self, name), self.edge, self.owned))
        ids = self.device.download(self.places).view(np.uint32)[: len(found), 3]
        return found[rows_of(ids)]
