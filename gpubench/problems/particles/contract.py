"""What every algorithm over particles is made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpubench.core.algorithm import Algorithm

if TYPE_CHECKING:
    from gpubench.core.grid import Grid
    from gpubench.devices.base import Device


class ParticleAlgorithm(Algorithm):
    """An algorithm over particles, made for their number and their grid."""

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        super().__init__(device, form, parameters)
        self.particles = particles
        self.grid = grid
        self.prepare()
