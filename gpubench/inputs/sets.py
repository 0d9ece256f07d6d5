"""Inputs of every kind, as arrays on the host, and their properties."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.core.grid import Grid

MAX_PARTICLES = 2**31 - 1

FLOAT32_MAX = float(np.finfo(np.float32).max)

DISTRIBUTIONS = (
    "uniform",
    "lattice",
    "clusters",
    "one-cell",
    "symmetric",
    "free-surface",
    "coincident",
)

ORDERS = ("random", "cell", "morton", "nearly-sorted")

DESTINATIONS = ("random", "next", "step")

# How ranks share a simulation: each keeps a part of space, or one deals out equal parts.
DECOMPOSITIONS = ("slab", "master")

MAX_PAIRS = 2**31 - 1


@dataclass(frozen=True, eq=False)
class ParticleSet:
    """Particles in a box.

    positions: float32, shape (particles, 4); the fourth component is free and zero here.
    grid: the cells they are sorted into.
    before: the same particles before they moved, or None.
    """

    positions: NDArray[np.float32]
    grid: Grid
    distribution: str
    order: str
    seed: int | None
    before: ParticleSet | None = None

    @property
    def particles(self) -> int:
        """Number of particles."""
        return len(self.positions)

    @property
    def per_cell(self) -> float:
        """Mean number of particles in a cell."""
        return self.particles / self.grid.count

    @cached_property
    def cell_of(self) -> NDArray[np.int32]:
        """The cell of each particle by NumPy, int32, shape (particles,)."""
        return self.grid.cell_ids(self.positions)

    @property
    def history(self) -> list[ParticleSet]:
        """The states that the particles were in, oldest first, this one last."""
        states = [self]
        while (before := states[-1].before) is not None:
            states.append(before)
        return states[::-1]

    @property
    def moved(self) -> int | None:
        """The number of particles that changed cells; None if there is no earlier state."""
        if self.before is None:
            return None
        return int(np.count_nonzero(self.cell_of != self.before.cell_of))

    @property
    def made_for(self) -> dict[str, Any]:
        """What the constructor of an algorithm for these particles takes."""
        return {"particles": self.particles, "grid": self.grid}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over grid and positions in every state, first 16 hex digits."""
        digest = hashlib.sha256(self.grid.packed().tobytes())
        for state in self.history:
            digest.update(np.ascontiguousarray(state.positions).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class PairSet:
    """Pairs of particles whose random numbers are wanted from a step on.

    i, j: int32, shape (pairs,), the ids of both, in any order.
    step, key: what the numbers depend on besides, 64 bits each; the key is the simulation's seed.
    """

    i: NDArray[np.int32]
    j: NDArray[np.int32]
    step: int
    key: int
    seed: int | None

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.i)

    @property
    def clock(self) -> NDArray[np.uint32]:
        """Step and key as kernels read them: low and high word of each, uint32, shape (4,)."""
        return np.array([self.step, self.key], "<u8").view("<u4").astype(np.uint32)

    @property
    def made_for(self) -> dict[str, Any]:
        """What the constructor of an algorithm for these pairs takes."""
        return {"pairs": self.pairs}

    @cached_property
    def hash(self) -> str:
        """SHA-256 over clock and ids, first 16 hex digits."""
        digest = hashlib.sha256(self.clock.tobytes())
        digest.update(np.ascontiguousarray(self.i).data)
        digest.update(np.ascontiguousarray(self.j).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class SimulationStart:
    """The start of a simulation; the workload itself draws its particles from the seed.

    workload: its name. skin: how much further than the cutoff its lists of neighbours reach; 0
        for none. time_step: None for the workload's own. ranks, decomposition: how many ranks
        share it and how, see specs.Simulation; None for one rank. setting: likewise.
    """

    workload: str
    particles: int
    skin: float
    time_step: float | None
    seed: int
    ranks: int | None = None
    decomposition: str | None = None
    setting: str | None = None

    @property
    def hash(self) -> None:
        """None: there are no particles yet."""
        return

    @property
    def made_for(self) -> dict[str, Any]:
        """What the steps of a workload are made for, beside the workload and the algorithm."""
        return {
            "particles": self.particles,
            "skin": self.skin,
            "time_step": self.time_step,
            "seed": self.seed,
            "ranks": self.ranks,
            "decomposition": self.decomposition,
            "setting": self.setting,
        }
