"""The input axes of simulations whose steps are measured."""

from __future__ import annotations

from dataclasses import dataclass

from gpubench.base.errors import UserError
from gpubench.core.recipe import Recipe, Words, among, axis, like, whole
from gpubench.problems.particles.axes import Particles

# How ranks divide a simulation: each owns a slab, or a master deals out equal parts.
DECOMPOSITIONS = ("slab", "master")


@dataclass(frozen=True)
class Simulation(Recipe):
    """Time steps of a workload over a cell list; see inputs.SimulationStart.

    ranks: the number of ranks that share the particles; None for a single rank.
    decomposition: how ranks divide the particles, see DECOMPOSITIONS; None for a single rank.
    setting: a parameter of the workload, NAME=VALUE; None if all have their defaults.
    """

    kind, size_axis, named_by = "simulation", "particles", "workload"

    workload: str = axis(Words("Workload", "workload", "{}", place=0), {"type": "string"})
    particles: int = like(Particles, "particles")
    skin: float = axis(
        Words("Skin", "skin", "skin {}", "linear", place=1.3), {"type": "number", "minimum": 0}, 0.0
    )
    time_step: float | None = axis(
        Words("Time step", "time step", "time step {}", "linear", place=1.1, tells_each=True),
        {"type": "number", "exclusiveMinimum": 0},
        None,
    )
    ranks: int | None = axis(
        Words("Ranks", "ranks", "{} ranks", "number", place=1.4), whole(1), None
    )
    decomposition: str | None = axis(
        Words(
            "Decomposition", "decomposition", "{}", names=dict.fromkeys(DECOMPOSITIONS), place=1.5
        ),
        among(DECOMPOSITIONS),
        None,
    )
    setting: str | None = axis(
        Words("Setting", "setting", "{}", place=1.2, tells_each=True),
        {"type": "string", "pattern": "^[a-z_0-9]+=[^ ]+$"},
        None,
    )

    def __post_init__(self) -> None:
        if self.ranks == 1:
            object.__setattr__(self, "ranks", None)
        if (self.ranks is None) != (self.decomposition is None):
            raise UserError(
                "several ranks need a decomposition, and one rank has none: give ranks of at"
                f" least 2 with {' or '.join(DECOMPOSITIONS)}"
            )

    @property
    def title(self) -> str:
        """A title with the workload, the size, and the settings that differ from the defaults."""
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
        """The bytes of the states before and after a step, and of their check in float64."""
        return self.particles * 500

    @property
    def device_bytes(self) -> int:
        """The bytes of positions, velocities, forces, two arrays of cell ids, and a cell list."""
        # A master's device holds all particles; with slabs, each device holds its share.
        share = self.ranks if self.ranks is not None and self.decomposition == "slab" else 1
        return self.particles * (3 * 16 + 2 * 4 + 4) // share
