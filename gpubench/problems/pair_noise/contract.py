"""Random numbers for pairs of particles: what a generator is given and must answer."""

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

    values: float32, shape (steps, pairs), those of successive steps.
    """

    values: Any


class PairNoise(Algorithm):
    """A generator of the random number that belongs to a pair of particles in a step.

    It depends on both ids, the step and the key, and is the same from either side of the pair. One
    launch draws it for each pair in `launches` successive steps; as with any work that a launch
    does several times, the time reported is of one.

    generator: which of `physics.noise.GENERATORS` it is, bit for bit.
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
        """Upload ids, int32 (pairs,) each, and the clock of the first step, uint32 (4,)."""
        self.i, self.j, self.clock = map(self.device.upload, (inputs.i, inputs.j, inputs.clock))

    @property
    @abstractmethod
    def generator(self) -> str:
        """The name of the generator that this form is."""

    @property
    @abstractmethod
    def answer(self) -> Noise:
        """What the last launch drew, a row for each step; overwritten by the next."""
