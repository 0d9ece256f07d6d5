"""Test meshes of subdivision."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from gpubench.core.algorithm import Algorithm
from gpubench.core.case import Case
from gpubench.core.problem import Sample
from gpubench.problems.subdivision.inputs import LoopMesh, loop_mesh, make_loop_mesh

TETRAHEDRON = ((0, 1, 2), (0, 3, 1), (0, 2, 3), (1, 3, 2))
OCTAHEDRON = tuple(
    (x, y, z) if flip else (y, x, z)
    for x, y, z, flip in (
        (0, 2, 4, 1), (1, 2, 4, 0), (0, 3, 4, 0), (1, 3, 4, 1),
        (0, 2, 5, 0), (1, 2, 5, 1), (0, 3, 5, 1), (1, 3, 5, 0),
    )
)  # fmt: skip


def _tetrahedron(depth: int) -> LoopMesh:
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    return loop_mesh(corners, np.array(TETRAHEDRON), depth)


def _octahedron(depth: int) -> LoopMesh:
    axes = np.eye(3)[[0, 0, 1, 1, 2, 2]] * np.array([1, -1] * 3)[:, None]
    return loop_mesh(axes * (1, 2, 0.5), np.array(OCTAHEDRON), depth)


def surfaces() -> list[Case]:
    """Return meshes with every valence, of genus 0 and 1, and of sizes around that of a block."""
    shapes = (
        ("icosphere", 20, 1), ("icosphere", 20, 5), ("icosphere", 320, 3), ("icosphere", 1280, 2),
        ("torus", 36, 1), ("torus", 36, 4), ("torus", 100, 3), ("torus", 4 * 17**2, 2),
        ("flipped-sphere", 20, 1), ("flipped-sphere", 20, 5), ("flipped-sphere", 80, 4),
        ("flipped-sphere", 320, 2),
        *(("flipped-sphere", 20, 1 + k % 4) for k in range(30)),
        *(("flipped-sphere", 80, 2) for k in range(6)),
    )  # fmt: skip
    return [
        *(Case(f"tetrahedron, depth {depth}", partial(_tetrahedron, depth)) for depth in (1, 4)),
        *(Case(f"octahedron, depth {depth}", partial(_octahedron, depth)) for depth in (1, 2, 6)),
        *(
            Case(
                f"{name}, {faces} faces, depth {k}, seed {seed}",
                partial(make_loop_mesh, name, faces, k, seed),
            )
            for seed, (name, faces, k) in enumerate(shapes)
        ),
    ]  # fmt: skip


def samples(algorithm: type[Algorithm], form: str) -> Iterator[Sample]:
    """Yield meshes in which all, some or none of the triangles are split."""
    yield make_loop_mesh("flipped-sphere", 20, 2, 1), {"pixels": 250, "bend_percent": 60}
    yield make_loop_mesh("icosphere", 20, 1), {"pixels": 0, "bend_percent": 0}
    yield make_loop_mesh("torus", 36, 2), {"pixels": 200}
    yield make_loop_mesh("icosphere", 80, 1), {"pixels": 10**6, "bend_percent": 10**5}


def blanks(size: int) -> Iterator[LoopMesh]:
    """Yield one mesh, since compiled kernels do not depend on the size."""
    yield make_loop_mesh("icosphere", 20, 2)
