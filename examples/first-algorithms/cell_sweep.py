"""Linked lists without atomics: one thread per cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.contracts import CellList, Form, LinkedCells

BLOCK = 128


class CellSweep(CellList):
    """Every cell reads every particle: right, and slow."""

    name = "cell-sweep"
    summary = "one thread per cell reads every particle"
    source = "folklore"
    forms: ClassVar[Mapping[str, Form]] = {"plain": Form("lists in falling order of particles")}

    def prepare(self) -> None:
        self._head = self.allocate(self.grid.count, "int32")
        self._next = self.allocate(self.particles, "int32")
        self._sweep = self.device.kernel("cell_sweep.cu", "sweep", BLOCK=BLOCK)

    def build(self, cell_of: Any, positions: Any) -> None:
        self._sweep(
            self.device.blocks(self.grid.count, BLOCK), BLOCK,
            cell_of, self._head, self._next, self.grid.count, self.particles,
        )  # fmt: skip

    @property
    def answer(self) -> LinkedCells:
        return LinkedCells(self._head, self._next)

    def traffic_bytes(self) -> int:
        # Each cell id read once at the least, each link and head written.
        return 8 * self.particles + 4 * self.grid.count
