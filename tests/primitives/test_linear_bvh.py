"""Linear bounding volume hierarchies: every leaf once, every box the union of its leaves."""

from __future__ import annotations

import numpy as np
import pytest

from gpubench.devices import Device
from gpubench.primitives.linear_bvh import ALONG, LinearBvh


@pytest.mark.parametrize("size", [1, 2, 3, 127, 128, 129, 1000])
@pytest.mark.parametrize("kind", ["uniform", "one place", "few places", "line"])
def test_a_tree_holds_each_leaf_once_in_tight_boxes(device: Device, size: int, kind: str) -> None:
    rng = np.random.default_rng(size)
    middle = rng.uniform(-3, 5, (size, 3))
    if kind == "one place":
        middle[:] = 0.7
    elif kind == "few places":
        middle = middle[rng.integers(0, min(3, size), size)]
    elif kind == "line":
        middle[:, 1:] = 2.0 ** -np.arange(size)[:, None]  # the codes of most are equal
    boxes = np.zeros((size, 2, 4), np.float32)
    half = rng.uniform(0, 0.3, (size, 3))
    boxes[:, 0, :3], boxes[:, 1, :3] = middle - half, middle + half
    tree = LinearBvh(device, size)
    for _ in range(2):
        tree.launch(device.upload(boxes.reshape(-1, 4)), (-3.0, -3.0, -3.0), 8.0)
    order = device.download(tree.order)
    assert np.array_equal(np.sort(order), np.arange(size))
    leaves = device.download(tree.leaf_boxes)[: 2 * size].reshape(-1, 2, 4)
    assert np.array_equal(leaves, boxes[order])
    mid = (leaves[:, 0] + leaves[:, 1])[:, :3] / 2
    cell = np.clip((mid + 3) * (ALONG / 8), 0, ALONG - 1).astype(np.int64)
    code = sum(((cell >> bit) & 1) @ np.array([4, 2, 1]) << 3 * bit for bit in range(10))
    if size == 1:
        return
    if kind == "uniform":  # elsewhere rounding decides between cells
        assert (np.diff(code) >= 0).mean() > 0.99
    children = device.download(tree.children)
    nodes = device.download(tree.node_boxes).reshape(-1, 2, 4)
    named = np.where(children >= 0, children, size - 2 - children).ravel()  # leaves after nodes
    assert np.array_equal(np.sort(named), np.arange(1, 2 * size - 1))
    seen, todo, deepest = 0, [(0, 1)], 0
    while todo:
        node, depth = todo.pop()
        deepest, seen = max(deepest, depth), seen + 1
        below = [leaves[-1 - c] if c < 0 else nodes[c] for c in children[node]]
        assert np.array_equal(nodes[node, 0], np.minimum(below[0][0], below[1][0]))
        assert np.array_equal(nodes[node, 1], np.maximum(below[0][1], below[1][1]))
        todo += [(int(c), depth + 1) for c in children[node] if c >= 0]
    assert seen == size - 1 and deepest <= 62
