"""The base class of algorithms over particles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from gpubench.base.errors import NotSupported
from gpubench.core.algorithm import Algorithm

if TYPE_CHECKING:
    from gpubench.core.grid import Grid
    from gpubench.devices.base import Device


class ParticleAlgorithm(Algorithm):
    """An algorithm over particles, constructed for their number and their grid.

    takes_radii: whether it takes a radius per particle; otherwise it declines them.
    sample_sizes: (particles, cells) of additional samples, to launch kernels that small inputs do
        not need.
    """

    takes_radii: ClassVar[bool] = False
    sample_sizes: ClassVar[Sequence[tuple[int, int]]] = ()

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        if grid.shortest is not None and not self.takes_radii:
            raise NotSupported(f"{self.name} takes one radius for all particles")
        super().__init__(device, form, parameters)
        self.particles = particles
        self.grid = grid
        self.prepare()
