"""Linked lists, with one exchange for each run of particles in the same cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.contracts import CellList, Form, LinkedCells

BLOCK = 256


class RunList(CellList):
    """Link runs of equal cells within a block, then each run to its cell's list."""

    name = "run-list"
    summary = "linked lists: one atomic exchange for each run of equal cells in a block"
    source = "our own"
    forms: ClassVar[Mapping[str, Form]] = {"one-pass": Form("runs found in shared memory")}

    def prepare(self) -> None:
        """Allocate heads and links, and compile the kernel."""
        self._head = self.allocate(self.grid.count, "int32")
        self._next = self.allocate(self.particles, "int32")
        self._push_runs = self.device.kernel("run_list.cu", "push_runs", BLOCK=BLOCK)

    def build(self, cell_of: Any, positions: Any) -> None:
        """Build the lists; cell_of: int32, shape (particles,)."""
        self.device.fill(self._head, 0xFF)
        self._push_runs(
            self.device.blocks(self.particles, BLOCK), BLOCK,
            cell_of, self._head, self._next, self.particles,
        )  # fmt: skip

    @property
    def answer(self) -> LinkedCells:
        """The lists of the last build."""
        return LinkedCells(self._head, self._next)

    def traffic_bytes(self) -> int:
        """Count cells read, links written, heads filled; exchanges depend on the input."""
        return 8 * self.particles + 4 * self.grid.count
