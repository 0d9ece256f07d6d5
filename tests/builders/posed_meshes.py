"""Meshes in poses that share their trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpubench.problems.collision.inputs import MeshPair, make_mesh_pair


def posed_meshes(seed: int, faces: int = 32) -> MeshPair:
    """Return two spheres deep in each other, shifted by as much as a seed says."""
    pair = make_mesh_pair("sphere", faces, "deep", 1)
    pose = pair.pose.copy()
    pose[:, 3] += np.random.default_rng(seed).uniform(-0.1, 0.1, 3)
    return replace(pair, pose=pose)
