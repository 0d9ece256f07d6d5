"""The interface of workloads to their runner: steps, phases, state, and observations."""

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
    """A cache of the last initial state. seconds: the time the host spent drawing states."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._kept: dict[tuple[Any, ...], State] = {}

    def take(self, alike: tuple[Any, ...], draw: Callable[[], State]) -> State:
        """Return the cached state if its key equals `alike`, else draw a new state."""
        if alike not in self._kept:
            drawn, seconds = timed(draw)
            self._kept = {alike: drawn}
            self.seconds += seconds
        return self._kept[alike]


_draws: ContextVar[Draws | None] = ContextVar("_draws", default=None)


@contextmanager
def drawn_once() -> Iterator[Draws]:
    """Within this context, simulations with the same initial state share one draw."""
    draws = Draws()
    before = _draws.set(draws)
    try:
        yield draws
    finally:
        _draws.reset(before)


def drawn(alike: tuple[Any, ...], draw: Callable[[], State]) -> State:
    """Draw an initial state; within `drawn_once`, return the cached state if its key is equal."""
    draws = _draws.get()
    return draw() if draws is None else draws.take(alike, draw)


class BlowUp(UserError):
    """A particle moved too far in a step, or was lost: all later steps are invalid."""


@dataclass(frozen=True)
class Snapshot:
    """All particles at one moment, in order of their ids.

    step, time: steps done and time simulated since the start.
    size: edges of the box, whose corner is the origin. periodic: whether each axis is periodic.
    positions: float64 (particles, 3), inside the box.
    velocities: float64 (particles, 3), at the time of the positions.
    species: int8 (particles,), an index into species_names.
    colour_by: the quantity shown in pictures, "species" or "speed"; with "speed", species 0 is the
        fluid, coloured by its speed, and all other species are bodies in a single colour.
    speed_scale: the speed of the top colour, the same for a whole run. speed_label: the label of
        the colour bar, with the unit.
    spacing: distance between neighbours at rest, if particles do not fill the box.
    half_step_velocities: the velocities half a step earlier; None if the workload keeps none.
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
    """A simulation for a given device, number of particles and algorithm.

    The constructor allocates and compiles everything, and draws the initial state from the seed.

    figure: a sentence on the published picture that the workload reproduces, or empty.
    defaults: its parameters with their default values.
    variants: sets of parameters that need differently compiled kernels.
    particles_by_default: the default number of particles. steps_by_default: the default number of
    steps.
    host_part: the host's work in each step, which prevents recording a graph; None without any.
    algorithm: the algorithm that maintains the cells.
    parameters: the given values, and the defaults of all others.
    step: steps done since the start, including queued ones.
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

        skin: if positive, lists of neighbours within cutoff plus skin are kept until a particle has
            moved half the skin. Raises UserError for bad parameters.
        """
        raise NotImplementedError

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Queue steps, replayed from a graph if the device and the form allow it."""

    @abstractmethod
    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the launches of one step in order, each with the name of its phase.

        Calling all of them in order does one step; the last call increments `step`. Phases with the
        same name are timed together.
        """

    def plain_steps(self, steps: int) -> None:
        """Queue steps launch by launch, without recording a graph."""
        for _ in range(steps):
            for _, launch in self.phases():
                launch()

    def count_steps(self) -> None:  # noqa: B027 # not every workload counts on the device
        """Update `step` from the device, where graph replays count steps."""

    def poison(self) -> None:  # noqa: B027 # not every workload has cells
        """Queue clearing cells and lists: the next step then needs to rebuild them."""

    def paint(self) -> None:
        """Queue drawing a picture on the device; raise NotImplementedError if unsupported."""
        raise NotImplementedError(f"{self.name} draws no pictures on the device")

    def outcome(self) -> dict[str, int | float | str]:
        """Return values to record along with the time of the steps."""
        return {}

    @abstractmethod
    def require_sound(self) -> None:
        """Wait for the queue; raise BlowUp if a step since the last restore went wrong.

        The message names the step and the particle, and suggests a change.
        """

    @abstractmethod
    def check(self) -> str | None:
        """Do one step and compare it with a reference step; return None, or the first error.

        Also updates `step`, if another caller replayed the recorded graph.
        """

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Download the state for a checkpoint; resuming from it on the same device is exact."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Resume from a state returned by `state`; raise UserError for another workload's state."""

    def require_possible(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027
        """Raise UserError if a state read from a file cannot come from this workload.

        Called before `restore`. By default, any state that `restore` accepts is valid.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Download the particles in physical units; later steps are unaffected.

        Raises BlowUp if the device must compute forces for this, and finds a fault.
        """

    @abstractmethod
    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the workload's observables, such as the kinetic temperature, by name with unit."""
