"""Updates linked lists with atomics after particles moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.algorithms.atomic_list import AtomicList
from gpubench.core.algorithm import Form
from gpubench.problems.cells.contract import CellListUpdate, LinkedCells

BLOCK = 256
ITEMS = 4
BLOCKS_PER_UNIT = 8  # blocks per multiprocessor, if only the device knows the number of items


class AtomicResort(CellListUpdate):
    """The re-sort of rozen2008 with atomics; traverses only lists that lost a particle."""

    name = "atomic-resort"
    replaces = "atomic-list"
    summary = "re-sort of atomic linked lists: unlink moved particles, push each to its new list"
    source = "the atomic successor of rozen2008, section 2.2"
    forms: ClassVar[Mapping[str, Form]] = {"one-pass": Form("find, unlink, push")}

    def prepare(self) -> None:
        device, particles, grid = self.device, self.particles, self.grid
        self._lists = AtomicList(device, particles, grid, "one-pass", {})
        self.workspace_bytes += self._lists.workspace_bytes
        self._head, self._next = self._lists.answer.head, self._lists.answer.next
        self._is_touched = self.allocate(grid.count, "int32")
        device.fill(self._is_touched, 0x00)
        self._movers = self.allocate(particles, "int32")
        self._touched = self.allocate(min(particles, grid.count), "int32")
        self._counts = self.allocate(2, "int32")
        constants = {"BLOCK": BLOCK, "ITEMS": ITEMS}
        self._find, self._mend, self._push = (
            device.kernel("atomic_resort.cu", name, **constants)
            for name in ("find_movers", "mend_lists", "push_movers")
        )

    def build(self, cell_of: Any, positions: Any) -> None:
        self._lists.build(cell_of, positions)

    def update(self, cell_of: Any, positions: Any) -> None:
        device = self.device
        device.fill(self._counts, 0x00)
        self._find(
            device.blocks(self.particles, BLOCK * ITEMS), BLOCK, cell_of, self.cell_of,
            self._is_touched, self._counts, self._movers, self._touched, self.particles,
        )  # fmt: skip
        blocks = min(BLOCKS_PER_UNIT * device.compute_units, device.blocks(self.particles, BLOCK))
        self._mend(
            blocks, BLOCK, cell_of, self._head, self._next, self._is_touched, self._counts,
            self._touched,
        )  # fmt: skip
        self._push(blocks, BLOCK, cell_of, self._head, self._next, self._counts, self._movers)

    @property
    def answer(self) -> LinkedCells:
        return LinkedCells(self._head, self._next)

    def outcome(self) -> dict[str, int | float | str]:
        moved, touched = self.device.download(self._counts)
        return {"movers": int(moved), "lists_mended": int(touched)}

    def traffic_bytes(self) -> int:
        # Read all old and new cells; a mover also accesses list entry, cell, head, link (32 bytes).
        moved = int(self.device.download(self._counts)[0])
        return 8 * self.particles + 32 * moved
