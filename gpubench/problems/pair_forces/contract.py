"""Contract of forces from lists of neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.algorithm import Form
from gpubench.problems.particles.contract import ParticleAlgorithm

if TYPE_CHECKING:
    from gpubench.core.grid import Grid
    from gpubench.devices.base import Device

TASKS = {
    "step": "build the list, then add up the forces",
    "forces": "add up the forces over a list that is built when the input is loaded",
}
CUTOFF = 2.5  # in units of sigma: Allen and Tildesley (2017), section 1.3
LEAST = 0.5  # distances count as at least this, in units of sigma, so that forces are finite


@dataclass(frozen=True)
class Forces:
    """The Lennard-Jones force on each particle, in units of epsilon / length.

    forces: float32, shape (particles, 4), by id, with an undefined last component. Particle i gets
        sum over j of 24 (2 s^12 - s^6) / r^2 (x_i - x_j), where s = sigma / r, over the neighbours
        nearer than the cutoff, 2.5 sigma. In the factor of (x_i - x_j), r is at least sigma / 2.
    """

    forces: Any


class PairForces(ParticleAlgorithm):
    """Forces from a list of neighbours; each form is a task (see TASKS).

    sigma: a 2.5th of the cutoff, which is the reach of the grid.
    """

    family: ClassVar[str] = "pair-forces"
    source = "Allen and Tildesley, Computer Simulation of Liquids (2017), sections 1.3, 5.3"
    forms: ClassVar[Mapping[str, Form]] = {name: Form(words) for name, words in TASKS.items()}

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        self.cutoff = grid.reach
        self.sigma = self.cutoff / CUTOFF
        super().__init__(device, particles, grid, form, parameters)

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task, which is the form, as all answers are alike."""
        return form, None
