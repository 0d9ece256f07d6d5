"""Pairs of particles within a distance, by SciPy's cKDTree in float64, in bounded batches."""

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

# Processing a pair takes about 200 bytes.
PAIRS_AT_ONCE = 2**20


@dataclass(frozen=True)
class OrderedPairs:
    """Ordered pairs of particles: each pair occurs once in each order.

    first, second: intp (pairs,), indices of the particles.
    offset: float64 (pairs, 3), from the second's nearest image to the first. The same pair in the
        other order has exactly the negative offset.
    distance: float64 (pairs,), 0 for coincident particles.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    offset: Floats
    distance: Floats


def nearest_image(offset: Floats, box: Box) -> Floats:
    """Return offsets (any, 3) as minimum images: at most half an edge along each periodic axis.

    Along axes that are not periodic they are unchanged.
    """
    shortened = offset.copy()
    for axis in np.flatnonzero(box.periodic):
        edge = box.size[axis]
        shortened[:, axis] -= edge * np.rint(offset[:, axis] / edge)
    return shortened


def ordered_pairs(positions: Floats, box: Box, reach: float) -> Iterator[OrderedPairs]:
    """Yield all ordered pairs nearer than `reach`, about PAIRS_AT_ONCE at a time.

    positions: float64 (particles, 3), anywhere along periodic axes. All pairs with the same first
    particle come in one batch.
    Raises UserError where a periodic edge is shorter than twice the reach: two images of a particle
    could then be in range.
    """
    from scipy.spatial import cKDTree  # slow to import

    for axis, edge, periodic in zip("xyz", box.size, box.periodic, strict=True):
        if periodic and edge < 2 * reach:
            raise UserError(
                f"the box is {edge:g} long along {axis}, where it is periodic: pairs up to"
                f" {reach:g} apart need {2 * reach:g} or more"
            )
    inside = wrapped(positions, box)
    boxsize = np.where(box.periodic, box.size, 0.0)  # 0 where not periodic, as cKDTree expects
    # The tree rounds: query a slightly larger radius, then select.
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
        moved[:, axis] = np.where(inside < edge, inside, 0.0)  # a tiny negative rounds to the edge
    return moved


def _chunks(tree: cKDTree, positions: Floats, radius: float) -> list[NDArray[np.intp]]:
    """Split the particles, in the tree's own order, into parts of about PAIRS_AT_ONCE pairs."""
    order = tree.indices
    pairs = tree.query_ball_point(positions[order], radius, return_length=True, workers=-1)
    part = np.cumsum(pairs) // PAIRS_AT_ONCE
    return np.split(order, np.flatnonzero(np.diff(part)) + 1)
