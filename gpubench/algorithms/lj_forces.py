"""Lennard-Jones forces over lists of neighbours of two kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.cell_search import CountingSortSearch
from gpubench.algorithms.cluster_pairs import ClusterPairs
from gpubench.base.errors import UserError
from gpubench.devices.named import NamedKernel
from gpubench.problems.neighbours.contract import NeighbourSearch
from gpubench.problems.pair_forces.contract import LEAST, Forces, PairForces
from gpubench.problems.particles.inputs import ParticleSet

BLOCK = 256
# Threads per particle, by the least number of neighbours to which an entry applies.
LANES = {0.0: 8, 40.0: 16, 150.0: 32}


class _LjForces(PairForces):
    """Builds the list of a search, and adds up forces over it."""

    _search: NeighbourSearch

    def take(self, search: NeighbourSearch) -> None:
        """Use a search, whose memory counts."""
        self._search = search
        self._forces = self.allocate((self.particles, 4), "float32")
        self._own_bytes = self.workspace_bytes
        self.workspace_bytes += search.workspace_bytes
        self._given: dict[str, Any] = {
            "particles": self.particles, "forces": self._forces,
            "sigma2": np.float32(self.sigma**2), "least2": np.float32((LEAST * self.sigma) ** 2),
        }  # fmt: skip

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions, and build the list."""
        self._positions = self.device.upload(inputs.positions)
        self._search.load(inputs)
        self.workspace_bytes = self._own_bytes + self._search.workspace_bytes
        self._search.launch()

    def launch(self) -> None:
        """Queue the list, unless it is given, and the forces."""
        if self.form == "step":
            self._search.launch()
        self.add_up()

    def add_up(self) -> None:
        """Queue the forces over the list."""
        raise NotImplementedError

    @property
    def answer(self) -> Forces:
        return Forces(self._forces)

    def outcome(self) -> dict[str, int | float | str]:
        return self._search.outcome()

    @property
    def no_graph(self) -> str | None:
        return self._search.no_graph

    def traffic_bytes(self) -> None:
        """Return None: what gathers read from memory depends on the order of the particles."""


class LjCsr(_LjForces):
    """Forces over compressed rows of neighbours, which a cell list gives.

    lanes: threads per particle on a GPU, a power of two up to 32; 0 chooses by neighbours.
    """

    name = "lj-csr"
    summary = "Lennard-Jones forces over the CSR list of search-counting-sort"
    defaults: ClassVar[Mapping[str, int]] = {"lanes": 0}

    def prepare(self) -> None:
        lanes = self.parameters["lanes"]
        if lanes not in (0, 1, 2, 4, 8, 16, 32):
            raise UserError(f"lanes is a power of two up to 32 (or 0: by neighbours), not {lanes}")
        density = self.particles / math.prod(self.grid.size)
        neighbours = 4 / 3 * math.pi * self.cutoff**3 * density
        lanes = lanes or max(n for least, n in LANES.items() if neighbours >= least)
        self._lanes = lanes if "cuda" in self.device.features else 1
        self.take(CountingSortSearch(self.device, self.particles, self.grid, "list", {}))
        self._grid = self.device.upload(self.grid.packed().view("uint8"))
        self._sum = NamedKernel(
            self.device, "lj_csr.cu", "forces_of_rows",
            BLOCK=BLOCK, LANES=self._lanes, PERIODIC=int(any(self.grid.periodic)),
        )  # fmt: skip

    def add_up(self) -> None:
        self._sum.launch_from(
            self.device.blocks(self.particles * self._lanes, BLOCK), BLOCK,
            {
                **self._given, **vars(self._search.neighbours()),
                "positions": self._positions, "grid": self._grid,
            },
        )  # fmt: skip


class LjClusterPairs(_LjForces):
    """Forces over pairs of clusters; for the parameters, see `cluster-pairs`."""

    name = "lj-cluster-pairs"
    summary = "Lennard-Jones forces over the list of cluster-pairs"
    defaults: ClassVar[Mapping[str, int]] = ClusterPairs.defaults
    variants: ClassVar[Sequence[Mapping[str, int]]] = ClusterPairs.variants
    _search: ClusterPairs

    def prepare(self) -> None:
        self.take(ClusterPairs(self.device, self.particles, self.grid, "build", self.parameters))
        self._sum = NamedKernel(
            self.device, "lj_cluster_pairs.cu", "forces_of_clusters", **self._search.constants
        )

    def add_up(self) -> None:
        search = self._search
        self._sum.launch_from(
            search.blocks, search.constants["BLOCK"],
            {**search.given, **search.arrays, **self._given},
        )  # fmt: skip
