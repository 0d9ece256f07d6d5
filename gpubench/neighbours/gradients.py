"""Derivatives of vectors and distances in the positions, for tensors of PyTorch.

Imported where PyTorch is: by a tensor that requires a gradient.
"""

from __future__ import annotations

from typing import Any

import torch


class Vectors(torch.autograd.Function):  # type: ignore[misc]
    """Vectors that were computed, (pairs, 3), of positions, (n, 3) or (n, 4).

    pairs: the particles of each pair, (pairs, 2). Images are as far away whatever the positions.
    """

    @staticmethod
    def forward(ctx: Any, positions: Any, vectors: Any, pairs: Any) -> Any:
        """Return the vectors."""
        ctx.save_for_backward(pairs)
        ctx.shape = positions.shape
        return vectors

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None, None]:
        """Return the gradient in the positions."""
        first, second = ctx.saved_tensors[0].unbind(1)
        each = torch.nn.functional.pad(gradient, (0, ctx.shape[1] - 3))
        sums = gradient.new_zeros(ctx.shape).index_add(0, second, each)
        return sums.index_add(0, first, each, alpha=-1), None, None


class Distances(torch.autograd.Function):  # type: ignore[misc]
    """Distances that were computed, (pairs,), of vectors; the gradient at distance 0 is 0."""

    @staticmethod
    def forward(ctx: Any, vectors: Any, distances: Any) -> Any:
        """Return the distances."""
        ctx.save_for_backward(vectors)
        return distances

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        """Return the gradient in the vectors."""
        (vectors,) = ctx.saved_tensors
        way = vectors.double()  # whose squares do not vanish
        length = torch.linalg.vector_norm(way, dim=1, keepdim=True)
        is_zero = length == 0
        unit = (way / length.masked_fill(is_zero, 1)).masked_fill(is_zero, 0)
        return gradient[:, None] * unit.to(vectors.dtype), None
