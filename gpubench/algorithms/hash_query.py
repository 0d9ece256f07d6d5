"""Neighbours within a cutoff, from a hash table: visits each distinct bucket of 27 cells once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.hash_grid import HashGrid
from gpubench.core.algorithm import Form
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 128
COUNT, FILL, CANDIDATES = range(3)  # the values of WORK in kernels/hash_query.cu


class HashQuery(ParticleAlgorithm):
    """Count or list the particles strictly nearer than the cutoff, in an unbounded world.

    The cutoff is the shortest cell edge. The hash table is built when an input is loaded and is
    not timed. Lists are CSR (count, scan, fill) and never truncated.
    """

    name = "hash-query"
    family = "unbounded-query"
    summary = "query of the buckets of 27 cells with exact distance test over a hash grid"
    source = "silva2012, section 5"
    forms: ClassVar[Mapping[str, Form]] = {
        "count-original": Form("count over cells hashed as they are"),
        "count-world-limits": Form("count over cells counted from the world's lowest"),
        "list-original": Form("full list (count, scan, fill) over cells hashed as they are"),
        "list-world-limits": Form("full list over cells counted from the world's lowest"),
    }
    defaults: ClassVar[Mapping[str, int]] = HashGrid.defaults
    variants: ClassVar[Sequence[Mapping[str, int]]] = HashGrid.variants

    def prepare(self) -> None:
        device, particles, grid = self.device, self.particles, self.grid
        work, _, form = self.form.partition("-")
        self._lists = work == "list"
        self._table = HashGrid(device, particles, grid, form, self.parameters)
        self.cutoff = min(grid.cell_size)
        self._counts = self.allocate(particles, "int32")
        self._offsets = self.allocate(particles + 1 if self._lists else 0, "int64")
        self._neighbours = device.empty(0, "int32")
        self._count = self._kernel(COUNT)
        if self._lists:
            self._fill = self._kernel(FILL)
            self._scan = ExclusiveScan(device, particles, sum_type="int64")
            self.workspace_bytes += self._scan.workspace_bytes

    def _kernel(self, work: int) -> Any:
        return self.device.kernel(
            "hash_query.cu", "query", BLOCK=BLOCK, WORK=work, **self._table.constants
        )

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return None as the task, as cells are given, and the answer's kind: `count` or `list`."""
        return None, form.split("-")[0]

    def load(self, inputs: ParticleSet) -> None:
        """Upload an input, build its hash table, and allocate its neighbour list."""
        self._table.load(inputs)
        self._table.launch()
        if self._lists:
            self._query(self._count, self._counts)
            self._scan.launch(self._counts, self._offsets)
            total = int(self.device.download(self._offsets)[-1])
            self.workspace_bytes -= self._neighbours.nbytes
            self._neighbours = self.allocate(total, "int32")

    def launch(self) -> None:
        """Queue the count; for list forms, also the scan and the fill."""
        self._query(self._count, self._counts)
        if self._lists:
            self._scan.launch(self._counts, self._offsets)
            self._query(self._fill, self._counts)

    def _query(self, kernel: Any, counts: Any) -> None:
        table = self._table.answer
        kernel(
            self.device.blocks(self.particles, BLOCK), BLOCK, table.positions, table.order,
            table.bounds, self._table.packed_grid, table.corner, np.float32(self.cutoff) ** 2,
            self.particles, counts, self._offsets, self._neighbours,
            np.int64(self._neighbours.shape[0]),
        )  # fmt: skip

    @property
    def answer(self) -> Neighbours:
        if not self._lists:
            return Neighbours(self._counts)
        return Neighbours(self._counts, self._offsets, self._neighbours)

    def outcome(self) -> dict[str, int | float | str]:
        """Return the number of pairs, each counted from both sides, and the candidates per pair.

        candidates_per_neighbour: the mean number of particles tested for each neighbour found.
        """
        found = int(self.device.download(self._counts).sum(dtype=np.int64))
        candidates = self.device.empty(self.particles, "int32")
        self._query(self._kernel(CANDIDATES), candidates)
        tested = int(self.device.download(candidates).sum(dtype=np.int64))
        reported: dict[str, int | float | str] = {"pairs": found}
        return reported | ({"candidates_per_neighbour": tested / found} if found else {})

    def traffic_bytes(self) -> int:
        # Positions are read once (later reads hit the caches), answers written once. Bounds are
        # left out: the number of buckets read depends on the input.
        once = (16 + 4 + 4) * self.particles
        if not self._lists:
            return once
        return 2 * once + (8 + 8) * self.particles + 4 * int(self._neighbours.shape[0])
