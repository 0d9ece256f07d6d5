"""The input axes of particles in cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.base.errors import UserError
from gpubench.core.recipe import MAX_PARTICLES, Recipe, Words, among, axis, whole

if TYPE_CHECKING:
    from gpubench.core.grid import Grid

DISTRIBUTIONS = (
    "uniform",
    "lattice",
    "clusters",
    "one-cell",
    "symmetric",
    "free-surface",
    "coincident",
    "power-law",
)
CONTRASTED = ("power-law", "free-surface", "clusters")  # that take a contrast
ORDERS = ("random", "cell", "morton", "nearly-sorted")
DESTINATIONS = ("random", "next", "step")
# From least to most clustered.
CLUSTERED = ("lattice", "uniform", "symmetric", "free-surface", "power-law", "clusters", "one-cell")

# From least to most ordered.
ORDERED = {"random": "random", "nearly-sorted": "nearly", "morton": "Morton", "cell": "cell"}

# The number of neighbours relative to a uniform distribution: the mean of the squared density over
# the squared mean density; for clusters it depends on how they overlap.
CROWDING = {"clusters": 8.0, "free-surface": 2.5, "one-cell": math.inf}
POWER_LAW = 1000.0  # its contrast, if none is given
SURFACE = 0.4  # the mean height of a free surface, in box heights
CLUSTERS, CLUSTER_WIDTH = 32, 0.05  # width: standard deviation, relative to the box edge
PEAK = 1 / (CLUSTERS * (math.sqrt(2 * math.pi) * CLUSTER_WIDTH) ** 3)  # over the mean density


def thin_share(distribution: str, contrast: float | None) -> float:
    """Return the fraction of the particles that is spray, or between clusters."""
    if contrast is None:
        return 0.0
    if distribution == "clusters":
        return PEAK / (contrast - 1 + PEAK)
    return (1 - SURFACE) / (1 - SURFACE + SURFACE * contrast)


def crowding_of(distribution: str, contrast: float | None) -> float:
    """Return the number of neighbours relative to a uniform distribution; see CROWDING."""
    if distribution == "power-law":
        return max(1.0, 0.45 * math.sqrt(contrast or POWER_LAW))
    dense = 1 - thin_share(distribution, contrast)
    return 1 + (CROWDING.get(distribution, 1) - 1) * dense**2


def check_move(particles: int, grid: Grid, moved: int | None, destination: str) -> None:
    """Raise UserError if `move` cannot move that many particles to the destination."""
    if destination not in DESTINATIONS:
        raise UserError(f"no destination {destination!r}: one of {', '.join(DESTINATIONS)}")
    if (moved is None) != (destination == "step"):
        raise UserError(
            "a step decides for itself how many particles move, and a move to random or next"
            " cells needs their number"
        )
    if moved is not None and not 0 <= moved <= particles:
        raise UserError(
            f"{moved} of {particles} particles cannot move: give a number from 0 to {particles}"
        )
    if moved and grid.count == 1:
        raise UserError("in a grid of one cell no particle can move to another: use more cells")


@dataclass(frozen=True)
class Particles(Recipe):
    """Particles in the cells of a grid; if they moved, also their state before the move.

    moved: the number of particles that changed cells; None if none did, or if `destination` is
        "step", since random steps determine the number.
    moved_fraction: `moved` as a fraction of the particles, for sweeps over the number of particles;
        the constructor converts it to `moved` and sets it to None.
    destination: where particles moved, see inputs.move; None if nothing moved.
    contrast: highest over lowest density, see inputs.make. radii: longest over shortest radius, if
        particles have radii of their own, up to one cell edge, see inputs.with_radii.
    """

    kind, size_axis, named_by = "particles", "particles", "particles"
    varied: ClassVar = {"per_cell": [1, 16]}
    fixed: ClassVar = {"distribution": "uniform", "order": "random"}

    particles: int = axis(
        Words("Particles", "particles", "{} particles", "size", is_size=True),
        whole(1, MAX_PARTICLES),
    )
    per_cell: float = axis(
        Words("Particles per cell", "particles per cell", "{} per cell", "number", is_size=True),
        {"type": "number", "exclusiveMinimum": 0},
    )
    distribution: str = axis(
        Words(
            "Distribution",
            "distribution",
            "{} distribution",
            names=dict.fromkeys(CLUSTERED),
            place=2,
        ),
        among(DISTRIBUTIONS),
        "uniform",
    )
    order: str = axis(
        Words("Order", "initial order", "{} order", names=ORDERED, place=2), among(ORDERS), "random"
    )
    moved: int | None = axis(
        Words("Moved", "particles moved", "{} moved", "with zero", place=2), whole(0), None
    )
    moved_fraction: float | None = axis(
        None, {"type": "number", "minimum": 0, "maximum": 1}, None, recorded=None
    )
    destination: str | None = axis(
        Words(
            "Destination",
            "destination",
            "destination {}",
            names=dict.fromkeys(DESTINATIONS),
            place=2,
        ),
        among(DESTINATIONS),
        None,
    )
    periodic: bool = axis(
        Words("Box", "box", "{}", place=3),
        {"type": "boolean"},
        False,
        recorded=tuple[bool, bool, bool],
    )
    contrast: float | None = axis(
        Words("Contrast", "highest over lowest density", "contrast {}", "number", place=2),
        {"type": "number", "exclusiveMinimum": 1}, None,
    )  # fmt: skip
    radii: float | None = axis(
        Words("Radii", "longest over shortest radius", "radii up to {} times", "number", place=2),
        {"type": "number", "exclusiveMinimum": 1, "maximum": 1024}, None,
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.moved_fraction is not None:
            if self.moved is not None:
                raise UserError("give either moved or moved_fraction, not both")
            object.__setattr__(self, "moved", round(self.moved_fraction * self.particles))
            object.__setattr__(self, "moved_fraction", None)
        if self.moved is not None and self.destination is None:
            raise UserError("particles that move need a destination: random or next")
        if self.destination is not None:
            check_move(self.particles, self.grid, self.moved, self.destination)
        if self.contrast is not None and self.distribution not in CONTRASTED:
            raise UserError(
                f"{self.distribution} particles take no contrast: {', '.join(CONTRASTED)} do"
            )
        if self.radii is not None and self.destination is not None:
            raise UserError("particles with radii of their own do not move: leave out either")

    @cached_property
    def grid(self) -> Grid:
        """A grid with `per_cell` particles per cell on average.

        The corner of the box is at the origin; for `symmetric` particles, its centre is.
        """
        from gpubench.core.grid import grid_for  # NumPy is slow to import

        grid = grid_for(self.particles, self.per_cell, (self.periodic,) * 3)
        grid = replace(grid, shortest=self.radii and grid.reach / self.radii)
        return grid.centred() if self.distribution == "symmetric" else grid

    @property
    def title(self) -> str:
        """A title with the number of particles, the mean per cell, the order, and number moved."""
        parts = [f"{self.particles:,} particles", f"{self.per_cell:g} per cell", self.order]
        if self.moved is not None:
            parts.append(f"{self.moved:,} moved")
        for name in ("contrast", "radii"):
            parts += [f"{name} {value:g}"] if (value := getattr(self, name)) else []
        return ", ".join(parts)

    @property
    def identity(self) -> dict[str, Any]:
        """The values of the axes, and the grid's cells and periodicity."""
        grid = self.grid
        found = super().identity | {"cells": list(grid.cells), "periodic": list(grid.periodic)}
        del found["moved_fraction"]  # same as `moved`
        return found

    @property
    def neighbours(self) -> int:
        """The approximate total number of neighbours nearer than one cell edge."""
        ball = 4 / 3 * math.pi * self.per_cell * crowding_of(self.distribution, self.contrast)
        if self.radii:  # the mean cube of logarithmically uniform radii
            ball *= (1 - self.radii**-3) / (3 * math.log(self.radii))
        return round(self.particles * min(ball, self.particles))

    @property
    def too_small(self) -> str | None:
        """Why the box is too small for any search of neighbours, or None."""
        is_small = self.periodic and min(self.grid.cells) < 3
        return f"3 cells along a periodic axis, not {self.grid.cells}" if is_small else None

    @property
    def host_bytes(self) -> int:
        """The bytes of positions, cells, and a checked answer; twice that with a second state."""
        return self.particles * (100 if self.destination is None else 200)

    @property
    def device_bytes(self) -> int:
        """The bytes of positions, cell ids, and a cell list."""
        # Per particle: position, cell id, link or rank, and a second state's position and cell id.
        second = 0 if self.destination is None else 16 + 4
        return self.particles * (16 + 4 + 4 + second) + self.grid.count * 4
