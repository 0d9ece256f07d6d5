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
    """A cache of the last initial state. seconds: time spent drawing on the host."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._kept: dict[tuple[Any, ...], State] = {}

    def take(self, alike: tuple[Any, ...], draw: Callable[[], State]) -> State:
        """Return the cached state if its key `alike` is the same, else draw a new one."""
        if alike not in self._kept:
            drawn, seconds = timed(draw)
            self._kept = {alike: drawn}
            self.seconds += seconds
        return self._kept[alike]


_draws: ContextVar[Draws | None] = ContextVar("_draws", default=None)


@contextmanager
def drawn_once() -> Iterator[Draws]:
    """Let simulations with the same initial state, such as those of a study, share one draw."""
    draws = Draws()
    before = _draws.set(draws)
    try:
        yield draws
    finally:
        _draws.reset(before)


def drawn(alike: tuple[Any, ...], draw: Callable[[], State]) -> State:
    """Draw an initial state, or return the shared one within `drawn_once`."""
    draws = _draws.get()
    return draw() if draws is None else draws.take(alike, draw)


class BlowUp(UserError):
    """A particle moved too far in a step, or is lost: steps computed since then are worthless."""


@dataclass(frozen=True)
class Snapshot:
    """All particles at one moment, in order of their ids.

    step, time: since the start.
    size, periodic: edges of the box, whose corner is the origin, and the axes it repeats along.
    positions: float64 (particles, 3), inside the box.
    velocities: float64 (particles, 3), at the time of the positions.
    species: int8 (particles,), an index into species_names.
    colour_by: the quantity shown in pictures, "species" or "speed"; with speed, species 0 is a
        fluid coloured by its speed, and all others are bodies in one colour.
    speed_scale: the speed at the top of the colours, one for a whole run. speed_label: the label of
        the colour bar, with the unit.
    spacing: distance of neighbours at rest, where particles do not fill the box.
    half_step_velocities: likewise, half a step earlier; None where a workload keeps none.
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

    figure: the published picture that it reproduces, as a sentence; empty for none.
    defaults: its parameters with their default values.
    variants: parameters for which its kernels are compiled differently.
    particles_by_default: used where no number is given.
    steps_by_default: likewise.
    host_part: the host's part in each step, which prevents recording a graph; None for nothing.
    algorithm: the algorithm that keeps the cells, and its form.
    parameters: those given, and the defaults of the others.
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

        skin: above 0, lists of neighbours within cutoff plus skin are kept until a particle has
            moved half of it. Raises UserError for bad parameters.
        """
        raise NotImplementedError

    @abstractmethod
    def advance(self, steps: int) -> None:
        """Queue that many steps, replayed from a graph where device and form allow."""

    @abstractmethod
    def phases(self) -> list[tuple[str, Callable[[], None]]]:
        """Return the launches of one step in order, each with the name of its phase.

        Calling all of them in order is one step; the last call increments `step`. Names may repeat:
        their times add up.
        """

    def plain_steps(self, steps: int) -> None:
        """Queue that many steps launch by launch, without recording a graph."""
        for _ in range(steps):
            for _, launch in self.phases():
                launch()

    def count_steps(self) -> None:  # noqa: B027  # not every one counts on the device
        """Bring `step` up to date where graph replays have counted on the device."""

    def poison(self) -> None:  # noqa: B027  # not every one has cells
        """Queue clearing what a step recomputes, so that forces can only come from new cells."""

    def paint(self) -> None:
        """Queue drawing a picture on the device; NotImplementedError if unsupported."""
        raise NotImplementedError(f"{self.name} draws no pictures on the device")

    def outcome(self) -> dict[str, int | float | str]:
        """Return values to record beside the time of the steps."""
        return {}

    @abstractmethod
    def require_sound(self) -> None:
        """Wait for the queue; raise BlowUp if a step since the last restore went wrong.

        The message names the step and the particle, and suggests a change.
        """

    @abstractmethod
    def check(self) -> str | None:
        """Do one step and compare it with a reference step; return None, or the first error.

        Steps of a recorded graph that were replayed elsewhere are counted from then on.
        """

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Download the state for a checkpoint, which resumes exactly on the same device."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Resume from what `state` returned; raise UserError if it is of another workload."""

    def require_possible(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027
        """Raise UserError for a state from a file that no step of this workload can produce.

        It is called before `restore`. Without it, any state that `restore` accepts is valid.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Download the particles in physical units; later steps are unaffected.

        Raises BlowUp where this needs work on the device that goes wrong.
        """

    @abstractmethod
    def observe(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the workload's observables, by name with unit, e.g. kinetic temperature."""
