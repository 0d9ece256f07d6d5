"""Products with a matrix of 1x3 blocks that is not stored: blocks are computed from positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms._block_rows import BLOCK, TASK_WORDS
from gpubench.algorithms.ellpack_blocks import EllpackBlocks
from gpubench.core.algorithm import Form
from gpubench.problems.sparse_product.inputs import MatrixSet


class MatrixFree(EllpackBlocks):
    """The columns of ellpack-blocks without blocks; a given matrix is multiplied as there.

    As a diagonal block is minus the sum of its row, products use differences of the vector and sums
    of numbers. width, unroll: as of ellpack-blocks.
    """

    name = "matrix-free"
    summary = "blocks computed in each product from positions, columns as in ELLPACK"
    source = "the rival of the ftests slides' stored blocks; ours"
    file = "matrix_free.cu"
    forms: ClassVar[Mapping[str, Form]] = {
        task: Form(TASK_WORDS[task]) for task in ("product", "transpose")
    }
    _is_given = False

    def prepare(self) -> None:
        super().prepare()
        self._note_columns = self._kernel("note_columns")
        self._multiply_free = self._kernel("multiply_free")

    def load(self, inputs: MatrixSet) -> None:
        """List the neighbours, and upload positions and vectors."""
        if inputs.given is not None:
            self._is_given = True
            self.diagonal = self.allocate(self._block_shape(self.rows), "float32")
        super().load(inputs)

    def _block_shape(self, places: int) -> tuple[int, int]:
        return places if self._is_given else 0, 4

    def assemble(self) -> None:
        if self._is_given:
            super().assemble()
            return
        assert self._source is not None
        offsets, neighbours, self._positions, *_, self._inverse_cutoff = self._source.arrays
        self.find_start(offsets)
        self._note_columns(
            self._blocks, BLOCK, offsets, neighbours, self.rows, self.width, self.start,
            self.lengths, self.columns,
        )  # fmt: skip

    def multiply(self) -> None:
        if self._is_given:
            super().multiply()
            return
        self._multiply_free(
            self._blocks, BLOCK, self.lengths, self.start, self.columns, self._positions,
            self._inverse_cutoff, self.rows, self.width, self._factors, self._values,
        )  # fmt: skip

    def traffic_bytes(self) -> int:
        if self._is_given:
            return super().traffic_bytes()
        return 4 * self._entries + self.start_bytes() + self.rows * (16 + 16 + 4)
