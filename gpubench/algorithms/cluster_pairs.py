"""Neighbours as pairs of clusters of particles, with a bit for each pair of particles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.radix_grid import RadixGrid
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.core.grid import EPSILON, MAX_CELLS, SMALLEST_CELL, Grid
from gpubench.core.poison import arrays_of, poison
from gpubench.devices.named import NamedKernel
from gpubench.primitives.scan import ExclusiveScan
from gpubench.problems.neighbours.contract import Neighbours, NeighbourSearch
from gpubench.problems.neighbours.tasks import TASKS
from gpubench.problems.particles.inputs import ParticleSet

CHUNK = 32  # tiles; one per lane of a warp
WARPS = 4  # of a block on CUDA; elsewhere a block stands for one warp
CLUSTERS = (4, 8, 16, 32)
ROUNDINGS = 8  # error bound of the distance to a cell, in roundings of the largest coordinate
SHORTEST = 16 * EPSILON  # edge of a cell, relative to the largest coordinate


@dataclass(frozen=True)
class ClusterList:
    """Pairs of clusters; `kernels/common/clusters.h` describes the chains of tiles.

    positions: float32, shape (particles, 4), sorted; cluster c holds the slots from c * cluster on.
    order: int32, shape (particles,), the particle in each slot.
    heads: int32, shape (clusters,). tiles: int32, shape (chunks, 32, 2). links: int32, (chunks, 4).
    """

    positions: Any
    order: Any
    heads: Any
    tiles: Any
    links: Any


class ClusterPairs(NeighbourSearch):
    """Pairs of a cluster and a group of particles that 32 threads test at once.

    Particles are sorted along a curve that goes back and forth through cells of about one particle
    each. The sort is stable, so the list is the same at every run. `list` converts it to CSR.

    cluster: the particles of a cluster; a tile pairs it with 32 / cluster others.
    exact: 1 if masks hold the neighbours; 0 if they hold candidates, and the reader of the list
        tests distances.
    """

    name = "cluster-pairs"
    summary = "pairs of clusters of 4 to 32 particles, with masks of 32 bits"
    source = "Páll and Hess, Comput. Phys. Commun. 184 (2013), 2641"
    forms: ClassVar[Mapping[str, Form]] = {
        "build": Form(TASKS["build"]),
        "list": Form(f"{TASKS['list']}, from the pairs of clusters"),
    }
    defaults: ClassVar[Mapping[str, int]] = {"cluster": 8, "exact": 1}
    variants: ClassVar[Sequence[Mapping[str, int]]] = ({}, {"cluster": 32, "exact": 0})

    def prepare(self) -> None:
        device, particles = self.device, self.particles
        cluster, exact = self.parameters["cluster"], self.parameters["exact"]
        if cluster not in CLUSTERS or exact not in (0, 1):
            raise UserError(
                f"clusters hold 4, 8, 16 or 32 particles, and exact is 0 or 1, not {cluster} and"
                f" {exact}"
            )
        grid = cells_along_curve(self.grid, particles, cluster)
        self._cells = RadixGrid(device, particles, grid, "reorder", {})
        self._cell_of = self.allocate(particles, "int32")
        self._clusters = device.blocks(particles, cluster)
        self._heads = self.allocate(self._clusters, "int32")
        self._used = self.allocate(1, "int32")
        self._counts = self.allocate(particles, "int32")
        self._tiles = device.empty((0, CHUNK, 2), "int32")
        self._links = device.empty((0, 4), "int32")
        self._offsets = self.allocate(particles + 1 if self.task == "list" else 0, "int64")
        self._neighbours = device.empty(0, "int32")
        self.workspace_bytes += self._cells.workspace_bytes
        if self.task == "list":
            self._scan = ExclusiveScan(device, particles, sum_type="int64")
            self.workspace_bytes += self._scan.workspace_bytes
        self.constants = {
            "BLOCK": CHUNK * (WARPS if "cuda" in device.features else 1),
            "CLUSTER": cluster, "EXACT": exact, "PERIODIC": int(any(grid.periodic)),
        }  # fmt: skip
        self._sort, self._pair, self._convert = (
            NamedKernel(device, "cluster_pairs.cu", name, **self.constants)
            for name in ("cells_on_curve", "list_pairs", "convert")
        )
        self.given = {
            "grid": device.upload(grid.packed().view("uint8")), "particles": particles,
            "cutoff": np.float32(self.cutoff), "cell_of": self._cell_of, "used": self._used,
            "slack": slack_of(grid),
        }  # fmt: skip

    def load(self, inputs: ParticleSet) -> None:
        """Upload the positions, and allocate the chunks and, for a list, the neighbours."""
        self._loaded = self.device.upload(inputs.positions)
        self.build()
        chunks = int(self.device.download(self._used)[0])
        self.workspace_bytes -= self._tiles.nbytes + self._links.nbytes + self._neighbours.nbytes
        self._tiles = self.allocate((chunks, CHUNK, 2), "int32")
        self._links = self.allocate((chunks, 4), "int32")
        pairs = 0
        if self.task == "list":
            self.launch()
            pairs = int(self.device.download(self._offsets)[-1])
        self._neighbours = self.allocate(pairs, "int32")

    def launch(self) -> None:
        """Build the list of pairs of clusters; for a list, convert it: count, scan, fill."""
        self.build()
        if self.task == "list":
            self._count()
            self._scan.launch(self._counts, self._offsets)
            self._visit(fills=1)

    def build(self) -> None:
        """Queue the sort and the search for pairs of clusters."""
        block = self.constants["BLOCK"]
        blocks = self.device.blocks(self.particles, block)
        self._sort.launch_from(blocks, block, {**self.given, "positions": self._loaded})
        self._cells.build(self._cell_of, self._loaded)
        self.device.fill(self._used, 0x00)
        self._pair.launch_from(self.blocks, block, {**self.given, **self.arrays})

    @property
    def blocks(self) -> int:
        """The number of blocks that give each cluster a warp."""
        return self.device.blocks(self._clusters, self.constants["BLOCK"] // CHUNK)

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays of the list, by the name of the kernel argument."""
        return {
            **vars(self.pairs_of_clusters), "start": self._cells.answer.start,
            "room": self._tiles.shape[0],
        }  # fmt: skip

    @property
    def pairs_of_clusters(self) -> ClusterList:
        """What the last launch built; overwritten by the next."""
        cells = self._cells.answer
        return ClusterList(cells.positions, cells.order, self._heads, self._tiles, self._links)

    def _count(self) -> None:
        self._visit(fills=0)

    def _visit(self, fills: int) -> None:
        block = self.constants["BLOCK"]
        self._convert.launch_from(
            self.device.blocks(self.particles, block), block,
            {
                **self.given, **self.arrays, "counts": self._counts, "offsets": self._offsets,
                "neighbours": self._neighbours, "capacity": np.int64(self._neighbours.shape[0]),
                "fills": fills,
            },
        )  # fmt: skip

    def neighbours(self) -> Neighbours:
        if self.task == "build":
            self._count()
            return Neighbours(self._counts)
        return Neighbours(self._counts, self._offsets, self._neighbours)

    def poison(self) -> None:
        """Overwrite the neighbours, and empty the chains, so that they can still be followed."""
        poison(self.device, *arrays_of(self.neighbours()))
        self.device.fill(self._heads, 0xFF)

    def outcome(self) -> dict[str, int | float | str]:
        """Return the tiles, and the mean number of pairs of particles tested per particle."""
        links = self.device.download(self._links)
        tiles = int(links[:, 1].sum(dtype=np.int64))
        return {"tiles": tiles, "pairs_tested": CHUNK * tiles / max(1, self.particles)}

    def traffic_bytes(self) -> int:
        # A cell is found (20 bytes) and sorted; positions are read once, and the list written.
        sorts = 20 * self.particles + self._cells.traffic_bytes()
        list_bytes = int(self._heads.nbytes + self._tiles.nbytes + self._links.nbytes)
        once = 16 * self.particles + list_bytes
        if self.task == "build":
            return sorts + once
        return sorts + 3 * once + 28 * self.particles + int(self._neighbours.nbytes)


def slack_of(grid: Grid) -> np.float32:
    """Return a bound on the rounding error of a distance between positions, cells or boxes."""
    ends = [
        abs(end)
        for low, size in zip(grid.low, grid.size, strict=True)
        for end in (low, low + size, size)
    ]
    return np.float32(ROUNDINGS * EPSILON * max(ends))


def cells_along_curve(grid: Grid, particles: int, cluster: int) -> Grid:
    """Cut a box into about one cell per particle, along which successive particles are near.

    Rows of cells along x are as wide as a cube of `cluster` particles.
    """
    edge = (cluster * float(np.prod(grid.size)) / max(1, particles)) ** (1 / 3)
    most = []
    for low, size in zip(grid.low, grid.size, strict=True):
        shortest = max(SHORTEST * max(abs(low), abs(low + size)), SMALLEST_CELL)
        most.append(max(1, int(size / shortest)))
    y, z = (max(1, min(round(grid.size[k] / edge), most[k], 2**15)) for k in (1, 2))
    x = max(1, min(round(particles / (y * z)), most[0], MAX_CELLS // (y * z)))
    return replace(grid, cells=(x, y, z), cutoff=grid.reach)
