"""The input axes of periodic systems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from gpubench.base.errors import UserError
from gpubench.core.recipe import Recipe, Words, axis, like, whole
from gpubench.problems.particles.axes import Particles


@dataclass(frozen=True)
class Systems(Recipe):
    """Uniform particles in cells of one shape, one particle per unit of volume.

    lattice: "cubic"; "slab", cubic with an open third axis; or the three angles of a rhombohedral
        or triclinic cell with equal edges, in degrees: between b and c, a and c, a and b.
    particles: in each of the systems. per_particle: the neighbours of a particle, on average and
        away from open sides, by which the cutoff is chosen; it may exceed the cell.
    """

    kind, size_axis, named_by = "systems", "particles", "lattice"
    varied: ClassVar = {"lattice": ["cubic", "60-70-80"]}
    fixed: ClassVar = {"per_particle": 60, "systems": 1}

    lattice: str = axis(
        Words("Cell", "cell", "{} cell", names={"cubic": None, "slab": None}, place=2),
        {"type": "string", "pattern": "^(cubic|slab|[1-9][0-9]*-[1-9][0-9]*-[1-9][0-9]*)$"},
    )
    particles: int = like(Particles, "particles")
    per_particle: float = axis(
        Words("Neighbours", "neighbours per particle", "{} neighbours", "number", is_size=True),
        {"type": "number", "exclusiveMinimum": 0, "maximum": 2**20},
    )
    systems: int = axis(
        Words("Systems", "systems in a batch", "{} systems", "number", place=2),
        whole(1, 2**20),
        1,
    )

    def __post_init__(self) -> None:
        _ = self.vectors

    @property
    def cutoff(self) -> float:
        """The radius of a ball that contains `per_particle` particles."""
        return math.cbrt(self.per_particle * 3 / (4 * math.pi))

    @property
    def periodic(self) -> tuple[bool, bool, bool]:
        """Which axes are periodic."""
        return True, True, self.lattice != "slab"

    @property
    def vectors(self) -> tuple[tuple[float, float, float], ...]:
        """The vectors of a cell, whose volume is the number of its particles."""
        angles = self.lattice.split("-") if "-" in self.lattice else ("90",) * 3
        (cos_a, cos_b, cos_c), sin_c = (
            [math.cos(math.radians(float(angle))) if angle != "90" else 0.0 for angle in angles],
            math.sin(math.radians(float(angles[2]))),
        )
        x, y = cos_b, (cos_a - cos_b * cos_c) / sin_c if sin_c else math.inf
        if not (height2 := 1 - x * x - y * y) > 1e-6:
            raise UserError(f"no cell has the angles {self.lattice}: give others, as 60-70-80")
        height = math.sqrt(height2)
        edge = math.cbrt(self.particles / (sin_c * height))
        return (edge, 0.0, 0.0), (edge * cos_c, edge * sin_c, 0.0), (
            edge * x, edge * y, edge * height,
        )  # fmt: skip

    @property
    def neighbours(self) -> int:
        """The approximate number of pairs, each counted from both sides."""
        return round(self.particles * self.systems * self.per_particle)

    @property
    def title(self) -> str:
        """A title with the cell, the sizes and the number of systems."""
        several = f"{self.systems:,} systems of " if self.systems > 1 else ""
        sizes = f"{self.particles:,} particles, {self.per_particle:g} neighbours"
        return f"{several}{sizes}, {self.lattice}"

    @property
    def host_bytes(self) -> int:
        """The bytes of positions and images, and of a list that is being checked."""
        return self.particles * self.systems * 500 + self.neighbours * 60

    @property
    def device_bytes(self) -> int:
        """The bytes of positions and of a list."""
        return self.particles * self.systems * (12 + 8) + self.neighbours * (4 + 12)
