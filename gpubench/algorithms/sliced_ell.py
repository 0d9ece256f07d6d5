"""A matrix of 1x3 blocks in sliced ELL, and its products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms._block_rows import BLOCK, BlockRowsProduct, forms
from gpubench.core.block_matrix import Ids
from gpubench.core.contracts import Form
from gpubench.primitives.scan import ExclusiveScan

SLICE = 32


class SlicedEll(BlockRowsProduct):
    """Each 32 rows are as wide as the longest of them; rows keep their order."""

    name = "sliced-ell"
    summary = "1x3 blocks in slices of 32 rows, each as wide as its longest row"
    source = "SELL-C-sigma with C = 32, sigma = 1: Kreutzer et al., SIAM J. Sci. Comput. 36 (2014)"
    file = "sliced_ell.cu"
    forms: ClassVar[Mapping[str, Form]] = forms("planes")

    def prepare(self) -> None:
        super().prepare()
        self._slices = self.device.blocks(self.rows, SLICE)
        self._slice_places = self.allocate(self._slices, "int32")
        self.start = self.allocate(self._slices + 1, "int64")
        self._scan = ExclusiveScan(self.device, self._slices, sum_type="int64")
        self.workspace_bytes += self._scan.workspace_bytes
        self._count_places = self._kernel("count_places")

    def make_room(self, lengths: NDArray[np.int32]) -> None:
        padded = np.zeros(self._slices * SLICE, np.int64)
        padded[: self.rows] = lengths
        self.places = SLICE * int(padded.reshape(-1, SLICE).max(axis=1).sum())

    def find_start(self, offsets: Any) -> None:
        blocks = self.device.blocks(self._slices, BLOCK)
        self._count_places(blocks, BLOCK, offsets, self._slice_places, self.rows, self._slices)
        self._scan.launch(self._slice_places, self.start)

    @staticmethod
    def place(i: Ids, k: Ids, start: Ids, rows: int, width: int) -> Ids:
        at: Ids = start[i // SLICE] + SLICE * k + i % SLICE
        return at

    def start_bytes(self) -> int:
        return 4 * self.rows + 8 * self._slices
