"""The oracle of searches in cells: every image of every particle, in float64."""

from __future__ import annotations

import itertools

import numpy as np


def images_within(positions, vectors, periodic, cutoff):
    """Return i, j, shift and distance of all pairs nearer than a cutoff, as one array of rows.

    vectors: shape (3, 3); those along open axes are ignored. A particle is no neighbour of itself,
    but its images are. The cell should not be tilted: each shift that could be near is tried.
    """
    x = np.asarray(positions, np.float64)[:, :3]
    periodic = np.asarray(periodic, bool)
    axes = np.where(periodic[:, None], vectors, 0.0)
    # Any directions that are perpendicular to the periodic ones measure along open axes.
    _, _, across = np.linalg.svd(axes[periodic], full_matrices=True)
    axes[~periodic] = across[periodic.sum() :]
    along = x @ np.linalg.inv(axes)
    way = along[None] - along[:, None]
    reach = cutoff * np.linalg.norm(np.linalg.inv(axes), axis=0) + 1e-9
    least = np.ceil(-way - reach) * periodic  # of the shifts that could bring a pair so near
    found = []
    for more in itertools.product(*map(range, np.floor(2 * reach * periodic).astype(int) + 1)):
        i, j = (np.abs((way + least + more) * periodic) <= reach).all(axis=2).nonzero()
        shift = least[i, j] + more
        distance = np.linalg.norm(x[j] - x[i] + shift @ axes, axis=1)
        near = (distance < cutoff) & ((i != j) | shift.any(axis=1))
        found.append(np.column_stack((i, j, shift, distance))[near])
    return np.concatenate(found)
