"""Pairs of particles within a distance, by SciPy's cKDTree in float64, a bounded number at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.physics.arrays import Floats
from gpubench.physics.box import Box

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

# A pair takes some 200 bytes in what works on it.
PAIRS_AT_ONCE = 2**20


@dataclass(frozen=True)
class OrderedPairs:
    """Ordered pairs of particles: each pair comes once from either side.

    first, second: intp (pairs,), indices of the particles.
    offset: float64 (pairs, 3), position of the first minus that of the second's nearest image.
        From the other side it is the same with its sign turned, to the bit.
    distance: float64 (pairs,), 0 for coincident particles.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    offset: Floats
    distance: Floats


def nearest_image(offset: Floats, box: Box) -> Floats:
    """Return offsets (any, 3) less the whole periods in them: half an edge at most along each axis.

    Along axes that are not periodic they stay as they are.
    """
    shortened = offset.copy()
    for axis in np.flatnonzero(box.periodic):
        edge = box.size[axis]
        shortened[:, axis] -= edge * np.rint(offset[:, axis] / edge)
    return shortened


def ordered_pairs(positions: Floats, box: Box, reach: float) -> Iterator[OrderedPairs]:
    """Yield all ordered pairs nearer than `reach`, some PAIRS_AT_ONCE at a time.

    positions: float64 (particles, 3), anywhere along periodic axes. All pairs of a first particle
    come together.
    Raises UserError where a periodic edge is shorter than twice the reach, so that a particle
    could see two images of another.
    """
    from scipy.spatial import cKDTree  # slow to import

    for axis, edge, periodic in zip("xyz", box.size, box.periodic, strict=True):
        if periodic and edge < 2 * reach:
            raise UserError(
                f"the box is {edge:g} long along {axis}, where it is periodic: pairs up to"
                f" {reach:g} apart need {2 * reach:g} or more"
            )
    inside = wrapped(positions, box)
    boxsize = np.where(box.periodic, box.size, 0.0)  # 0 where open, as cKDTree has it
    # The tree rounds: ask for a little more, then select.
    radius = reach * (1 + 1e-9)
    tree = cKDTree(inside, boxsize=boxsize)
    for chunk in _chunks(tree, inside, radius):
        if len(chunk) == len(inside):
            once = tree.query_pairs(radius, output_type="ndarray")
            first, second = np.concatenate((once, once[:, ::-1])).T
        else:
            of_chunk = cKDTree(inside[chunk], boxsize=boxsize)
            found = of_chunk.sparse_distance_matrix(tree, radius, output_type="ndarray")
            first, second = chunk[found["i"]], found["j"]
            others = first != second
            first, second = first[others], second[others]
        offset = nearest_image(inside[first] - inside[second], box)
        distance = np.sqrt(np.einsum("pk,pk->p", offset, offset))
        near = distance < reach
        yield OrderedPairs(first[near], second[near], offset[near], distance[near])


def wrapped(positions: Floats, box: Box) -> Floats:
    """Return positions inside the box along its periodic axes, below the upper edge."""
    moved = positions.copy()
    for axis in np.flatnonzero(box.periodic):
        edge = box.size[axis]
        inside = positions[:, axis] % edge
        moved[:, axis] = np.where(inside < edge, inside, 0.0)  # the edge: of a tiny negative
    return moved


def _chunks(tree: cKDTree, positions: Floats, radius: float) -> list[NDArray[np.intp]]:
    """Split the particles, in the tree's own order, so that each part has PAIRS_AT_ONCE or so."""
    order = tree.indices
    pairs = tree.query_ball_point(positions[order], radius, return_length=True, workers=-1)
    part = np.cumsum(pairs) // PAIRS_AT_ONCE
    return np.split(order, np.flatnonzero(np.diff(part)) + 1)
