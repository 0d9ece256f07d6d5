"""Contract of neighbour searches: the input and the answer of algorithms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.host_work import HostWork
from gpubench.problems.neighbours.tasks import task_of
from gpubench.problems.particles.contract import ParticleAlgorithm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpubench.core.grid import Grid
    from gpubench.devices.base import Device
    from gpubench.problems.particles.inputs import ParticleSet


@dataclass(frozen=True)
class Neighbours:
    """Neighbours strictly nearer than the cutoff; each pair appears from both sides.

    If particles have radii of their own, those of a particle are nearer than its radius, so that a
    pair may appear from one side.

    counts: int32, shape (particles,), the number of neighbours of each particle, by id.
    offsets: int64, shape (particles + 1,), exclusive prefix sum of the counts, or None.
    neighbours: int32, shape (offsets[-1],), particle ids, in any order within a row; or None.
    """

    counts: Any
    offsets: Any = None
    neighbours: Any = None


class NeighbourSearch(ParticleAlgorithm):
    """A neighbour search that starts from positions; each form begins with its task (see TASKS).

    Neighbours are strictly nearer than `cutoff`, the reach of the grid (by default the shortest
    edge of its cells). Each pair appears from both sides, and no particle is its own neighbour.
    Otherwise the grid's cells do not matter: a search may divide space in any way.

    One launch of an `update` updates to the newest state of the particles and back to the oldest,
    as in `CellListUpdate`; all other tasks start from the positions of the newest state.

    finds_images: whether the search supports periodic boxes; otherwise it refuses them.
    tests_all_pairs: whether its work grows with the square of the number of particles.
    """

    family: ClassVar[str] = "neighbour-search"
    finds_images: ClassVar[bool] = True
    tests_all_pairs: ClassVar[bool] = False

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        self.task = task_of(form)
        self.cutoff = grid.reach
        if self.task == "update":
            self.launches = 2
        if any(p and n < 3 for p, n in zip(grid.periodic, grid.cells, strict=True)):
            raise UserError(
                f"a periodic axis needs at least 3 cells for neighbours, this grid is"
                f" {grid.cells}: use smaller cells or a larger box"
            )
        if any(grid.periodic) and not self.finds_images:
            raise NotSupported(f"{self.name} finds no images across periodic walls: use open ones")
        super().__init__(device, particles, grid, form, parameters)

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return the task and the kind of answer: for `build` its structure, else None."""
        task = task_of(form)
        return task, cls.structure() if task == "build" else None

    @classmethod
    def structure(cls) -> str:
        """Return the kind of structure that `build` makes; only builds of one kind are compared.

        By default each search has its own kind, so its builds are compared with no other search's.
        """
        return cls.name

    @property
    def answer(self) -> Neighbours:
        """The neighbours found by the last launch; for an update, those in the oldest state.

        For `build`, they are found on request, by querying the structure.
        """
        return self.neighbours()

    @abstractmethod
    def neighbours(self) -> Neighbours:
        """Return the neighbours as described in `answer`."""

    def poison(self) -> None:
        """Overwrite the answer; for `build`, a subclass must define this for its structure."""
        if self.task == "build":
            raise NotImplementedError(
                f"{self.name} must overwrite what it built: define poison(), see"
                " contracts.Algorithm"
            )
        super().poison()

    def move_to(self, state: int) -> None:
        """Update the structure to a state of the input, 0 for the oldest, and count neighbours."""
        raise NotImplementedError(f"{self.name} updates nothing")


class HostSearch(HostWork, NeighbourSearch):
    """A neighbour search that runs on the host, timed with device events.

    xyz: float32, shape (particles, 3), the loaded positions.
    """

    xyz: NDArray[np.float32]

    def load(self, inputs: ParticleSet) -> None:
        """Store the positions without their fourth component."""
        self.xyz = np.ascontiguousarray(inputs.positions[:, :3])

    def launch(self) -> None:
        """Wait until the device is idle, then work."""
        self.device.synchronize()
        self.work()

    @abstractmethod
    def work(self) -> None:
        """Search the loaded positions; return after the search is complete."""
