"""Kinds of input: the axes along which a study varies them, and how each is made.

A kind is a class whose fields are its axes; an object of it is one input that has not been
drawn yet. Study files, plans, records and titles take their axes from here.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from gpubench.core.errors import UserError
from gpubench.core.grid import Grid
from gpubench.core.key_sort import KEY_TYPES, VALUE_BYTES
from gpubench.inputs.keys import ENTROPIES, KEY_ORDERS, MAX_KEYS, check_keys, make_keys
from gpubench.inputs.making import (
    check_move,
    check_records,
    grid_for,
    make,
    make_pairs,
    make_records,
    move,
)
from gpubench.inputs.matrices import of_particles
from gpubench.inputs.mesh_specs import Meshes, Surfaces
from gpubench.inputs.recipe import Recipe, axis
from gpubench.inputs.sets import (
    DECOMPOSITIONS,
    DESTINATIONS,
    DISTRIBUTIONS,
    MAX_PAIRS,
    MAX_PARTICLES,
    MAX_RECORD_BYTES,
    MAX_RECORDS,
    NULLS,
    ORDERS,
    Inputs,
    ParticleSet,
    SimulationStart,
)

__all__ = [
    "CROWDING",
    "KINDS",
    "Keys",
    "Matrices",
    "Meshes",
    "Pairs",
    "Particles",
    "Recipe",
    "Records",
    "Simulation",
    "Surfaces",
    "axes",
    "required_axes",
]

# How many times as many neighbours a particle has as in a uniform distribution: the mean of the
# squared density, which for the clusters depends on how many of them overlap.
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

    particles: int = axis(type="integer", minimum=1, maximum=MAX_PARTICLES)
    per_cell: float = axis(type="number", exclusiveMinimum=0)
    distribution: str = axis("uniform", enum=list(DISTRIBUTIONS))
    order: str = axis("random", enum=list(ORDERS))
    periodic: bool = axis(False, type="boolean")
    moved: int | None = axis(None, type="integer", minimum=0)
    moved_fraction: float | None = axis(None, type="number", minimum=0, maximum=1)
    destination: str | None = axis(None, enum=list(DESTINATIONS))

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
        found = dataclasses.asdict(self) | {
            "cells": list(grid.cells),
            "periodic": list(grid.periodic),
        }
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
class Records(Recipe):
    """A stream of records, some of them null; see inputs.RecordSet."""

    kind: ClassVar[str] = "records"
    size_axis: ClassVar[str] = "records"
    named_by: ClassVar[str] = "records"

    records: int = axis(type="integer", minimum=1, maximum=MAX_RECORDS)
    kept: float = axis(0.5, type="number", minimum=0, maximum=1)
    record_bytes: int = axis(4, type="integer", minimum=4, maximum=MAX_RECORD_BYTES, multipleOf=4)
    nulls: str = axis("infinity", enum=list(NULLS))

    def __post_init__(self) -> None:
        check_records(self.records, self.kept, self.record_bytes, self.nulls)

    def make(self, seed: int) -> Inputs:
        """Draw the records."""
        return make_records(self.records, self.kept, self.record_bytes, self.nulls, seed)

    @property
    def title(self) -> str:
        """Sizes and the share kept."""
        return f"{self.records:,} records of {self.record_bytes} bytes, {self.kept:.0%} kept"

    @property
    def identity(self) -> dict[str, Any]:
        """Its axes."""
        return dataclasses.asdict(self)

    @property
    def host_bytes(self) -> int:
        """Records, random draws, and an answer being checked."""
        return self.records * (24 + 5 * self.record_bytes)

    @property
    def device_bytes(self) -> int:
        """Records and what is kept of them."""
        keep = 4 if self.nulls == "predicate" else 0
        return self.records * (2 * self.record_bytes + keep)


@dataclass(frozen=True)
class Pairs(Recipe):
    """Pairs of particles whose random numbers are wanted; see inputs.PairSet."""

    kind: ClassVar[str] = "pairs"
    size_axis: ClassVar[str] = "pairs"
    named_by: ClassVar[str] = "pairs"

    pairs: int = axis(type="integer", minimum=1, maximum=MAX_PAIRS)

    def make(self, seed: int) -> Inputs:
        """Draw the pairs."""
        return make_pairs(self.pairs, seed)

    @property
    def title(self) -> str:
        """Their number."""
        return f"{self.pairs:,} pairs"

    @property
    def identity(self) -> dict[str, Any]:
        """Its axis."""
        return dataclasses.asdict(self)

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

    workload: str = axis(type="string")
    particles: int = axis(type="integer", minimum=1, maximum=MAX_PARTICLES)
    skin: float = axis(0.0, type="number", minimum=0)
    time_step: float | None = axis(None, type="number", exclusiveMinimum=0)
    ranks: int | None = axis(None, type="integer", minimum=1)
    decomposition: str | None = axis(None, enum=list(DECOMPOSITIONS))
    setting: str | None = axis(None, type="string", pattern="^[a-z_0-9]+=[^ ]+$")

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
    def identity(self) -> dict[str, Any]:
        """Its axes."""
        return dataclasses.asdict(self)

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

    matrix: str = axis(enum=["density-gradient"])
    particles: int = axis(type="integer", minimum=1, maximum=MAX_PARTICLES)
    per_cell: float = axis(type="number", exclusiveMinimum=0)
    distribution: str = axis("uniform", enum=list(DISTRIBUTIONS))
    order: str = axis("random", enum=list(ORDERS))

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
        return dataclasses.asdict(self) | {
            "cells": list(grid.cells),
            "periodic": list(grid.periodic),
        }

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


@dataclass(frozen=True)
class Keys(Recipe):
    """Keys to be sorted, see inputs.keys."""

    kind: ClassVar[str] = "keys"
    size_axis: ClassVar[str] = "key_count"
    named_by: ClassVar[str] = "key_count"

    key_count: int = axis(type="integer", minimum=1, maximum=MAX_KEYS)
    value_bytes: int = axis(enum=list(VALUE_BYTES))
    key_order: str = axis(enum=list(KEY_ORDERS))
    key_type: str = axis("uint32", enum=list(KEY_TYPES))
    key_entropy: float = axis(1.0, enum=list(ENTROPIES))
    key_bits: int | None = axis(None, type="integer", minimum=1, maximum=64)
    keys_moved: float | None = axis(None, type="number", minimum=0, maximum=1)
    segment_keys: int | None = axis(None, type="integer", minimum=1, maximum=MAX_KEYS)

    def __post_init__(self) -> None:
        first, named = self._arguments
        check_keys(*first, **named)

    @property
    def _arguments(self) -> tuple[tuple[int, int, str], dict[str, Any]]:
        named = {
            "key_type": self.key_type,
            "entropy": self.key_entropy,
            "bits": self.key_bits,
            "moved": self.keys_moved,
            "segment_keys": self.segment_keys,
        }
        return (self.key_count, self.value_bytes, self.key_order), named

    def make(self, seed: int) -> Inputs:
        """Draw the keys."""
        first, named = self._arguments
        return make_keys(*first, seed, **named)

    @property
    def title(self) -> str:
        """Size, type, value, order, and what is unusual."""
        parts = [f"{self.key_count:,} keys of {self.key_type}"]
        if self.value_bytes:
            parts.append(f"values of {self.value_bytes} bytes")
        parts.append(self.key_order)
        if self.keys_moved is not None:
            parts.append(f"{self.keys_moved:.1%} moved")
        if self.key_entropy < 1:
            parts.append(f"entropy {self.key_entropy:g}")
        if self.key_bits is not None:
            parts.append(f"{self.key_bits} bits")
        if self.segment_keys is not None:
            parts.append(f"segments of {self.segment_keys:,}")
        return ", ".join(parts)

    @property
    def identity(self) -> dict[str, Any]:
        """Its axes."""
        return dataclasses.asdict(self)

    @property
    def host_bytes(self) -> int:
        """Input, the sorted order in 64 bits, the expected answer and one downloaded."""
        return self.key_count * (80 + 4 * self.value_bytes)

    @property
    def device_bytes(self) -> int:
        """Input and answer."""
        key_bytes = 8 if self.key_type.endswith("64") else 4
        return self.key_count * 2 * (key_bytes + self.value_bytes)


KINDS: dict[str, type[Recipe]] = {
    kind.kind: kind
    for kind in (Particles, Records, Pairs, Simulation, Matrices, Surfaces, Keys, Meshes)
}


def axes(kind: type[Recipe]) -> dict[str, dict[str, Any]]:
    """Return the axes of a kind, each with the JSON Schema of its values."""
    return {each.name: each.metadata["schema"] for each in dataclasses.fields(kind)}


def required_axes(kind: type[Recipe]) -> set[str]:
    """Return the axes that have no default."""
    return {each.name for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING}
