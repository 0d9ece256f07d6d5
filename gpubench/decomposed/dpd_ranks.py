"""DPD by ranks, on planes of cells: positions and velocities of the halo travel once a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.decomposed import room
from gpubench.decomposed.planes import Planes
from gpubench.decomposed.shared import Phase
from gpubench.distributed.team import together
from gpubench.problems.cells.contract import CellList
from gpubench.workloads.cell_workload import BLOCK
from gpubench.workloads.dpd import DPD
from gpubench.workloads.workload import State

MOVING = ("integrate", "exchange particles", "exchange return")  # phases that change the state


class DPDPlanes(Planes, DPD):
    """DPD with the box divided by planes.

    Where the first particle of a pair computes the force on both, the particles of the halo before
    this rank's compute the forces on its edge; what they add to the halo is not used.
    """

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        self._choose_parts()
        super()._keep_in(algorithm, form, parameters)

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        self._coarse_of = self.device.kernel("slabs.cu", "coarsen", BLOCK=BLOCK, COLUMNS=1)
        self._compile_step()

    def _allocate_computed(self) -> list[Any]:
        self._force = self.device.empty((self.rows, 4), "float32")
        # The clock of this step, for forces that are queued after part of the box has moved.
        self._now = self.device.empty((2, 4), "uint32")
        return [self._force, self._now]

    @property
    def _spare(self) -> float:
        return room.SPARE_OF_EVEN if self.is_ring else super()._spare

    @property
    def _travelling(self) -> list[Any]:
        return [self.current[0], self.current[-1]]

    def _to_forces(self) -> list[Phase]:
        return [("exchange halo", self._begin_halo)]

    def _begin_halo(self) -> None:
        self._begin_own()
        self._begin_places()
        self.device.copy(self.clock[:1], self.clock[1:])
        self.device.copy(self.clock, self._now)
        if self._pairs_once:
            self.device.fill(self._force, 0x00)

    def _finish_halo(self) -> None:
        self._finish_places()

    def _forces_of(self, first: int, last: int) -> None:
        self._forces(
            self.device.blocks(last - first, BLOCK), BLOCK, self.current[0], self.coarse,
            self.current[-1], *self.candidates, self.packed_box, self._packed_fluid, self._now,
            self.reach, self.rows, first, last, self._force,
        )  # fmt: skip

    def _edge_forces(self) -> None:
        (first, end), upper = self._edges()
        if self._pairs_once:
            first = min([first, *(self._halo_rows(side)[0] for side, _ in self._neighbours())])
        self._on(self._forces_of, (first, end), upper)

    def _integrate_rows(self, first: int, last: int) -> None:
        places, velocities, *_ = self.current
        self._leap(
            self.device.blocks(last - first, BLOCK), BLOCK, places, velocities, self._force,
            self.cells, self.since, self.packed_box, self._packed_fluid, self.clock, first, last,
            self.edge, 0.0, self.places, self.state_columns[0], self.state_columns[-1],
            self._cell_of_part, self.stale, self.fault,
        )  # fmt: skip

    def felt(self, after: State) -> NDArray[np.float32]:
        by_id: NDArray[np.float32] = self.computed("_force")
        return by_id[after["places"][:, 3]]

    def coming_forces(self) -> list[NDArray[Any]]:
        found = self.collected_forces()
        self.require_sound()
        return found

    @together
    def collected_forces(self) -> list[NDArray[Any]]:
        """Gather on rank 0 all ranks' places, half-step velocities and forces of the next step."""
        for name, launch in self._phases_with_hosts():
            if name not in MOVING:
                launch()
        arrays = (*self.current[:2], self._force)
        return [self._collect(self._read_rows(array, self.edge, self.owned)) for array in arrays]
