"""Slabs of DPD without hosts: positions and velocities of the halo travel once a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.decomposed.direct import DirectSlabs
from gpubench.decomposed.dpd_ranks import DPDPlanes
from gpubench.decomposed.shared import Phase
from gpubench.workloads.cell_workload import BLOCK


class DirectDPD(DirectSlabs, DPDPlanes):
    """DPD by slabs without hosts, a ring of them where z is periodic."""

    sent: ClassVar[Mapping[str, tuple[str, ...]]] = {"places": ("places", "drags", "starts")}

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        constants = self._of_step
        if self.device.backend != "cuda":
            constants["DEFER"] = 0  # functions of OpenCL C have no local memory
        self._forces_in, self._integrate_in = (
            self.device.kernel("dpd_slabs.cu", name, **constants)
            for name in ("forces_of", "integrate_of")
        )

    @property
    def _of_halo(self) -> dict[str, int]:
        return {"HALO_COLUMN": 1, "ONCE": int(self._pairs_once)}

    @property
    def _beside_rows(self) -> list[Any]:
        return [self._force]

    def _computing(self) -> list[Phase]:
        return [
            ("force", lambda: self._add_forces_in(0, 4)),
            ("integrate", lambda: self._move_in(0, 2)),
        ]

    def _computing_pieces(self) -> list[Phase]:
        return [
            ("force", lambda: self._add_forces_in(1, 2)),
            ("exchange halo", lambda: self._awaiting("places", self._add_forces_in, 0, 1)),
            ("force", lambda: self._add_forces_in(2, 4)),
            ("integrate", lambda: self._sending("movers", self._move_in, 0, 1)),
            ("integrate", lambda: self._move_in(1, 2)),
        ]

    def _add_forces_in(self, first: int, last: int) -> None:
        """Queue some pieces: taking the halo, the inner planes, the edges, and the halo's share."""
        edges = 2 * self._per_side
        inner, beyond = self.device.blocks(self.capacity, BLOCK), edges * self._pairs_once
        self._launch(
            self._forces_in, (self._takers, inner, edges, beyond), first, last, 2,
            self.sent["places"], self.current[0], self.coarse, self.current[-1], self.cells,
            self.packed_box, self._packed_fluid, self.clock, self.reach, self.rows, self._part,
            self._force,
        )  # fmt: skip

    def _move_in(self, first: int, last: int) -> None:
        """Queue moving the edges, or the inner planes, or both."""
        ends = 0, 2 * self._per_side, 2 * self._per_side + self.device.blocks(self.capacity, BLOCK)
        self._integrate_in(
            ends[last] - ends[first], BLOCK, ends[first], self._per_side, *self._flags(),
            *self.current[:2], self._force, self.packed_box, self._packed_fluid, self.clock,
            self._part, self._box_rows, *self._moving_to(),
        )  # fmt: skip
