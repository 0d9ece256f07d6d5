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
    """Uniform particles, one per unit of volume, in cells of one shape with equal edges.

    lattice: "cubic"; "slab", whose third axis is open; or the angles of a triclinic cell in
        degrees, between b and c, a and c, a and b.
    particles: of each system. per_particle: the neighbours of a particle far from open sides, by
        which the cutoff is set.
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
        Words("Systems", "systems in a batch", "batches of {}", "number", place=2),
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
    def vectors(self) -> tuple[tuple[float, float, float], ...]:
        """The vectors of a cell, whose volume is the number of its particles."""
        angles = self.lattice.split("-") if "-" in self.lattice else ("90",) * 3
        radians = [math.radians(int(angle)) for angle in angles]
        x, y, z = (math.cos(angle) if angle != math.pi / 2 else 0.0 for angle in radians)
        across = math.sin(radians[2])
        along = (x - y * z) / (across or math.nan)
        if not (rest := 1 - y * y - along * along) > 1e-6:
            raise UserError(f"no cell has the angles {self.lattice}: give others, as 60-70-80")
        up = math.sqrt(rest)
        a = math.cbrt(self.particles / (across * up))
        return (a, 0.0, 0.0), (a * z, a * across, 0.0), (a * y, a * along, a * up)

    @property
    def neighbours(self) -> int:
        """The approximate number of pairs, each counted from both sides."""
        return round(self.particles * self.systems * self.per_particle)

    @property
    def title(self) -> str:
        """A title with the sizes, the number of systems and the cell."""
        several = f"{self.systems:,} systems of " if self.systems > 1 else ""
        return (
            f"{several}{self.particles:,} particles, {self.per_particle:g} neighbours,"
            f" {self.lattice}"
        )

    @property
    def host_bytes(self) -> int:
        """The bytes of positions and images, and of a list that is checked."""
        return self.particles * self.systems * 500 + self.neighbours * 60

    @property
    def device_bytes(self) -> int:
        """The bytes of positions and of a list."""
        return self.particles * self.systems * (12 + 8) + self.neighbours * (4 + 12)
