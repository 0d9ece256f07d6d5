"""The input axes of matrices of 1x3 blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from gpubench.core.recipe import DeclaredAxis, Recipe, Words, among, axis, declared_axes, like
from gpubench.problems.particles.axes import Particles


@dataclass(frozen=True)
class Matrices(Recipe):
    """A matrix derived from particles in an open box; see inputs.py.

    matrix: the kind of matrix that is derived from the particles.
    """

    kind, size_axis, named_by = "matrix", "particles", "matrix"
    varied: ClassVar = {"order": ["cell", "random"]}
    fixed: ClassVar = {"matrix": "density-gradient", "per_cell": 8, "distribution": "uniform"}
    derived: ClassVar[Mapping[str, DeclaredAxis]] = {
        "periodic": declared_axes(Particles)["periodic"]
    }

    matrix: str = axis(Words("Matrix", "matrix", "{} matrix"), among(("density-gradient",)))
    particles: int = like(Particles, "particles")
    per_cell: float = like(Particles, "per_cell")
    distribution: str = like(Particles, "distribution")
    order: str = like(Particles, "order")

    @cached_property
    def among(self) -> Particles:
        """The recipe of the particles from which the matrix is derived."""
        return Particles(self.particles, self.per_cell, self.distribution, self.order)

    def __post_init__(self) -> None:
        _ = self.among.grid

    @property
    def title(self) -> str:
        """A title with the matrix, the sizes and the order."""
        return f"{self.matrix}, {self.among.title}"

    @property
    def identity(self) -> dict[str, Any]:
        """The values of the axes, and the cells of the grid."""
        grid = self.among.grid
        return super().identity | {"cells": list(grid.cells), "periodic": list(grid.periodic)}

    @property
    def neighbours(self) -> int:
        """The approximate number of off-diagonal blocks."""
        return self.among.neighbours

    @property
    def host_bytes(self) -> int:
        """The bytes of particles, vectors, and an answer whose rows are being checked."""
        return self.among.host_bytes + self.particles * 100

    @property
    def device_bytes(self) -> int:
        """The bytes of positions, both vectors, the diagonal, and all blocks with their columns."""
        return self.particles * (16 + 16 + 4 + 12) + self.neighbours * (12 + 4)
