"""Slabs of SPH without hosts: positions travel for densities, and these for forces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.decomposed.direct import DirectSlabs
from gpubench.decomposed.shared import Phase
from gpubench.decomposed.sph_ranks import SPHPlanes
from gpubench.workloads.cell_workload import BLOCK


class DirectSPH(DirectSlabs, SPHPlanes):
    """SPH by slabs without hosts, except with bodies."""

    sent: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "places": ("places", "starts"), "flow": ("flow",)
    }  # fmt: skip

    @property
    def needs_hosts(self) -> bool:
        return bool(self.bodies)

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        of_sph = {
            **self.constants, "MOVES": 1, "NEAR": self.noted_room,
            "SYMPLECTIC": int(self.parameters["integrator"] == "symplectic"),
        }  # fmt: skip
        self._densities_in, self._forces_in = (
            self.device.kernel("sph_slabs.cu", name, **of_sph)
            for name in ("densities_of", "forces_of")
        )

    def paint(self) -> None:
        self.settle()
        super().paint()

    def _computing(self) -> list[Phase]:
        return [("density", lambda: self._densities(0, 3)), ("force", lambda: self._forces(0, 5))]

    def _computing_pieces(self) -> list[Phase]:
        return [
            ("density", lambda: self._densities(1, 2)),
            ("exchange halo", lambda: self._awaiting("places", self._densities, 0, 1)),
            ("density", lambda: self._densities(2, 3)),
            ("exchange halo", lambda: self._sending("flow", self._forces, 0, 1)),
            ("force", lambda: self._forces(2, 3)),
            ("exchange halo", lambda: self._awaiting("flow", self._forces, 1, 2)),
            ("force", lambda: self._sending("movers", self._forces, 3, 4)),
            ("force", lambda: self._forces(4, 5)),
        ]

    def _densities(self, first: int, last: int) -> None:
        """Queue some of the pieces: taking the halo, the inner planes, and the edges."""
        inner, edges = self.device.blocks(self.capacity, BLOCK), 2 * self._per_side
        self._launch(
            self._densities_in, (self._takers, inner, edges), first, last, 2, ("places", "starts"),
            self.current[0], self.coarse, self.current[1], self.cells, self.packed_box,
            self.kernels.fluid, self.clock, self.rows, self._part, self.flow, self.noted,
            self.notes,
        )  # fmt: skip

    def _forces(self, first: int, last: int) -> None:
        """Queue some pieces: sending, taking the halo, half the inner planes, edges, the rest."""
        half = self.device.blocks(self.capacity // 2 + BLOCK, BLOCK)
        pieces = self._takers, self._takers, half, 2 * self._per_side, half
        self._launch(
            self._forces_in, pieces, first, last, 3, ("flow", "starts"), self.current[0], self.flow,
            self.cells, self.noted, self.notes, self.packed_box, self.kernels.fluid, self.clock,
            self.rows, self._part, self._box_rows, *self._both("theirs", "flow"),
            *self._moving_to(), self.force,
        )  # fmt: skip
