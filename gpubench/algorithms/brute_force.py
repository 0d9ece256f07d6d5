"""Neighbours by testing all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from gpubench.core.algorithm import Form
from gpubench.problems.neighbours.contract import Neighbours, NeighbourSearch
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 256


class BruteForce(NeighbourSearch):
    """Tests all pairs without any data structure: the baseline of all other searches."""

    name = "brute-force"
    summary = "all pairs, in tiles that a block shares"
    source = "Nyland, Harris and Prins, GPU Gems 3 (2007), chapter 31"
    tests_all_pairs = True
    forms: ClassVar[Mapping[str, Form]] = {"count": Form(TASKS["count"])}

    def prepare(self) -> None:
        self._grid = self.device.upload(self.grid.packed().view("uint8"))
        self._counts = self.allocate(self.particles, "int32")
        periodic = int(any(self.grid.periodic))
        self._kernel = self.device.kernel(
            "brute_force.cu", "count_all", BLOCK=BLOCK, PERIODIC=periodic
        )

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions."""
        self._positions = self.device.upload(inputs.positions)

    def launch(self) -> None:
        """Queue the count of each particle's neighbours."""
        if self.particles:
            self._kernel(
                self.device.blocks(self.particles, BLOCK), BLOCK, self._positions, self._grid,
                np.float32(self.cutoff) ** 2, self.particles, self._counts,
            )  # fmt: skip

    def neighbours(self) -> Neighbours:
        return Neighbours(self._counts)

    def traffic_bytes(self) -> int:
        # Assuming that tiles stay in the caches, each position is read from memory only once.
        return (16 + 4) * self.particles
