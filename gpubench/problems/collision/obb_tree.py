"""Trees of oriented bounding boxes over triangles, built on the host (Gottschalk et al. 1996)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.base.user_cache import remembered_arrays

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KEPT = 4  # number of trees cached in memory, and as many on disk
LARGE = 2**15  # triangles of trees cached on disk; smaller trees are faster to build than to read
VERSION = 1  # version of the output of `_build`
# Boxes are padded by these fractions of their size and of the largest coordinate, to cover the
# error of rounding their axes, centre and edges to float32.
PADDING, ROUNDING = 1e-6, 2.0**-20

_kept: dict[str, ObbTree] = {}


@dataclass(frozen=True, eq=False)
class ObbTree:
    """A binary tree whose leaves hold one triangle each; node 0 is the root.

    boxes: float32, shape (2 n - 1, 3, 4): rows (x axis, half edge along it), (y axis, half edge),
        (centre, half edge along z = x cross y).
    links: int32, shape (2 n - 1, 2): the first child's index (the second child's is one higher);
        the bits of the squared half diagonal as float32. For a leaf: -1 - triangle; bits of -1.0.
    depth: levels below the root. triangles: float32, shape (n, 3, 3).
    """

    boxes: NDArray[np.float32]
    links: NDArray[np.int32]
    depth: int
    triangles: NDArray[np.float32]


def obb_tree(triangles: NDArray[np.float32]) -> ObbTree:
    """Return the tree of triangles, float32, shape (n, 3, 3).

    Recent trees are cached in memory, large ones also in the user's cache folder.

    Axes are the eigenvectors of the covariance of the surface in a node (Gottschalk, Lin and
    Manocha 1996, section 4). A node's triangles are split by their centroids, at the mean along its
    longest axis; if one side would be empty, along the next; failing all three, in halves by index.
    """
    digest = hashlib.sha256(triangles.tobytes()).hexdigest()
    if digest not in _kept:
        while len(_kept) >= KEPT:
            del _kept[next(iter(_kept))]
        _kept[digest] = _build(triangles) if len(triangles) < LARGE else _cached(digest, triangles)
    return _kept[digest]


def _cached(digest: str, triangles: NDArray[np.float32]) -> ObbTree:
    def make() -> dict[str, NDArray[Any]]:
        tree = _build(triangles)
        return {"boxes": tree.boxes, "links": tree.links, "depth": np.array(tree.depth)}

    found = remembered_arrays("obb-tree", f"{VERSION}-{digest[:32]}", KEPT, make)
    return ObbTree(found["boxes"], found["links"], int(found["depth"]), triangles)


def _moments(corners: Floats) -> Floats:
    """Return area, area times centroid, and area-weighted second moments, shape (n, 10)."""
    centroid = corners.mean(axis=1)
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(cross, axis=1) / 2
    i, j = np.triu_indices(3)
    second = 9 * centroid[:, i] * centroid[:, j] + (corners[:, :, i] * corners[:, :, j]).sum(1)
    return np.concatenate(
        (area[:, None], area[:, None] * centroid, area[:, None] / 12 * second), axis=1
    )


def _axes(sums: Floats) -> tuple[Floats, Floats]:
    """Return mean (nodes, 3) and right-handed axes as rows (nodes, 3, 3) from summed `_moments`."""
    mean = sums[:, 1:4] / sums[:, :1]
    covariance = np.empty((len(sums), 3, 3))
    i, j = np.triu_indices(3)
    covariance[:, i, j] = covariance[:, j, i] = sums[:, 4:] / sums[:, :1] - mean[:, i] * mean[:, j]
    axes = np.linalg.eigh(covariance)[1].swapaxes(1, 2)
    axes[:, :2] = axes[:, :2].astype(np.float32)  # rounded as they will be stored
    axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    return mean, axes


def _reach(corners: Floats, axes: Floats, starts: Ints) -> tuple[Floats, Floats]:
    """Return the lowest and highest coordinates of each node's triangles along the node's axes."""
    low, high = np.empty((2, len(starts), 3))
    for axis in range(3):
        x, y, z = axes[:, axis].T
        # Process x, y and z as separate columns: NumPy is slow along axes of length 3.
        a, b, c = (p[0] * x + p[1] * y + p[2] * z for p in np.moveaxis(corners, 0, 2))
        low[:, axis] = np.minimum.reduceat(np.minimum(np.minimum(a, b), c), starts)
        high[:, axis] = np.maximum.reduceat(np.maximum(np.maximum(a, b), c), starts)
    return low, high


def _sides(
    centroids: Floats, mean: Floats, axes: Floats, half: Floats, starts: Ints, sizes: Ints
) -> NDArray[np.bool_]:
    """Return which triangles go to the second child; triangles of a node are contiguous."""
    node = np.repeat(np.arange(len(sizes)), sizes)
    side = np.arange(len(node)) - np.repeat(starts, sizes) >= np.repeat(sizes // 2, sizes)
    is_open = np.ones(len(sizes), bool)
    for axis in np.argsort(-half, axis=1, kind="stable").T:
        along = np.take_along_axis(axes, axis[:, None, None], 1)[:, 0]
        place = sum(along[node, k] * centroids[:, k] for k in range(3))
        beyond = place > (along * mean).sum(axis=1)[node]
        count = np.add.reduceat(beyond, starts, dtype=np.int64)
        splits = is_open & (count > 0) & (count < sizes)
        side = np.where(splits[node], beyond, side)
        is_open &= ~splits
    return side


def _build(triangles: NDArray[np.float32]) -> ObbTree:
    corners = triangles.astype(np.float64)
    n, largest = len(corners), float(np.abs(corners).max())
    centre = corners.reshape(-1, 3).mean(axis=0)
    corners -= centre  # moments about the centre lose fewer digits
    moments, centroids = _moments(corners), corners.mean(axis=1)
    boxes = np.empty((2 * n - 1, 3, 4), np.float32)
    links = np.empty((2 * n - 1, 2), np.int32)
    order, sizes, first, depth = np.arange(n), np.array([n]), 0, 0
    while True:
        starts = np.cumsum(sizes) - sizes
        mean, axes = _axes(np.add.reduceat(moments[order], starts))
        node = np.repeat(np.arange(len(sizes)), sizes)
        low, high = _reach(corners[order], axes[node], starts)
        half = (high - low) / 2
        half += PADDING * np.linalg.norm(half, axis=1, keepdims=True) + ROUNDING * largest
        here = slice(first, first + len(sizes))
        middle = centre + np.einsum("na,nak->nk", (low + high) / 2, axes)
        rows = np.stack((axes[:, 0], axes[:, 1], middle), axis=1)
        boxes[here] = np.concatenate((rows, half[:, :, None]), axis=2)
        is_leaf = sizes == 1
        extent = np.where(is_leaf, -1, (half**2).sum(axis=1)).astype(np.float32)
        child = first + len(sizes) + 2 * (np.cumsum(~is_leaf) - 1)
        links[here, 0] = np.where(is_leaf, -1 - order[starts], child)
        links[here, 1] = extent.view(np.int32)
        if is_leaf.all():
            return ObbTree(boxes, links, depth, triangles)
        first, depth = first + len(sizes), depth + 1
        goes_on = ~is_leaf[node]
        order, sizes = order[goes_on], sizes[~is_leaf]
        starts, split = np.cumsum(sizes) - sizes, ~is_leaf
        side = _sides(centroids[order], mean[split], axes[split], half[split], starts, sizes)
        node = np.repeat(np.arange(len(sizes)), sizes)
        order = order[np.argsort(2 * node + side, kind="stable")]
        right = np.add.reduceat(side, starts, dtype=np.int64)
        sizes = np.stack((sizes - right, right), axis=1).ravel()
