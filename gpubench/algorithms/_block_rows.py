"""Base class of products with matrices of 1x3 blocks: uploads the input, allocates the matrix."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.devices.base import Device
from gpubench.problems.sparse_product.contract import Assembled, Ids, Product, SparseProduct
from gpubench.problems.sparse_product.inputs import MatrixSet

BLOCK = 256
MOST_UNROLLED = 16
TASK_WORDS = {
    "assemble": "from a list of neighbours and positions",
    "product": "product with one 3-vector per row",
    "transpose": "the transpose, through the rows, times a number a row; needs B_ji = -B_ij",
}

LAYOUTS = {
    "float4": "a block is a float4, whose w is ignored",
    "planes": "the components of blocks in three planes of floats",
}


def forms(*layouts: str, tasks: tuple[str, ...] = tuple(TASK_WORDS)) -> dict[str, Form]:
    """Return a form for each task and layout, e.g. `product-planes`."""
    return {
        f"{task}-{layout}": Form(f"{TASK_WORDS[task]}; {LAYOUTS[layout]}")
        for task in tasks
        for layout in layouts
    }


class Source:
    """The input from which a matrix is assembled, on the device.

    arrays: the kernel arguments, in order: CSR offsets, int64, shape (rows + 1,); columns, int32;
        for a given matrix, then blocks, float32, shape (blocks, 4), diagonal blocks, 1 and 0.0; for
        particles, positions, float32, shape (rows, 4), in place of both, then 0 and 1 / cutoff.
    lengths: int32, shape (rows,), the number of blocks of each row, on the host.
    """

    def __init__(self, device: Device, inputs: MatrixSet) -> None:
        if (given := inputs.given) is not None:
            offsets, columns = given.start.astype(np.int64), given.columns
            blocks, diagonal = (_padded(each) for each in (given.blocks, given.diagonal))
            uploads = (device.upload(each) for each in (offsets, columns, blocks, diagonal))
            self.arrays: tuple[Any, ...] = (*uploads, 1, 0.0)
            self.lengths: NDArray[np.int32] = np.diff(offsets).astype(np.int32)
            return
        particles = inputs.particles
        assert particles is not None
        search = CountingSortSearch(device, inputs.rows, particles.grid, "list", {})
        search.load(particles)
        search.launch()
        found = search.neighbours()
        positions = device.upload(particles.positions)
        cutoff = min(particles.grid.cell_size)
        self.arrays = (found.offsets, found.neighbours, positions, positions, 0, 1 / cutoff)
        self.lengths = device.download(found.counts)


def _padded(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return blocks padded with a fourth component, NaN, which kernels must not read."""
    packed = np.full((len(blocks), 4), np.nan, np.float32)
    packed[:, :3] = blocks
    return packed


