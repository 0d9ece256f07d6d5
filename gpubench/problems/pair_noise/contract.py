"""Contract of pair noise: the input and the answer of generators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.core.algorithm import Algorithm

if TYPE_CHECKING:
    from gpubench.devices.base import Device
    from gpubench.problems.pair_noise.inputs import PairSet


@dataclass(frozen=True)
class Noise:
    """Random numbers for pairs of particles, uniform from -1 to 1.

    values: float32, shape (steps, pairs), one row per successive step.
    """

    values: Any


class PairNoise(Algorithm):
    """A generator of a random number for each pair of particles in each step.

    The number depends on both ids, the step and the key, and is symmetric in the ids. One launch
    draws the numbers of all pairs for `launches` successive steps; reported times are per step.

    generator: the reference's name in `physics.noise.GENERATORS`; its numbers are bitwise equal.
    """

    family: ClassVar[str] = "pair-noise"
    launches: int = 8

    i: Any
    j: Any
    clock: Any

    def __init__(
        self, device: Device, pairs: int, form: str, parameters: Mapping[str, int]
    ) -> None:
        super().__init__(device, form, parameters)
        self.pairs = pairs
        self.prepare()

    def load(self, inputs: PairSet) -> None:
        """Upload both arrays of ids, int32 (pairs,) each, and the starting clock, uint32 (4,)."""
        self.i, self.j, self.clock = map(self.device.upload, (inputs.i, inputs.j, inputs.clock))

    @property
    @abstractmethod
    def generator(self) -> str:
        """The name of this form's generator."""

    @property
    @abstractmethod
    def answer(self) -> Noise:
        """The numbers of the last launch, one row per step; overwritten by the next launch."""
