"""The start of a simulation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gpubench.problems.steps.axes import Simulation


@dataclass(frozen=True)
class SimulationStart:
    """The start of a simulation; the workload itself draws its particles from the seed.

    workload: the workload's name. time_step: None for the workload's default.
    skin: the margin of its neighbour lists beyond the cutoff; 0 for no lists.
    ranks, decomposition, setting: see axes.Simulation.
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
        """None, as the particles are not drawn yet."""
        return

    @property
    def made_for(self) -> dict[str, Any]:
        """The constructor arguments of WorkloadStep, except workload and algorithm."""
        return {name: value for name, value in vars(self).items() if name != "workload"}


def draw(axes: Simulation, seed: int) -> SimulationStart:
    """Return the start of the simulation of a recipe."""
    return SimulationStart(seed=seed, **dataclasses.asdict(axes))
