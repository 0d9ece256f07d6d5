"""Kinds of input: the axes along which a study varies them, and how each is made.

A kind is a class whose fields are its axes; an object of it is one input that has not been
drawn yet. Study files, plans, records and titles take their axes from here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.core.recipe import Declared, Inputs, Recipe, Words, axis, declared_axes
from gpubench.inputs.making import (
    check_move,
    grid_for,
    make,
    make_pairs,
    move,
)
from gpubench.inputs.matrices import of_particles
from gpubench.inputs.mesh_specs import Meshes, Surfaces
from gpubench.inputs.sets import (
    DECOMPOSITIONS,
    DESTINATIONS,
    DISTRIBUTIONS,
    MAX_PAIRS,
    MAX_PARTICLES,
    ORDERS,
    ParticleSet,
    SimulationStart,
)

__all__ = [
    "CROWDING",
    "Matrices",
    "Meshes",
    "Pairs",
    "Particles",
    "Recipe",
    "Simulation",
    "Surfaces",
]

# How many times as many neighbours a particle has as in a uniform distribution: the mean of the
# squared density, which for the clusters depends on how many of them overlap.
CLUSTERED = ("lattice", "uniform", "symmetric", "free-surface", "clusters", "one-cell")  # rising
# From least to most ordered.
ORDERED = {"random": "random", "nearly-sorted": "nearly", "morton": "Morton", "cell": "cell"}
CROWDING = {"clusters": 8.0, "free-surface": 2.5, "one-cell": math.inf}


@dataclass(frozen=True)
class Particles(Recipe):
    """Particles in the cells of a grid, and the particles before they moved, where they did.

    moved: how many particles have gone to another cell, or None where none has or where
        `destination` is "step", which decides for itself.
    moved_fraction: another way to give `moved`, as a share of the particles, so that a sweep can
        vary both; None as soon as the recipe is made.
    destination: where they went, see inputs.move; None where nothing is moved.
    """

    kind: ClassVar[str] = "particles"
    size_axis: ClassVar[str] = "particles"
    named_by: ClassVar[str] = "particles"

    particles: int = axis(
        words=Words("Particles", "particles", "{} particles", "size", is_size=True),
        type="integer",
        minimum=1,
        maximum=MAX_PARTICLES,
    )
    per_cell: float = axis(
        words=Words(
            "Particles per cell", "particles per cell", "{} per cell", "number", is_size=True
        ),
        type="number",
        exclusiveMinimum=0,
    )
    distribution: str = axis(
        "uniform",
        Words(
            "Distribution",
            "distribution",
            "{} distribution",
            names=dict.fromkeys(CLUSTERED),
            place=2,
        ),
        enum=list(DISTRIBUTIONS),
    )
    order: str = axis(
        "random",
        Words("Order", "initial order", "{} order", names=ORDERED, place=2),
        enum=list(ORDERS),
    )
    moved: int | None = axis(
        None,
        Words("Moved", "particles moved", "{} moved", "with zero", place=2),
        type="integer",
        minimum=0,
    )
    moved_fraction: float | None = axis(
        None,
        None,
        recorded=None,
        type="number",
        minimum=0,
        maximum=1,
    )
    destination: str | None = axis(
        None,
        Words(
            "Destination",
            "destination",
            "destination {}",
            names=dict.fromkeys(DESTINATIONS),
            place=2,
        ),
        enum=list(DESTINATIONS),
    )
    periodic: bool = axis(
        False,
        Words("Box", "box", "{}", place=3),
        recorded=tuple[bool, bool, bool],
        type="boolean",
    )

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

    @cached_property
    def grid(self) -> Grid:
        """The cells that give `per_cell` particles each on average.

        The box begins at the origin, but where its two sides are mirror images it lies about it.
        """
        grid = grid_for(self.particles, self.per_cell, (self.periodic,) * 3)
        return grid.centred() if self.distribution == "symmetric" else grid

    def make(self, seed: int) -> Inputs:
        """Draw the particles, and move them."""
        start = make(self.particles, self.grid, self.distribution, self.order, seed)
        if self.destination is None:
            return start
        return move(start, self.moved, self.destination, seed)

    @property
    def title(self) -> str:
        """Sizes, order and moves."""
        parts = [f"{self.particles:,} particles", f"{self.per_cell:g} per cell", self.order]
        if self.moved is not None:
            parts.append(f"{self.moved:,} moved")
        return ", ".join(parts)

    @property
    def identity(self) -> dict[str, Any]:
        """Its axes, with the cells of the grid and the periodicity of each axis."""
        grid = self.grid
        found = super().identity | {"cells": list(grid.cells), "periodic": list(grid.periodic)}
        del found["moved_fraction"]  # `moved` says it
        return found

    @property
    def neighbours(self) -> int:
        """About how many neighbours all particles have together, nearer than a cell's edge."""
        ball = 4 / 3 * math.pi * self.per_cell * CROWDING.get(self.distribution, 1)
        return round(self.particles * min(ball, self.particles))

    @property
    def host_bytes(self) -> int:
        """Positions, their cells, and an answer being checked; twice that with a second state."""
        return self.particles * (100 if self.destination is None else 200)

    @property
    def device_bytes(self) -> int:
        """Positions, cell ids, and a list of them."""
        # Position, cell id, link or rank; head. Of a second state, position and cell id.
        second = 0 if self.destination is None else 16 + 4
        return self.particles * (16 + 4 + 4 + second) + self.grid.count * 4


