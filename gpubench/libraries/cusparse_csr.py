"""cuSPARSE's matrix-vector product with a scalar CSR matrix, through CuPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms._block_rows import BLOCK, TASK_WORDS
from gpubench.algorithms.csr_product import CsrProduct
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.libraries._library import need
from gpubench.libraries._library_sort import CUDA
from gpubench.problems.sparse_product.contract import Product
from gpubench.problems.sparse_product.inputs import MatrixSet

# CUSPARSE_SPMV_CSR_ALG2, for forms that end in `alg2`; the others use the default, CSR_ALG1.
DETERMINISTIC = 3
MOST_SCALARS = 2**31 - 1  # addressable by int32 indices


class CusparseCsr(CsrProduct):
    """`cusparseSpMV` with three scalars per block; the diagonal block comes first in each row.

    The matrix is scalar because cuSPARSE supports only square blocks. Columns within a row are in
    the order of the neighbour list, as in our layouts. Matrix, descriptors and buffer are created
    when the input is loaded. CuPy refuses to call cuSPARSE during graph capture.
    """

    name = "cusparse-csr"
    summary = "cuSPARSE's CSR product, three scalars a block"
    source = "cuSPARSE, cusparseSpMV, through CuPy"
    transposes_any = True
    forms: ClassVar[Mapping[str, Form]] = {
        "product": Form(f"{TASK_WORDS['product']}; the default algorithm", CUDA, False),
        "product-alg2": Form(
            f"{TASK_WORDS['product']}; CSR_ALG2, the same bits each time", CUDA, False
        ),
        "transpose": Form("the transpose of any matrix, times a number a row", CUDA, False),
    }

    def prepare(self) -> None:
        self._cupy: Any = need("cupy", "CuPy", "cuda13")
        self._sparse: Any = need("cupyx.scipy.sparse", "CuPy", "cuda13")
        self._wrapped: Any = need("cupyx.cusparse", "CuPy", "cuda13")
        self._raw: Any = need("cupy_backends.cuda.libs.cusparse", "CuPy", "cuda13")
        super().prepare()
        self.library = f"cuSPARSE {self._wrapped.getVersion()}, cupy {self._cupy.__version__}"
        self._constants["TRANSPOSED"] = 0
        self._to_scalars = self._kernel("to_scalars")

    def result_shape(self) -> tuple[int, ...]:
        return (self.rows,) if self.task == "product" else (self.rows, 3)

    def load(self, inputs: MatrixSet) -> None:
        """Assemble the block CSR matrix, and convert it to a scalar CSR matrix for cuSPARSE."""
        super().load(inputs)
        if not self.rows:
            return
        entries = 3 * (self.places + self.rows)
        if entries > MOST_SCALARS:
            raise NotSupported(f"{entries} scalars are more than int32 indices can tell apart")
        start = self.allocate(self.rows + 1, "int32")
        columns, scalars = self.allocate(entries, "int32"), self.allocate(entries, "float32")
        self._to_scalars(
            self._blocks, BLOCK, self.start, self.columns, self.blocks, self.diagonal, self.rows,
            start, columns, scalars,
        )  # fmt: skip
        self.workspace_bytes -= self.columns.nbytes + self.blocks.nbytes
        del self.columns, self.blocks
        # With repeated columns, entries may exceed rows x columns; cuSPARSE rejects that: widen.
        wide = max(3 * self.rows, -(-entries // self.rows))
        self._matrix = self._sparse.csr_matrix((scalars, columns, start), shape=(self.rows, wide))
        self._result = self._values.ravel()
        if self.task == "product":
            vector = np.zeros(wide, np.float32)
            vector[: 3 * self.rows] = inputs.vector[:, :3].ravel()
            self._factors = self.device.upload(vector)
        else:
            self._result = self.allocate(wide, "float32")
            self._values = self._result[: 3 * self.rows].reshape(self.rows, 3)
        self._describe()

    def _describe(self) -> None:
        """Create the arguments and the buffer for `spMV`."""
        raw, wrapped = self._raw, self._wrapped
        vectors = (wrapped.DnVecDescriptor.create(a) for a in (self._factors, self._result))
        self._descriptors = wrapped.SpMatDescriptor.create(self._matrix), *vectors
        matrix, x, y = (descriptor.desc for descriptor in self._descriptors)
        self._scale = np.array([1, 0], np.float32)  # alpha, beta
        alpha, beta = (self._scale[k:].ctypes.data for k in range(2))
        handle = self._cupy.cuda.device.get_cusparse_handle()
        operation = (
            raw.CUSPARSE_OPERATION_NON_TRANSPOSE
            if self.task == "product"
            else raw.CUSPARSE_OPERATION_TRANSPOSE
        )
        algorithm = raw.CUSPARSE_MV_ALG_DEFAULT
        if self.form.endswith("alg2"):
            algorithm = DETERMINISTIC
        float32 = wrapped._dtype.to_cuda_dtype(np.dtype(np.float32))
        arguments = (handle, operation, alpha, matrix, x, beta, y, float32, algorithm)
        self._buffer = self.allocate(max(1, raw.spMV_bufferSize(*arguments)), "uint8")
        self._arguments = *arguments, self._buffer.data.ptr

    def multiply(self) -> None:
        if self.rows:
            self._raw.spMV(*self._arguments)

    @property
    def answer(self) -> Product:
        return Product(self._values)

    def traffic_bytes(self) -> int:
        # Scalars with their column indices, row starts, the vector read, the vector written.
        return 8 * 3 * (self.places + self.rows) + 4 * self.rows + (12 + 4) * self.rows
