"""A matrix of 1x3 blocks in compressed rows, and its products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms._block_rows import BLOCK, TASK_WORDS, BlockRowsProduct
from gpubench.core.algorithm import Form
from gpubench.problems.sparse_product.contract import Ids

WARP = 32


class CsrProduct(BlockRowsProduct):
    """CSR with a float4 per block; one thread or one warp per row."""

    name = "csr-product"
    summary = "1x3 blocks in compressed rows, one thread or one warp per row"
    source = "Bell and Garland, NVR-2008-004, section 4"
    file = "csr_product.cu"
    forms: ClassVar[Mapping[str, Form]] = {
        "assemble": Form(f"{TASK_WORDS['assemble']}; a thread a row"),
        **{
            f"{task}-{unit}": Form(f"{TASK_WORDS[task]}; a {unit} a row")
            for task in ("product", "transpose")
            for unit in ("thread", "warp")
        },
    }

    def multiplication(self) -> str:
        return "multiply_by_warps" if self.form.endswith("warp") else "multiply"

    def prepare(self) -> None:
        super().prepare()
        self.start = self.allocate(self.rows + 1, "int64")
        if self.form.endswith("warp"):
            self._multiply_blocks = self.device.blocks(self.rows, BLOCK // WARP)

    def make_room(self, lengths: NDArray[np.int32]) -> None:
        self.places = int(lengths.sum(dtype=np.int64))

    def find_start(self, offsets: Any) -> None:
        self.device.copy(offsets, self.start)

    def place(self, i: Ids, k: Ids, start: Ids) -> Ids:
        return start[i] + k

    def start_bytes(self) -> int:
        return 8 * self.rows
