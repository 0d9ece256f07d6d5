"""Cells of a fixed capacity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.problems.cells.contract import CellList, LimitedCells

BLOCK = 256


class FixedCapacity(CellList):
    """Harada's limited buckets: excess particles are dropped and counted, by default an error."""

    name = "fixed-capacity"
    loses = "lost"
    summary = "limited buckets: each particle takes the next slot of its cell while there is one"
    source = "Harada, Koshizuka and Kawaguchi 2007; rozen2008, section 1"
    forms: ClassVar[Mapping[str, Form]] = {"one-pass": Form("atomic addition for the slot")}
    defaults: ClassVar[Mapping[str, int]] = {"capacity": 4, "allow_overflow": 0}
    # Some cases put all particles in one cell: a correct answer loses some, and counts them.
    conformance_parameters: ClassVar[Mapping[str, int]] = {"allow_overflow": 1}

    def prepare(self) -> None:
        device, grid = self.device, self.grid
        capacity, allow_overflow = self.parameters["capacity"], self.parameters["allow_overflow"]
        if capacity < 1:
            raise UserError(f"the capacity must be at least 1 particle a cell, not {capacity}")
        if allow_overflow not in (0, 1):
            raise UserError(f"allow_overflow must be 0 or 1, not {allow_overflow}")
        self._counts = self.allocate(grid.count, "int32")
        self._slots = self.allocate((grid.count, capacity), "int32")
        self._lost = self.allocate(1, "int32")
        self._fill_slots = device.kernel(
            "fixed_capacity.cu", "fill_slots", BLOCK=BLOCK, CAPACITY=capacity
        )

    def build(self, cell_of: Any, positions: Any) -> None:
        device = self.device
        device.fill(self._counts, 0x00)
        device.fill(self._lost, 0x00)
        self._fill_slots(
            device.blocks(self.particles, BLOCK), BLOCK,
            cell_of, self._counts, self._slots, self._lost, self.particles,
        )  # fmt: skip

    @property
    def answer(self) -> LimitedCells:
        allow_overflow = bool(self.parameters["allow_overflow"])
        return LimitedCells(self._counts, self._slots, self._lost, allow_overflow)

    def outcome(self) -> dict[str, int | float | str]:
        return {"lost": int(self.device.download(self._lost)[0])}

    def traffic_bytes(self) -> int:
        # Clear the counts; each particle reads its cell, adds to a count (8 bytes), writes a slot.
        kept = self.particles - int(self.device.download(self._lost)[0])
        return 12 * self.particles + 4 * kept + 4 * self.grid.count
