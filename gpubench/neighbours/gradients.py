"""Derivatives of vectors and distances with respect to positions, for PyTorch tensors.

Imported only when a tensor requires a gradient, so PyTorch is available.
"""

from __future__ import annotations

from typing import Any

import torch


class Vectors(torch.autograd.Function):  # type: ignore[misc]
    """Makes precomputed vectors, (pairs, 3), differentiable in positions, (n, 3) or (n, 4).

    pairs: the particles of each pair, (pairs, 2). The image shifts are constants.
    """

    @staticmethod
    def forward(ctx: Any, positions: Any, vectors: Any, pairs: Any) -> Any:
        """Return the vectors."""
        ctx.save_for_backward(pairs)
        ctx.shape = positions.shape
        return vectors

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None, None]:
        """Return the gradient with respect to the positions."""
        first, second = ctx.saved_tensors[0].unbind(1)
        each = torch.nn.functional.pad(gradient, (0, ctx.shape[1] - 3))
        sums = gradient.new_zeros(ctx.shape).index_add(0, second, each)
        return sums.index_add(0, first, each, alpha=-1), None, None


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
