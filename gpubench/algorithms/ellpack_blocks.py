"""A matrix of 1x3 blocks in ELLPACK layout, and its products."""

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

LEAST_USED = 8  # at least 1 in LEAST_USED places must hold a block
WORTHWHILE = 2**31 - 1  # the value of `width` that selects the default width
ENOUGH_ROWS, SHARE_OF_ROWS = 4096, 3  # Bell and Garland's rule, see EllpackBlocks


class EllpackBlocks(BlockRowsProduct):
    """One thread per row, column-major, the diagonal stored separately.

    width: the number of blocks per row stored column by column; the rest are stored row by row. The
    default is the longest row's length, as padding takes memory but no traffic; but with over 7/8
    of the places empty and 4096 or more rows, the largest width that max(4096, rows / 3) rows fill.
    """

    name = "ellpack-blocks"
    summary = "1x3 blocks in ELLPACK layout, one thread a row"
    source = "ftests slides; Bell and Garland, NVR-2008-004, for the width"
    file = "ellpack_blocks.cu"
    defaults: ClassVar[Mapping[str, int]] = {**BlockRowsProduct.defaults, "width": WORTHWHILE}
    conformance_parameters: ClassVar[Mapping[str, int]] = {"width": 5}  # shorter than many rows
    forms: ClassVar[Mapping[str, Form]] = forms("float4", "planes")

    def prepare(self) -> None:
        if self.parameters["width"] < 1:
            raise UserError(f"width must be at least 1, not {self.parameters['width']}")
        super().prepare()
        self._rest = self.allocate(self.rows, "int32")
        self._count_rest = self._kernel("count_rest")
        self._scan = ExclusiveScan(self.device, self.rows, sum_type="int64")
        self.workspace_bytes += self._scan.workspace_bytes
        self.start = self.allocate(self.rows + 1, "int64")

    def make_room(self, lengths: NDArray[np.int32]) -> None:
        self.width = self.parameters["width"]
        if self.width == WORTHWHILE:
            self.width = worthwhile_width(lengths)
        rest = np.maximum(lengths.astype(np.int64) - self.width, 0)
        self._spilled, self._longer = int(rest.sum()), int(np.count_nonzero(rest))
        self.width = min(self.width, int(lengths.max(initial=1)))
        self.places = self.rows * self.width + self._spilled

    def find_start(self, offsets: Any) -> None:
        if self._spilled:
            self._count_rest(self._blocks, BLOCK, offsets, self._rest, self.rows, self.width)
            self._scan.launch(self._rest, self.start)

    def place(self, i: Ids, k: Ids, start: Ids) -> Ids:
        rest = self.rows * self.width + start[i] + k - self.width
        return np.where(k < self.width, k * self.rows + i, rest)

    def outcome(self) -> dict[str, int | float | str]:
        return {
            **super().outcome(),
            "width": self.width,
            "spilled_blocks": self._spilled,
            "spilled_rows": self._longer,
        }

    def start_bytes(self) -> int:
        return 4 * self.rows + 8 * self._longer


def worthwhile_width(lengths: NDArray[np.int32]) -> int:
    """Return the default width (see EllpackBlocks) for rows of these lengths, int32, (rows,)."""
    longest = int(lengths.max(initial=1))
    enough = max(ENOUGH_ROWS, len(lengths) // SHARE_OF_ROWS)
    blocks = int(lengths.sum(dtype=np.int64))
    if longest * len(lengths) <= LEAST_USED * blocks or len(lengths) < enough:
        return longest
    return max(1, int(np.partition(lengths, -enough)[-enough]))
