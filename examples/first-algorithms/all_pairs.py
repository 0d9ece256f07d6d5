"""Neighbours by testing all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.contracts import Form, Neighbours, NeighbourSearch, ParticleSet

BLOCK = 128


class AllPairs(NeighbourSearch):
    """Every particle tests every other."""

    name = "all-pairs"
    summary = "one thread per particle tests all others"
    source = "folklore"
    finds_images = False  # refuses periodic boxes
    tests_all_pairs = True
    forms: ClassVar[Mapping[str, Form]] = {"count": Form("numbers of neighbours")}

    def prepare(self) -> None:
        self._counts = self.allocate(self.particles, "int32")
        self._count = self.device.kernel("all_pairs.cu", "count_all_pairs", BLOCK=BLOCK)

    def load(self, inputs: ParticleSet) -> None:
        self._positions = self.device.upload(inputs.positions)

    def launch(self) -> None:
        self._count(
            self.device.blocks(self.particles, BLOCK), BLOCK,
            self._positions, self.cutoff**2, self.particles, self._counts,
        )  # fmt: skip

    def neighbours(self) -> Neighbours:
        return Neighbours(self._counts)

    def traffic_bytes(self) -> int:
        # Each position read once at the least, each count written.
        return 20 * self.particles
