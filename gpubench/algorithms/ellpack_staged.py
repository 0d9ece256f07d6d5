"""ELLPACK products that read most of the vector from shared memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms._block_rows import BLOCK, BlockRowsProduct, forms
from gpubench.core.algorithm import Form
from gpubench.problems.particles.inputs import ParticleSet
from gpubench.problems.sparse_product.contract import Ids
from gpubench.problems.sparse_product.inputs import MatrixSet

STRETCHES = 9  # contiguous ranges of matrix rows that a block stages: one per nearby row of cells
PLACES, PLACES_CPU = 2560, 1024  # 3-vectors in shared memory, on a GPU (40 KB) and on a CPU


class EllpackStaged(BlockRowsProduct):
    """Each thread block first copies (stages) the vector elements of nearby cells to shared memory.

    This requires rows in cell order. In other orders, or if the matrix is given, a block stages
    only the elements of its own rows. All other elements are read from global memory. The layout is
    as wide as the longest row. `load` computes the stretches (ranges of rows) that blocks stage.
    """

    name = "ellpack-staged"
    summary = "ELLPACK whose blocks of threads stage the vector by cell in shared memory"
    source = "ftests slides, which call it a candidate for optimization; the staging is ours"
    file = "ellpack_staged.cu"
    forms: ClassVar[Mapping[str, Form]] = forms("planes", tasks=("product", "transpose"))

    def constants(self) -> dict[str, int | str]:
        self._staged_places = PLACES_CPU if self.device.is_cpu else PLACES
        return {"STRETCHES": STRETCHES, "PLACES": self._staged_places}

    def prepare(self) -> None:
        super().prepare()
        self.start = self.allocate(1, "int64")
        self._count = self.allocate(1, "int32")
        self._localise = self._kernel("localise")

    def load(self, inputs: MatrixSet) -> None:
        """Assemble the matrix; replace columns of staged elements by places in shared memory."""
        super().load(inputs)
        stretches = stretches_of(inputs, self._staged_places)
        self._stretches = self.device.upload(stretches)
        self.workspace_bytes += self._stretches.nbytes
        self.device.fill(self._count, 0x00)
        self._localise(
            self._blocks, BLOCK, self.lengths, self.columns, self._stretches, self.rows, self._count
        )

    def make_room(self, lengths: NDArray[np.int32]) -> None:
        self.places = self.rows * int(lengths.max(initial=1))

    def find_start(self, offsets: Any) -> None:
        """Do nothing: the layout has no starts."""

    def multiply(self) -> None:
        self._multiply(
            self._blocks, BLOCK, self.lengths, self._stretches, self.columns, self.blocks,
            np.int64(self.places), self.diagonal, self.rows, self._factors, self._values,
        )  # fmt: skip

    def place(self, i: Ids, k: Ids, start: Ids) -> Ids:
        return k * self.rows + i

    def outcome(self) -> dict[str, int | float | str]:
        staged = int(self.device.download(self._count)[0])
        share = {"staged_share": staged / self._entries} if self._entries else {}
        return {**super().outcome(), **share}

    def start_bytes(self) -> int:
        return int(4 * self.rows + self._stretches.nbytes)


def stretches_of(inputs: MatrixSet, places: int) -> NDArray[np.int32]:
    """Return the stretches of matrix rows that each thread block stages.

    places: the maximum total length of the stretches of a block.
    Returns int32, shape (blocks, STRETCHES, 4): first row, length, place in shared memory, 0.
    """
    first = np.arange(0, max(1, inputs.rows), BLOCK)
    found = np.zeros((len(first), STRETCHES, 4), np.int32)
    begins, ends = [first], [np.minimum(first + BLOCK, inputs.rows)]
    if inputs.particles is not None and inputs.rows and _are_in_order(inputs.particles):
        begins, ends = _about_cells(inputs.particles, first, ends[0] - 1)
    behind = place = np.zeros(len(first), np.int64)
    for stretch, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        begin = np.maximum(begin, behind)  # in a narrow grid, stretches may overlap
        length = np.clip(end - begin, 0, places - place)
        found[:, stretch, :3] = np.stack((begin, length, place), axis=1)
        behind, place = np.maximum(behind, end), place + length
    return found


def _are_in_order(particles: ParticleSet) -> bool:
    return bool((np.diff(particles.cell_of) >= 0).all())


def _about_cells(
    particles: ParticleSet, first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Return the begins and ends, in matrix rows, of the nine rows of cells around each block.

    first, last: int64, shape (blocks,), the first and last matrix row of each block.
    """
    grid, cell_of = particles.grid, particles.cell_of
    nx, ny, _ = grid.cells
    start = np.searchsorted(cell_of, np.arange(grid.count + 1))
    offsets = sorted(nx * (dy + ny * dz) for dy, dz in itertools.product((-1, 0, 1), repeat=2))
    low = [np.clip(cell_of[first] + off - 1, 0, grid.count) for off in offsets]
    high = [np.clip(cell_of[last] + off + 2, 0, grid.count) for off in offsets]
    return [start[cell] for cell in low], [start[cell] for cell in high]