class BlockRowsProduct(SparseProduct):
    """Base class of matrix layouts: assembles a matrix of block rows and multiplies by it.

    unroll: the number of blocks that a thread loads before it uses the first.
    file: the kernel file. places: the matrix's capacity in blocks. start: see `Assembled`.
    order: int32, shape (rows,), the rows in layout order, if the layout permutes them.
    """

    defaults: ClassVar[Mapping[str, int]] = {"unroll": 4}
    file: ClassVar[str]
    width: int = 0
    places: int
    start: Any
    order: Any

    def prepare(self) -> None:
        unroll = self.parameters["unroll"]
        if not 1 <= unroll <= MOST_UNROLLED:
            raise UserError(f"unroll must be 1 to {MOST_UNROLLED}, not {unroll}")
        self._planes = self.form.endswith("planes")
        self._blocks = self._multiply_blocks = self.device.blocks(self.rows, BLOCK)
        self._constants: dict[str, int | str] = {
            "BLOCK": BLOCK,
            "UNROLL": unroll,
            "PLANES": int(self._planes),
            "TRANSPOSED": int(self.task == "transpose"),
            **self.constants(),
        }
        self._assemble = self._kernel("assemble")
        self._multiply = self._kernel(self.multiplication())
        self.lengths = self.order = self.allocate(self.rows, "int32")
        self.diagonal = self.allocate(self._block_shape(self.rows), "float32")
        self._values = self.allocate(self.result_shape(), "float32")

    def constants(self) -> dict[str, int | str]:
        """Return additional compile-time constants of the kernels."""
        return {}

    def multiplication(self) -> str:
        """Return the name of the kernel that multiplies."""
        return "multiply"

    def result_shape(self) -> tuple[int, ...]:
        """Return the shape of the product; (0,) for the task `assemble`."""
        return {"assemble": (0,), "product": (self.rows,)}.get(self.task, (self.rows, 4))

    def _kernel(self, name: str) -> Any:
        return self.device.kernel(self.file, name, **self._constants)

    def _block_shape(self, places: int) -> tuple[int, int]:
        return (3, places) if self._planes else (places, 4)

    def load(self, inputs: MatrixSet) -> None:
        """Prepare the `Source`; allocate and assemble the matrix; for products, upload a vector."""
        self._source: Source | None = Source(self.device, inputs)
        self._entries = int(self._source.lengths.sum(dtype=np.int64))
        self._longest = int(self._source.lengths.max(initial=0))
        self.make_room(self._source.lengths)
        self.columns = self.allocate(self.places, "int32")
        self.blocks = self.allocate(self._block_shape(self.places), "float32")
        self.assemble()
        if self.task != "assemble":
            self._source = None
            factors = inputs.numbers if self.task == "transpose" else inputs.vector
            self._factors = self.device.upload(factors)

    @abstractmethod
    def make_room(self, lengths: NDArray[np.int32]) -> None:
        """Set `places` and all other sizes that depend on `lengths`, int32, shape (rows,)."""

    @abstractmethod
    def find_start(self, offsets: Any) -> None:
        """Queue the computation of `start` from CSR offsets, int64, shape (rows + 1,)."""

    def assemble(self) -> None:
        """Queue the assembly of the matrix from the loaded input."""
        assert self._source is not None
        self.find_start(self._source.arrays[0])
        self._assemble(
            self._blocks, BLOCK, *self._source.arrays, self.rows, self.width, self.start,
            self.order, self.lengths, self.columns, self.blocks, np.int64(self.places),
            self.diagonal,
        )  # fmt: skip

    def launch(self) -> None:
        """Assemble the matrix or multiply by it, depending on the task."""
        if self.task == "assemble":
            self.assemble()
        else:
            self.multiply()

    def multiply(self) -> None:
        """Queue the product with the matrix or with its transpose."""
        self._multiply(
            self._multiply_blocks, BLOCK, self.lengths, self.start, self.columns, self.blocks,
            np.int64(self.places), self.diagonal, self.rows, self.width,
            self._factors, self._values,
        )  # fmt: skip

    @abstractmethod
    def place(self, i: Ids, k: Ids, start: Ids) -> Ids:
        """Return the index of the k-th block of row i, as the kernels compute it."""

    @property
    def answer(self) -> Product | Assembled:
        """The product; for the task `assemble`, the matrix in its layout."""
        if self.task != "assemble":
            return Product(self._values)
        return Assembled(
            self.lengths, self.start, self.columns, self.blocks, self.diagonal, self._planes,
            self.place,
        )  # fmt: skip

    def outcome(self) -> dict[str, int | float | str]:
        """Return the number of off-diagonal blocks, the longest row, and places per block."""
        padded = {"places_per_block": self.places / self._entries} if self._entries else {}
        return {"blocks": self._entries, "longest_row": self._longest, **padded}

    def start_bytes(self) -> int:
        """Return the bytes of lengths, starts and other data that describe the rows."""
        return 4 * self.rows

    def traffic_bytes(self) -> int:
        # Loading a float4 moves all 16 bytes, even though w is unused.
        block = 12 if self._planes else 16
        matrix = self._entries * (4 + block) + self.rows * block + self.start_bytes()
        if self.task == "assemble":  # also read offsets, positions and neighbours
            return matrix + self.rows * (8 + 16) + 4 * self._entries
        return matrix + self.rows * (16 + 4)  # a 3-vector and a number; one is read, one written