@dataclass(frozen=True)
class Pairs(Recipe):
    """Pairs of particles whose random numbers are wanted; see inputs.PairSet."""

    kind: ClassVar[str] = "pairs"
    size_axis: ClassVar[str] = "pairs"
    named_by: ClassVar[str] = "pairs"

    pairs: int = axis(
        words=Words("Pairs", "pairs", "{} pairs", "size", is_size=True),
        type="integer",
        minimum=1,
        maximum=MAX_PAIRS,
    )

    def make(self, seed: int) -> Inputs:
        """Draw the pairs."""
        return make_pairs(self.pairs, seed)

    @property
    def title(self) -> str:
        """Their number."""
        return f"{self.pairs:,} pairs"

    @property
    def host_bytes(self) -> int:
        """Ids, and the numbers of several steps, drawn by an algorithm and by each oracle."""
        return self.pairs * 180

    @property
    def device_bytes(self) -> int:
        """Ids, and the numbers of one step."""
        return self.pairs * 12


@dataclass(frozen=True)
class Simulation(Recipe):
    """Whole steps of a workload, of which a cell list is one part; see inputs.SimulationStart.

    ranks: how many ranks share the particles; None stands for one, which has them all.
    decomposition: how they share them, see inputs.DECOMPOSITIONS; None with one rank.
    setting: a parameter of the workload, NAME=VALUE; None where all have their defaults.
    """

    kind: ClassVar[str] = "simulation"
    size_axis: ClassVar[str] = "particles"
    named_by: ClassVar[str] = "workload"

    workload: str = axis(
        words=Words("Workload", "workload", "{}", place=0),
        type="string",
    )
    particles: int = axis(
        words=Words("Particles", "particles", "{} particles", "size", is_size=True),
        type="integer",
        minimum=1,
        maximum=MAX_PARTICLES,
    )
    skin: float = axis(
        0.0,
        Words("Skin", "skin", "skin {}", "linear", place=1.3),
        type="number",
        minimum=0,
    )
    time_step: float | None = axis(
        None,
        Words("Time step", "time step", "time step {}", "linear", place=1.1),
        type="number",
        exclusiveMinimum=0,
    )
    ranks: int | None = axis(
        None,
        Words("Ranks", "ranks", "{} ranks", "number", place=1.4),
        type="integer",
        minimum=1,
    )
    decomposition: str | None = axis(
        None,
        Words(
            "Decomposition", "decomposition", "{}", names=dict.fromkeys(DECOMPOSITIONS), place=1.5
        ),
        enum=list(DECOMPOSITIONS),
    )
    setting: str | None = axis(
        None,
        Words("Setting", "setting", "{}", place=1.2),
        type="string",
        pattern="^[a-z_0-9]+=[^ ]+$",
    )

    def __post_init__(self) -> None:
        if self.ranks == 1:
            object.__setattr__(self, "ranks", None)
        if (self.ranks is None) != (self.decomposition is None):
            raise UserError(
                "several ranks need a decomposition, and one rank has none: give ranks of at"
                f" least 2 with {' or '.join(DECOMPOSITIONS)}"
            )

    def make(self, seed: int) -> Inputs:
        """Say what the simulation begins from."""
        return SimulationStart(seed=seed, **dataclasses.asdict(self))

    @property
    def title(self) -> str:
        """Workload, size and steps."""
        parts = [self.workload, f"{self.particles:,} particles"]
        if self.time_step is not None:
            parts.append(f"time step {self.time_step:g}")
        if self.skin > 0:
            parts.append(f"skin {self.skin:g}")
        if self.ranks is not None:
            parts.append(f"{self.ranks} ranks, {self.decomposition}")
        if self.setting is not None:
            parts.append(self.setting)
        return ", ".join(parts)

    @property
    def host_bytes(self) -> int:
        """The states around a step, and the same in float64 while it is checked."""
        return self.particles * 500

    @property
    def device_bytes(self) -> int:
        """Places, velocities, forces, two cell ids, and a list of the cells."""
        # A master's device has all particles; with slabs each has its share.
        share = self.ranks if self.ranks is not None and self.decomposition == "slab" else 1
        return self.particles * (3 * 16 + 2 * 4 + 4) // share


