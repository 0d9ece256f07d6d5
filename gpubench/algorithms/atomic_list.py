"""Builds linked lists in one pass, with an atomic exchange of the list head per particle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.problems.cells.contract import CellList, LinkedCells

BLOCK = 256


class AtomicList(CellList):
    """The bucket sort of rozen2008, simplified by atomic operations."""

    name = "atomic-list"
    summary = "one pass: each particle exchanges itself with the head of its cell's list"
    source = "the atomic successor of rozen2008, Listing 1"
    forms: ClassVar[Mapping[str, Form]] = {"one-pass": Form("atomic exchange on the head")}

    def prepare(self) -> None:
        device, particles, grid = self.device, self.particles, self.grid
        self._head = self.allocate(grid.count, "int32")
        self._next = self.allocate(particles, "int32")
        self._push_front = device.kernel("atomic_list.cu", "push_front")

    def build(self, cell_of: Any, positions: Any) -> None:
        device = self.device
        device.fill(self._head, 0xFF)
        self._push_front(
            device.blocks(self.particles, BLOCK), BLOCK,
            cell_of, self._head, self._next, self.particles,
        )  # fmt: skip

    @property
    def answer(self) -> LinkedCells:
        return LinkedCells(self._head, self._next)

    def traffic_bytes(self) -> int:
        # Fill the heads; each particle reads its cell, exchanges a head (8 bytes), writes a link.
        return 16 * self.particles + 4 * self.grid.count
