"""A search whose pairs are decided in double precision, for boxes that are many cutoffs long."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpubench.devices.base import Device
from gpubench.neighbours.arrays import Arrays
from gpubench.neighbours.plan import BLOCK, PairKernels, Plan, ResultArrays
from gpubench.neighbours.rows import kernel
from gpubench.primitives.scan import ExclusiveScan


class Refined(PairKernels):
    """Keeps the pairs of another search that are nearer than `reach`.

    search: finds all of these pairs, and others. positions: as in `Plan`.
    """

    def __init__(self, device: Device, search: Plan, positions: Any, reach: float) -> None:
        super().__init__(device, positions, search.box, search.cell)
        self._search, self._in_cells, self.packing = search, search.in_cells, search.packing
        self.chosen = search.chosen
        self._reach2 = np.float64(reach) ** 2
        self._blocks = device.blocks(self.particles, BLOCK)
        self._keep = self.kernel("keep" if self.cell is None else "keep_in_cell")
        self._pack = kernel(device, "pack_pairs")
        self._scan = ExclusiveScan(device, self.particles, sum_type="int64")

    def rows(self, arrays: Arrays) -> ResultArrays:
        """Allocate all arrays of a result."""
        return self._search.rows(arrays)

    def search(self, arrays: Arrays | Device, positions: Any, rows: ResultArrays) -> int:
        """Search, and return the number of pairs; waits for it, as for that of the other search."""
        found = self._kept(positions, rows.ids, self.numbers, rows.counts)
        self._scan.launch(rows.counts, rows.offsets)
        pairs = int(self._device.download(rows.offsets)[-1])
        rows.neighbours = arrays.empty(pairs, "int32")
        self._pack(
            self._blocks, BLOCK, offsets=found.offsets, neighbours=found.neighbours,
            images=found.neighbours, rows=self.particles, to=rows.offsets, packed=rows.neighbours,
            packed_images=rows.neighbours,
        )  # fmt: skip
        return pairs

    def count_only(self, positions: Any, counts: Any) -> None:
        """Search, and count the pairs of each particle."""
        ids = self._device.empty(self.particles, "int32") if self._in_cells else None
        self._kept(positions, ids, self.numbers if ids is None else ids, counts)

    def _kept(self, positions: Any, ids: Any, to: Any, counts: Any) -> ResultArrays:
        """Return the list of the other search, with the pairs to keep first in each row.

        ids: where the particles of rows go, or None. to, counts: arguments of the kernel.
        """
        n, device = self.particles, self._device
        found = ResultArrays(device.empty(n, "int32"), device.empty(n + 1, "int64"), None, ids)
        self._search.search(device, positions, found)
        given = {
            "found_offsets": found.offsets, "found": found.neighbours, "given": positions,
            "ids": self.numbers if ids is None else ids, "box": self.packed_box, "rows": n,
            "cell": self.vectors, "reach2": self._reach2, "to": to, "counts": counts,
        }  # fmt: skip
        self._keep.launch_from(self._blocks, BLOCK, given)
        return found
