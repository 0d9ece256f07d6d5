"""Sparse matrices of 1x3 blocks: their shapes, and what an algorithm over them must offer.

A block row belongs to a particle i. It has a diagonal block D_i, which stands apart, and a block
B_ij for each neighbour j; x_i are 3-vectors and z_i numbers, one a particle:

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


# What may be asked of a matrix, and the kind of answer.
TASKS = {"assemble": "matrices", "product": "products", "transpose": "transposed products"}


@dataclass(frozen=True)
class Assembled:
    """A matrix in the layout of an algorithm.

    lengths: int32, shape (rows,), the blocks of each row beside the diagonal.
    start: int64, what the layout keeps beside the lengths.
    columns: int32, shape (places,).
    blocks, diagonal: float32, shape (places, 4) and (rows, 4), whose last component means nothing;
        in `planes`, shape (3, places) and (3, rows).
    place: where the k-th block of row i is, of arrays on the host: place(i, k, start).
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

    values: float32, shape (rows,) of a product; (rows, 3 or 4) of a transposed one, whose fourth
        component means nothing.
    """

    values: Any


class SparseProduct(Algorithm):
    """An algorithm over a matrix of 1x3 blocks; the first word of a form is its task, see TASKS.

    `assemble` makes the matrix, in its own layout, of a list of neighbours and positions, or of
    compressed rows where those are given. `product` and `transpose` work on an assembled matrix.

    transposes_any: whether it transposes a matrix of any structure. Where it does not, it goes
    through the rows, without a scatter, and needs B_ji = -B_ij, as the gradients of pairs of
    particles of equal mass have it; it refuses other matrices.
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
        """Return the task, and the kind of its answer, whatever the layout."""
        task = form.split("-")[0]
        return task, TASKS[task]
