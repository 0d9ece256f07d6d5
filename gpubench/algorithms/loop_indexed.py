"""Loop subdivision of an indexed mesh: the rival of triangles that carry their neighbourhood."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms.loop_subdivision import BLOCK, WEIGHTS, Step
from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Form
from gpubench.core.poison import poison
from gpubench.problems.subdivision.contract import Subdivided, Subdivision
from gpubench.problems.subdivision.inputs import LoopMesh, edge_numbers, twins

WORDS = 9  # per triangle: its vertices, opposite half-edges and edges
MOST_TRIANGLES = 2**29  # a half-edge is one of four per triangle, in 31 bits


class LoopIndexed(Subdivision):
    """One launch per level over shared vertices; the answer can be subdivided further.

    36 bytes per triangle, 20 per vertex. Corners of the answer are gathered when it is read.
    """

    name = "loop-indexed"
    summary = "Loop subdivision of vertices and indices, about 46 bytes per triangle"
    source = "Dupuy and Vanhoey, Computer Graphics Forum 41 (2022); Loop 1987"
    forms: ClassVar[Mapping[str, Form]] = {"uniform": Form("every triangle is split")}

    def prepare(self) -> None:
        sizes = [self.faces * 4**level for level in (self.depth, self.depth - 1)]
        if sizes[0] > MOST_TRIANGLES:
            raise NotSupported(f"{self.name} makes at most 2^29 triangles, not {sizes[0]:,}")
        constants: dict[str, int | str] = {"BLOCK": BLOCK, **WEIGHTS}
        self._split = self.device.kernel("loop_indexed.cu", "split_indexed", **constants)
        self._count = self.device.kernel("loop_subdivision.cu", "begin", TEST=0, **constants)
        self._counts = self.allocate(3, "int32")
        # The last two levels. A component has half as many vertices as triangles, and up to two.
        self._levels = [
            (
                self.allocate((WORDS, size), "int32"),
                self.allocate(((size + self.faces) // 2, 4), "float32"),
                self.allocate((size + self.faces) // 2, "int32"),
            )
            for size in sizes
        ]

    def load(self, inputs: LoopMesh) -> None:
        """Upload the mesh with its edges and half-edges numbered."""
        self._mesh = tuple(self.device.upload(each) for each in indexed(inputs))
        self._vertices = len(inputs.vertices)

    def launch(self) -> None:
        for _, _, queue in self.level_steps():
            queue()

    def level_steps(self) -> list[Step]:
        steps: list[Step] = []
        source, parents, vertices = self._mesh, self.faces, self._vertices
        for level in range(self.depth):
            target = self._levels[(self.depth - 1 - level) % 2]
            split = partial(
                self._split, self.device.blocks(parents, BLOCK), BLOCK, *source, *target, parents,
                vertices,
            )  # fmt: skip
            steps.append((level, "split", split))
            source, parents, vertices = target, 4 * parents, vertices + parents // 2 * 3
        count = partial(self._count, 1, 1, self._counts, 0, parents)
        return [*steps, (self.depth - 1, "count", count)]

    @property
    def answer(self) -> Subdivided:
        """The corners of all triangles, gathered on the host."""
        triangles, points, _ = self._levels[0]
        vertices, places = map(self.device.download, (triangles[:3], points))
        corners: NDArray[Any] = places.take(vertices, axis=0, mode="clip")
        return Subdivided(corners, self.device.download(self._counts))

    def download(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)

    def poison(self) -> None:
        poison(self.device, self._counts, *self._levels[0])

    def outcome(self) -> dict[str, int | float | str]:
        _, triangles, lost = self.device.download(self._counts).tolist()
        return {"triangles": triangles, "lost": lost}

    def traffic_bytes(self) -> int:
        # Each level reads its triangles and vertices and writes the next.
        return int((4 * WORDS + 10) * 5 * self.faces * (4**self.depth - 1) // 3)


def indexed(mesh: LoopMesh) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32]]:
    """Return triangles (9, faces), points (vertices, 4) and leaving half-edges, as kernels do."""
    faces, count = mesh.faces, len(mesh.vertices)
    points, leaving = np.zeros((count, 4), np.float32), np.zeros(count, np.int32)
    points[:, :3] = mesh.vertices
    leaving[faces] = 4 * np.arange(len(faces))[:, None] + np.arange(3)
    planes = np.concatenate((faces, twins(faces), edge_numbers(faces)[1]), axis=1)
    return np.ascontiguousarray(planes.T, np.int32), points, leaving
