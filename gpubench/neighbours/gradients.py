"""Derivatives of vectors and distances with respect to positions and box, for PyTorch tensors.

Imported only when a tensor requires a gradient, so PyTorch is available.
"""

from __future__ import annotations

from typing import Any

import torch


class Vectors(torch.autograd.Function):  # type: ignore[misc]
    """Makes precomputed vectors, (pairs, 3), differentiable in positions, (n, 3) or (n, 4).

    box: three edges or a 3x3 matrix in which they are differentiable too, one for each system, or
    None. pairs: the particles of each pair, (pairs, 2). shifts: multiples of the box's vectors,
    (pairs, 3), which are constants, as the pairs are. systems: of each pair, (pairs,).
    """

    @staticmethod
    def forward(
        ctx: Any, positions: Any, box: Any, vectors: Any, pairs: Any, shifts: Any, systems: Any
    ) -> Any:
        """Return the vectors."""
        ctx.save_for_backward(pairs, shifts, systems)
        ctx.shape, ctx.box = positions.shape, box if box is None else box.new_empty(box.shape)
        return vectors

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, Any, None, None, None, None]:
        """Return the gradients with respect to the positions and the box."""
        (pairs, shifts, systems), of_positions, of_box = ctx.saved_tensors, None, None
        if ctx.needs_input_grad[0]:
            first, second = pairs.unbind(1)
            each = torch.nn.functional.pad(gradient, (0, ctx.shape[1] - 3))
            sums = gradient.new_zeros(ctx.shape).index_add(0, second, each)
            of_positions = sums.index_add(0, first, each, alpha=-1)
        if ctx.needs_input_grad[1]:
            box = ctx.box
            exact = torch.promote_types(box.dtype, gradient.dtype)
            shifts, each = shifts.to(exact), gradient.to(exact)
            if box.ndim == 3:
                of_each = shifts[:, :, None] * each[:, None]
                of_box = each.new_zeros(box.shape).index_add(0, systems, of_each)
            else:
                of_box = shifts.T @ each
            of_box = (of_box.diagonal() if box.ndim == 1 else of_box).to(box)
        return of_positions, of_box, None, None, None, None


class Distances(torch.autograd.Function):  # type: ignore[misc]
    """Makes precomputed distances, (pairs,), differentiable in vectors; the gradient at 0 is 0."""

    @staticmethod
    def forward(ctx: Any, vectors: Any, distances: Any) -> Any:
        """Return the distances."""
        ctx.save_for_backward(vectors)
        return distances

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        """Return the gradient with respect to the vectors."""
        (vectors,) = ctx.saved_tensors
        way = vectors.double()  # so that squares do not underflow
        length = torch.linalg.vector_norm(way, dim=1, keepdim=True)
        is_zero = length == 0
        unit = (way / length.masked_fill(is_zero, 1)).masked_fill(is_zero, 0)
        return gradient[:, None] * unit.to(vectors.dtype), None
