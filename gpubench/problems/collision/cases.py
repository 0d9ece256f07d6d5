"""Test inputs of mesh collision."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.problem import Sample
from gpubench.problems.collision.axes import POSES, SHAPES
from gpubench.problems.collision.inputs import MeshPair, make_mesh_pair, mesh_pair

NO_TURN = np.eye(3, 4)


def _given(first: Any, second: Any, *shift: float) -> MeshPair:
    pose = NO_TURN.copy()
    pose[:, 3] = shift or (0, 0, 0)
    return mesh_pair(np.asarray(first), np.asarray(second), pose)


def _copies(size: int, other: int, shift: float) -> MeshPair:
    """Return two meshes of copies of one triangle, whose equal centroids no split separates."""
    one = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0.0]]])
    crossing = np.array([[[0.2, 0.2, -1], [0.3, 0.2, 1], [0.2, 0.3, 1]]])
    return _given(np.repeat(one, size, 0), np.repeat(crossing, other, 0), 0, 0, shift)


def _far(shift: float) -> MeshPair:
    """Return two triangle soups that intersect, far from the origins of both."""
    pair = make_mesh_pair("soup", 64, "deep", 5)
    pose = pair.pose.copy()
    turned = pose[:, :3].astype(np.float64) @ np.full(3, shift)
    pose[:, 3] += np.float32(shift) - turned
    return mesh_pair(pair.first + np.float32(shift), pair.second + np.float32(shift), pose)


def meshes() -> list[Case]:
    """Return test cases: all shapes in all poses, few or identical triangles, far positions."""
    one = [[[0, 0, 0], [1, 0, 0], [0, 1, 0.0]]]
    lifted = [[[0.2, 0.2, -1], [0.3, 0.2, 1], [0.2, 0.3, 1.0]]]
    rng = np.random.default_rng(4)
    needles = rng.uniform(-1, 1, (40, 1, 3)) + rng.normal(size=(40, 3, 3)) * (2, 2e-3, 2e-3)
    drawn = [
        (shape, 64 if shape == "soup" else 32, pose, seed)
        for seed, (shape, pose) in enumerate((s, p) for s in SHAPES for p in POSES)
    ]
    drawn += [
        ("sphere", 512, "deep", 1),
        ("height-field", 256, "deep", 2),
        ("soup", 256, "deep", 3),
        ("torus", 1024, "touching", 4),
    ]
    drawn += [(SHAPES[k % 4], 32, POSES[1 + k % 2], 20 + k) for k in range(28)]
    return [
        Case("one triangle each, crossing", partial(_given, one, lifted)),
        Case("one triangle each, apart", partial(_given, one, lifted, 5, 0, 0)),
        Case("one triangle each, in one plane, apart", partial(_given, one, one, 0, 1.5, 0)),
        Case("one triangle and many", partial(_copies, 1, 33, 0)),
        Case("copies in one place, all cross", partial(_copies, 31, 65, 0)),
        Case("copies in one place, none cross", partial(_copies, 32, 32, 1.5)),
        Case("needles", partial(_given, needles[:20], needles[20:])),
        Case("equal meshes", lambda: _given(needles[:20], needles[:20])),
        *(Case(f"far from the origin, {far:g}", partial(_far, far)) for far in (30.0, -1000.0)),
        *(
            Case(
                f"{shape}, {faces} faces, {pose}, seed {seed}",
                partial(make_mesh_pair, shape, faces, pose, seed),
            )
            for shape, faces, pose, seed in drawn
        ),
    ]


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield meshes with few and with many intersecting triangles."""
    for mesh, pose in (("sphere", "deep"), ("soup", "touching")):
        yield make_mesh_pair(mesh, 32, pose, 0), {"capacity": 2048}


def blanks(size: int) -> Iterator[MeshPair]:
    """Yield one pair of meshes, since compiled kernels do not depend on the size."""
    yield make_mesh_pair("sphere", 32, "deep")
