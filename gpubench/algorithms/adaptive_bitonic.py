"""Adaptive bitonic sort, then a binary search for each cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.primitives.adaptive_merge import AdaptiveMerge
from gpubench.primitives.sorted_keys import CellsOfSortedKeys
from gpubench.problems.cells.contract import CellList, SortedCells


class AdaptiveBitonic(CellList):
    """Merges bitonic trees in O(n log n) comparisons, which rozen2008 left as future work.

    Each merge splits its tree into chunks of `chunk` keys; the bitonic network sorts each chunk in
    shared memory. With `chunk` = 2 the merge is purely adaptive; GPU-ABiSort used 16.
    """

    name = "adaptive-bitonic"
    summary = "adaptive bitonic sort of (cell, particle), then a binary search for each cell"
    source = "Bilardi and Nicolau 1989; Greß and Zachmann 2006 (GPU-ABiSort)"
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form("bitonic trees; indices only"),
        "reorder": Form("bitonic trees; positions gathered when the pairs are unpacked",
                        reorders=True),
        "intervals": Form("runs cut by binary search in place of trees; indices only"),
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, int]] = {"chunk": 2048, "count_comparisons": 0}

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        self._reorders = self.forms[form].reorders
        self._merge = AdaptiveMerge(
            device, particles, has_trees=form != "intervals", chunk=self.parameters["chunk"],
            counts=self.parameters["count_comparisons"],
        )  # fmt: skip
        self.workspace_bytes += self._merge.workspace_bytes
        self._start = self.allocate(grid.count + 1, "int32")
        self._order = self.allocate(particles, "int32")
        self._sorted = self.allocate((particles if self._reorders else 0, 4), "float32")
        self._cells = CellsOfSortedKeys(device, particles, grid.count, reorder=self._reorders)

    def build(self, cell_of: Any, positions: Any) -> None:
        keys = self._merge.launch(cell_of)
        self._cells.launch(keys, self._start, self._order, positions, self._sorted)

    @property
    def answer(self) -> SortedCells:
        return SortedCells(self._start, self._order, self._sorted if self._reorders else None)

    def outcome(self) -> dict[str, int | float | str]:
        if not self.parameters["count_comparisons"]:
            return {}
        return {"comparisons": int(self.device.download(self._merge.comparisons)[0])}

    def traffic_bytes(self) -> int:
        # After the merges: read the sorted words, write order and starts, copy the positions.
        gather = 12 + 32 * self._reorders
        return self._merge.traffic_bytes + gather * self.particles + 4 * self.grid.count
