"""SPH by ranks: the launches on a rank's rows, and on planes of cells."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from gpubench.decomposed.planes import Planes
from gpubench.decomposed.shared import Phase, Shared
from gpubench.distributed.team import together
from gpubench.distributed.transport import Parcel
from gpubench.problems.cells.contract import CellList
from gpubench.workloads.cell_workload import BLOCK
from gpubench.workloads.sph import SPH, SPHKernels


class SPHRows(Shared, SPH):
    """The launches of an SPH step on some of the rows of a rank.

    owned: the number of rows that this rank computes, from row `edge` on.
    """

    owned: int
    edge: int
    rows: int

    def _densities_of(
        self, first: int, last: int, low: int | None = None, high: int | None = None
    ) -> None:
        """Queue computing the densities of some rows, only in a range of planes if given."""
        self.kernels.densities(
            self.device.blocks(last - first, BLOCK), BLOCK, self.current[0], self.coarse,
            self.current[1], *self.candidates, self.packed_box, self.kernels.fluid, self.clock,
            self.rows, first, last, low or 0, self.grid.cells[2] if high is None else high,
            self.flow, self.noted, self.notes,
        )  # fmt: skip

    def _forces_of(self, first: int, last: int) -> None:
        self.kernels.forces(
            self.device.blocks(last - first, BLOCK), BLOCK, self.current[0], self.flow,
            *self.candidates, self.noted, self.notes, self.packed_box, self.kernels.fluid,
            self.rows, first, last, self.force,
        )  # fmt: skip

    def _contacts(self) -> list[Phase]:
        if not self.bodies:
            return []
        return [
            ("couple", self._couple),
            ("exchange bodies", lambda: self.team.transport.add_up(self.on_device.pushes)),
        ]

    def _couple(self) -> None:
        self.on_device.place(self.kernels, self.packed_box)
        self.on_device.couple(
            self.kernels, self.current[0], self.flow, self.candidates, self.packed_box, self.rows,
            (self.edge, self.edge + self.owned), self._coupled_planes, self.force,
        )  # fmt: skip

    @property
    def _coupled_planes(self) -> tuple[int, int]:
        """The planes of cells with this rank's rows, end exclusive."""
        return 0, self.grid.cells[2]

    def _integrate_rows(self, first: int, last: int) -> None:
        self.kernels.integrate(
            self.device.blocks(last - first, BLOCK), BLOCK, self.current[0], self.flow, self.force,
            self.noted, self.since, self.packed_box, self.kernels.fluid, self.clock, first, last,
            self.edge, 0.0, self.places, self.state_columns[0], self.stale, self.fault,
        )  # fmt: skip

    def _integrate_all(self) -> None:
        self._integrate_rows(self.edge, self.edge + self.owned)
        if self.bodies:
            self.on_device.move(
                self.kernels, self.packed_box, self.clock, self.particles, self.fault
            )


class SPHPlanes(SPHRows, Planes):
    """SPH with the box divided by planes; positions travel for densities, and these for forces."""

    is_marked = True

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        super()._keep_in(algorithm, form, parameters)
        if self.bodies:
            self._allocate_bodies()

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        self.kernels = SPHKernels(self.device, self.constants, self)
        self._coarse_of = self.kernels.coarsen

    def _allocate_computed(self) -> list[Any]:
        device, rows = self.device, self.rows
        self.flow = device.empty((rows, 4), "float32")
        self.force = device.empty((rows, 4), "int32")
        self.noted = device.empty(rows, "int32")
        self.notes = device.empty(rows * self.noted_room, "int32")
        return [self.flow, self.force, self.noted, self.notes]

    def state(self) -> dict[str, NDArray[Any]]:
        state = super().state()
        if self.bodies:
            state["bodies"] = self.on_device.download_states()
        return state

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._take(state)
        if self.bodies:
            self.on_device.upload_states(state["bodies"])

    def _to_forces(self) -> list[Phase]:
        return [
            ("density", self._begin_own),
            ("exchange halo", self._begin_places),
            ("exchange halo", self._finish_places),
            ("density", lambda: self._on(self._densities_of, *self._edges())),
            ("exchange halo", self._begin_flow),
        ]

    def _begin_own(self) -> None:
        """Also queue the densities of the inner planes, whose rows need not be known yet."""
        super()._begin_own()
        self._densities_of(self.edge, self.edge + self.owned, *self._inner_planes())

    def _begin_flow(self) -> None:
        sides = self._neighbours()
        self.team.transport.begin(
            [Parcel(peer, self.flow, *self._edge_rows(side)) for side, peer in sides],
            [Parcel(peer, self.flow, *self._halo_rows(side)) for side, peer in reversed(sides)],
        )

    @property
    def _coupled_planes(self) -> tuple[int, int]:
        return self.planes

    @together
    def paint(self) -> None:
        """Queue drawing each rank's particles, and merging the pictures on rank 0."""
        picture = self.picture
        picture.clear()
        picture.draw(self.places, self.state_columns[0], self.packed_box, 0, self.held)
        pixels = len(picture.pixels)
        if self.rank != 0:
            self._exchange([Parcel(0, picture.pixels, 0, pixels)], [])
            return
        for peer in range(1, self.team.ranks.size):
            self._exchange([], [Parcel(peer, self._others_picture, 0, pixels)])
            picture.merge(self._others_picture)

    @cached_property
    def _others_picture(self) -> Any:
        return self.device.empty(len(self.picture.pixels), "int32")
