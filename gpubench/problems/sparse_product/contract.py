"""Contract of sparse matrices of 1x3 blocks: the arrays, and the interface of algorithms.

Each particle i has a block row, with a diagonal block D_i, stored separately, and a block B_ij for
each neighbour j; x_i are 3-vectors and z_i scalars, one per particle:

    product:    y_i = D_i . x_i + sum over j of B_ij . x_j
    transpose:  u_i = D_i z_i + sum over j of B_ji z_j
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm

if TYPE_CHECKING:
    from gpubench.devices.base import Device


Ids = NDArray[np.int64]


# The kind of answer of each task.
TASKS = {"assemble": "matrices", "product": "products", "transpose": "transposed products"}


@dataclass(frozen=True)
class Assembled:
    """A matrix in the layout of an algorithm.

    lengths: int32, shape (rows,), the number of off-diagonal blocks of each row.
    start: int64, offsets that the layout needs in addition to the lengths.
    columns: int32, shape (places,), the column of each block.
    blocks, diagonal: float32, shape (places, 4) and (rows, 4), with an undefined last component; if
        `planes`, shape (3, places) and (3, rows).
    place: place(i, k, start) returns the index of the k-th block of row i, for arrays on the host.
    """

    lengths: Any
    start: Any
    columns: Any
    blocks: Any
    diagonal: Any
    planes: bool
    place: Callable[[Ids, Ids, Ids], Ids]


@dataclass(frozen=True)
class Product:
    """A matrix times a vector.

    values: float32, shape (rows,) for a product; shape (rows, 3 or 4), with an undefined fourth
        component, for a product with the transpose.
    """

    values: Any


class SparseProduct(Algorithm):
    """An algorithm over a matrix of 1x3 blocks; each form begins with its task (see TASKS).

    `assemble` makes the matrix, in the algorithm's layout, from a neighbour list and positions, or
    from given compressed rows. `product` and `transpose` multiply an assembled one by a vector.

    transposes_any: whether `transpose` supports all matrices. If not, it sums over rows instead of
    scattering, which requires B_ji = -B_ij, as for gradients between particles of equal mass, and
    it refuses other matrices.
    """

    family: ClassVar[str] = "sparse-product"
    transposes_any: ClassVar[bool] = False

    def __init__(
        self,
        device: Device,
        rows: int,
        form: str,
        parameters: Mapping[str, int],
        *,
        antisymmetric: bool,
    ) -> None:
        super().__init__(device, form, parameters)
        self.task = form.split("-")[0]
        if self.task == "transpose" and not (antisymmetric or self.transposes_any):
            raise NotSupported(
                f"{self.name} transposes through the rows, which needs blocks with B_ji = -B_ij"
            )
        self.rows = rows
        self.prepare()

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task and its kind of answer, independent of the layout."""
        task = form.split("-")[0]
        return task, TASKS[task]
