"""A matrix of 1x3 blocks in sliced ELL, and its products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms._block_rows import BLOCK, BlockRowsProduct, forms
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.sparse_product.contract import Ids

SLICE = 32
MOST_SORTED = 2048  # maximum sigma: the sort keys of a window must fit in shared memory


class SlicedEll(BlockRowsProduct):
    """Slices of 32 rows; each slice is as wide as its longest row.

    sigma: the size, a power of two, of windows in which rows are sorted by length, longest first.
    With 32, a window is one slice, so sorting saves no padding. In a sorted slice, threads read
    whole memory sectors and end together; but larger windows access the vector less locally.
    """

    name = "sliced-ell"
    summary = "1x3 blocks in slices of 32 rows of nearly equal length"
    source = "SELL-C-sigma with C = 32: Kreutzer et al., SIAM J. Sci. Comput. 36 (2014)"
    file = "sliced_ell.cu"
    defaults: ClassVar[Mapping[str, int]] = {**BlockRowsProduct.defaults, "sigma": 256}
    forms: ClassVar[Mapping[str, Form]] = {
        **forms("planes"),
        **forms("float4", tasks=("product",)),
    }

    def constants(self) -> dict[str, int | str]:
        sigma = self.parameters["sigma"]
        if not SLICE <= sigma <= MOST_SORTED or sigma & (sigma - 1):
            raise UserError(f"sigma must be a power of two, {SLICE} to {MOST_SORTED}, not {sigma}")
        return {"SIGMA": sigma}

    def prepare(self) -> None:
        super().prepare()
        self._slices = self.device.blocks(self.rows, SLICE)
        self._slice_places = self.allocate(self._slices, "int32")
        self.start = self.allocate(self._slices + 1, "int64")
        self.order = self.allocate(self.rows, "int32")
        self._scan = ExclusiveScan(self.device, self._slices, sum_type="int64")
        self.workspace_bytes += self._scan.workspace_bytes
        self._order_rows = self._kernel("order_rows")

    def make_room(self, lengths: NDArray[np.int32]) -> None:
        padded = np.zeros(-(-self.rows // MOST_SORTED) * MOST_SORTED, np.int64)
        padded[: self.rows] = lengths
        falling = -np.sort(-padded.reshape(-1, self.parameters["sigma"]), axis=1)
        self.places = SLICE * int(falling[:, ::SLICE].sum())

    def find_start(self, offsets: Any) -> None:
        blocks = self.device.blocks(self.rows, self.parameters["sigma"])
        self._order_rows(blocks, BLOCK, offsets, self.order, self._slice_places, self.rows)
        self._scan.launch(self._slice_places, self.start)

    def multiply(self) -> None:
        self._multiply(
            self._blocks, BLOCK, self.lengths, self.start, self.order, self.columns, self.blocks,
            np.int64(self.places), self.diagonal, self.rows, self._factors, self._values,
        )  # fmt: skip

    def place(self, i: Ids, k: Ids, start: Ids) -> Ids:
        p = np.argsort(self.device.download(self.order))[i]
        at: Ids = start[p // SLICE] + SLICE * k + p % SLICE
        return at

    def start_bytes(self) -> int:
        return 8 * self.rows + 8 * self._slices
