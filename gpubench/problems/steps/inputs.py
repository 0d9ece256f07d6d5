"""What a simulation begins from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gpubench.problems.steps.axes import Simulation


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
        return {name: value for name, value in vars(self).items() if name != "workload"}


def draw(axes: Simulation, seed: int) -> SimulationStart:
    """Say what the simulation of a recipe begins from."""
    return SimulationStart(seed=seed, **dataclasses.asdict(axes))
