"""Helpers for libraries that return fixed-width rows of neighbours, or lists of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.core.grid import Grid
from gpubench.devices.base import Device
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.particles.inputs import ParticleSet


def neighbour_counts(device: Device, grid: Grid, inputs: ParticleSet) -> NDArray[np.int32]:
    """Count the neighbours of each particle, for libraries that need an upper bound in advance."""
    search = CountingSortSearch(device, inputs.particles, grid, "count", {})
    search.load(inputs)
    search.launch()
    return device.download(search.neighbours().counts)


def rows_of_pairs(particles: int, i: NDArray[np.int64], j: NDArray[np.int64]) -> Neighbours:
    """Return pairs (i, j), given in any order, as a CSR list: j is in row i."""
    counts = np.bincount(i, minlength=particles).astype(np.int32)
    offsets = _offsets(counts)
    return Neighbours(counts, offsets, j[np.argsort(i, kind="stable")].astype(np.int32))


def rows_of_matrix(torch: Any, counts: Any, matrix: Any) -> Neighbours:
    """Return the first counts[i] entries of each matrix row i as a CSR list.

    counts, matrix: int32 tensors. The padding, which may be larger than the list itself, is removed
    before the copy to the host.
    """
    filled = torch.arange(matrix.shape[1], device=matrix.device) < counts[:, None]
    neighbours, counts = matrix[filled].cpu().numpy(), counts.cpu().numpy()
    return Neighbours(counts, _offsets(counts), neighbours)


def _offsets(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
