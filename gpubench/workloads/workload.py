"""What every workload offers to its runner: steps, phases, state, and what can be seen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.base.errors import UserError
from gpubench.measure.clock import timed
from gpubench.physics.arrays import Floats

if TYPE_CHECKING:
    from gpubench.devices.base import Device
    from gpubench.problems.cells.contract import CellList

Value = float | int | str


State = dict[str, NDArray[Any]]


class Draws:
    """What simulations begin with; the last is kept. seconds: what drawing took on the host."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._kept: dict[tuple[Any, ...], State] = {}

    def take(self, alike: tuple[Any, ...], draw: Callable[[], State]) -> State:
        """Return what was drawn last for one that began alike, or draw."""
        if alike not in self._kept:
            drawn, seconds = timed(draw)
            self._kept = {alike: drawn}
            self.seconds += seconds
        return self._kept[alike]


_draws: ContextVar[Draws | None] = ContextVar("_draws", default=None)


@contextmanager
def drawn_once() -> Iterator[Draws]:
    """Let simulations that are made here and begin alike, as those of a study do, share a draw."""
    draws = Draws()
    before = _draws.set(draws)
    try:
        yield draws
    finally:
        _draws.reset(before)


def drawn(alike: tuple[Any, ...], draw: Callable[[], State]) -> State:
    """Draw what a simulation begins with, or return what another took within `drawn_once`."""
    draws = _draws.get()
    return draw() if draws is None else draws.take(alike, draw)


class BlowUp(UserError):
    """A particle moved too far in a step or is nowhere: what was computed since is worthless."""


@dataclass(frozen=True)
class Snapshot:
    """All particles at one moment, in order of their ids.

    step, time: since the beginning.
    size, periodic: edges of the box, whose corner is the origin, and where it repeats.
    positions: float64 (particles, 3), inside the box.
    velocities: float64 (particles, 3), of the moment of the positions.
    species: int8 (particles,), an index into species_names.
    colour_by: what pictures show, "species" or "speed"; with speed, species 0 is a fluid that is
        coloured by its speed, and all others are bodies in one colour.
    speed_scale: the speed at the top of the colours, one for a whole run. speed_label: what the
        colour bar says, with the unit.
    spacing: distance of neighbours at rest, where particles do not fill the box.
    half_step_velocities: likewise, of half a step before; None where a workload keeps none.
    """

    step: int
    time: float
    size: tuple[float, float, float]
    periodic: tuple[bool, bool, bool]
    positions: Floats
    velocities: Floats
    species: NDArray[np.int8]
    species_names: tuple[str, ...]
    colour_by: str = "species"
    speed_scale: float = 0.0
    speed_label: str = "speed"
    spacing: float | None = None
    half_step_velocities: Floats | None = None

    def __post_init__(self) -> None:
        if self.colour_by not in ("species", "speed"):
            raise ValueError(f"colour_by must be species or speed, not {self.colour_by!r}")
        if self.colour_by == "speed" and not self.speed_scale > 0:
            raise ValueError(f"speed_scale must be positive, not {self.speed_scale}")


class Workload(ABC):
    """A simulation made for one device, one number of particles and one algorithm.

    Making it allocates and compiles everything, and draws the initial state from the seed.

    figure: the published picture that it repeats, as a sentence; empty for none.
    defaults: its parameters with the values that they have if none are given.
    variants: parameters with which its kernels are compiled otherwise.
    particles_by_default: of a run that asks for no number.
    steps_by_default: likewise.
    host_part: what the host does in each step, so that no graph can hold it; None for nothing.
    algorithm: what keeps the cells, and in which form.
    parameters: those that were given, and the defaults of the others.
    step: steps done since the beginning, counting those queued.
    time_step: in the workload's unit of time.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    figure: ClassVar[str] = ""
    defaults: ClassVar[Mapping[str, Value]]
    variants: ClassVar[Sequence[Mapping[str, Value]]] = ({},)
    particles_by_default: ClassVar[int]
    steps_by_default: ClassVar[int]
    host_part: ClassVar[str | None] = None

    device: Device
    particles: int
    algorithm: CellList
    parameters: dict[str, Value]
    seed: int
    skin: float
    step: int
    time_step: float
    workspace_bytes: int

    def __init__(
        self,
        device: Device,
        particles: int,
        algorithm: type[CellList],
        form: str,
        parameters: Mapping[str, Value],
        seed: int,
        skin: float = 0.0,
    ) -> None:
        """Make the simulation.

        skin: above 0, lists of neighbours within cutoff plus skin are kept until a particle has
            moved half of it. Raises UserError for bad parameters.
        """
        raise NotImplementedError

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Queue that many steps, replayed from a graph where the device and the form can."""

    @abstractmethod
    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the launches of one step in their order, each under the name of its phase.

        Calling all of them in order is one step; `step` counts it when the last is called. Names
        may repeat: their times add up.
        """

    def plain_steps(self, steps: int) -> None:
        """Queue that many steps launch by launch, without a graph of its own."""
        for _ in range(steps):
            for _, launch in self.phases():
                launch()

    def count_steps(self) -> None:  # noqa: B027  # not every one counts on the device
        """Bring `step` up to date where replays of a graph have counted without the host."""

    def poison(self) -> None:  # noqa: B027  # not every one has cells
        """Queue emptying what a step makes anew, so that forces come of none but new cells."""

    def paint(self) -> None:
        """Queue drawing a picture on the device; NotImplementedError where it has none."""
        raise NotImplementedError(f"{self.name} draws no pictures on the device")

    def outcome(self) -> dict[str, int | float | str]:
        """Return what a record of steps should tell besides their time."""
        return {}

    @abstractmethod
    def require_sound(self) -> None:
        """Wait for the queue; raise BlowUp if a step since the last restore has gone wrong.

        The message names the step, the particle, and what to change.
        """

    @abstractmethod
    def check(self) -> str | None:
        """Do one step and compare it with the right one; return None, or what is wrong with it.

        Steps of a recorded graph that others replayed are counted from then on.
        """

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Download all that a checkpoint needs to go on, bit for bit on the same device."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` returned; raise UserError if it is not of this workload."""

    def require_possible(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027
        """Raise UserError where a state from a file is one that no step of this workload leads to.

        It is called before `restore`. Without it, whatever `restore` takes will do.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Download the particles as physics has them; `advance` goes on as if it were not called.

        Raises BlowUp where that takes work on the device which goes wrong.
        """

    @abstractmethod
    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return what this workload is about, by name with unit, e.g. kinetic temperature."""