@dataclass(frozen=True)
class Matrices(Recipe):
    """The matrix of particles in an open box; see inputs.matrices.

    matrix: which one is made of them.
    """

    kind: ClassVar[str] = "matrix"
    size_axis: ClassVar[str] = "particles"
    named_by: ClassVar[str] = "matrix"
    derived: ClassVar[Mapping[str, Declared]] = {"periodic": declared_axes(Particles)["periodic"]}

    matrix: str = axis(
        words=Words("Matrix", "matrix", "{} matrix"),
        enum=["density-gradient"],
    )
    particles: int = axis(
        words=Words("Particles", "particles", "{} particles", "size", is_size=True),
        type="integer",
        minimum=1,
        maximum=MAX_PARTICLES,
    )
    per_cell: float = axis(
        words=Words(
            "Particles per cell", "particles per cell", "{} per cell", "number", is_size=True
        ),
        type="number",
        exclusiveMinimum=0,
    )
    distribution: str = axis(
        "uniform",
        Words(
            "Distribution",
            "distribution",
            "{} distribution",
            names=dict.fromkeys(CLUSTERED),
            place=2,
        ),
        enum=list(DISTRIBUTIONS),
    )
    order: str = axis(
        "random",
        Words("Order", "initial order", "{} order", names=ORDERED, place=2),
        enum=list(ORDERS),
    )

    @cached_property
    def _particles(self) -> Particles:
        return Particles(self.particles, self.per_cell, self.distribution, self.order)

    def __post_init__(self) -> None:
        grid_for(self.particles, self.per_cell)

    def make(self, seed: int) -> Inputs:
        """Draw the particles, and what the matrix is multiplied by."""
        particles = self._particles.make(seed)
        assert isinstance(particles, ParticleSet)
        return of_particles(particles, seed)

    @property
    def title(self) -> str:
        """The matrix, sizes and order."""
        return f"{self.matrix}, {self._particles.title}"

    @property
    def identity(self) -> dict[str, Any]:
        """Its axes, with the cells of the grid."""
        grid = self._particles.grid
        return super().identity | {"cells": list(grid.cells), "periodic": list(grid.periodic)}

    @property
    def neighbours(self) -> int:
        """About how many blocks there are beside the diagonal."""
        return self._particles.neighbours

    @property
    def host_bytes(self) -> int:
        """Particles and vectors, and an answer being checked in some of its rows."""
        return self._particles.host_bytes + self.particles * 100

    @property
    def device_bytes(self) -> int:
        """Positions, both vectors, the diagonal, and each block with its column."""
        return self.particles * (16 + 16 + 4 + 12) + self.neighbours * (12 + 4)
