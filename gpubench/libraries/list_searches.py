"""Libraries' lists with images as neighbour searches of one orthogonal box."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from gpubench.core.host_work import HostWork
from gpubench.libraries._image_lists import LibraryImages
from gpubench.libraries._library import LibrarySearch
from gpubench.libraries.image_lists import (
    MatscipyImages,
    MatscipyNeighboursImages,
    TorchSimImages,
)
from gpubench.libraries.nvalchemi_images import NvalchemiImages
from gpubench.problems.images.inputs import SystemSet
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.inputs import ParticleSet


class ListSearch(LibrarySearch):
    """A task `list` by a call that lists images too. lists: the call, whose forms it has.

    writes: what the answer has beside neighbours.
    """

    lists: ClassVar[type[LibraryImages]]
    writes: ClassVar[str] = "each neighbour's image"

    def __init_subclass__(cls) -> None:
        cls.summary, cls.source = cls.lists.summary, cls.lists.source
        cls.defaults = cls.lists.defaults
        cls.forms = {
            f"list-{name}": replace(form, summary=f"{TASKS['list']}: {form.summary}")
            for name, form in cls.lists.forms.items()
        }

    def prepare(self) -> None:
        form, periodic = self.form.removeprefix("list-"), self.grid.periodic
        made = self.lists(self.device, self.particles, 1, periodic, form, self.parameters)
        self._lists, self.library = made, made.library

    def load(self, inputs: ParticleSet) -> None:
        """Give the library positions from the lower corner of the box on."""
        from_corner = inputs.positions[:, :3].astype(np.float64) - np.asarray(self.grid.low)
        box, ends = np.diag(np.asarray(self.grid.size, np.float64)), [0, self.particles]
        periodic = self.grid.periodic
        self._lists.load(
            SystemSet(
                from_corner.astype(np.float32), np.array(ends), box[None], periodic, self.cutoff
            )
        )

    def launch(self) -> None:
        self._lists.launch()

    def neighbours(self) -> Neighbours:
        found = self._lists.answer
        offsets = found.offsets.astype(np.int64)
        return Neighbours(np.diff(offsets).astype(np.int32), offsets, found.neighbours)

    def poison(self) -> None:
        self._lists.poison()

    def peak_bytes(self) -> int | None:
        """Return the growth of the library's memory, see `LibraryImages`."""
        return self._lists.peak_bytes()

    @property
    def no_graph(self) -> str | None:
        """The reason why a launch cannot be captured in a CUDA graph."""
        return self._lists.no_graph

    def outcome(self) -> dict[str, int | float | str]:
        return {"writes": self.writes, **self._lists.outcome()}


class Nvalchemi(ListSearch):
    """Every method of `neighbor_list`, prepared and not, as a matrix and as pairs."""

    name = "nvalchemi"
    lists = NvalchemiImages


class TorchSim(ListSearch):
    """Both functions of `torch_sim.neighbors`."""

    name = "torch-sim"
    lists = TorchSimImages


class Matscipy(HostWork, ListSearch):
    """`matscipy.neighbours`, on one core."""

    name = "matscipy"
    lists = MatscipyImages


class MatscipyNeighbours(HostWork, ListSearch):
    """matscipy-neighbours, on all cores."""

    name = "matscipy-neighbours"
    lists = MatscipyNeighboursImages
