"""Counting sort of particles by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from gpubench.base.errors import NotSupported, UserError
from gpubench.core.algorithm import Form
from gpubench.devices.named import NamedKernel
from gpubench.primitives.bucketed_sort import BucketedSort
from gpubench.primitives.gather import Gather
from gpubench.primitives.scan import ExclusiveScan
from gpubench.primitives.shared_sort import SharedSort
from gpubench.problems.cells.contract import CellList, SortedCells

BLOCK = 256
ITEMS = 4
# Items per thread in the form `reorder`, for at least MANY particles.
ITEMS_OF_MANY = 8
MANY = 2**20


class CountingSort(CellList):
    """Histogram with ranks, scan, scatter.

    levels: 1; 2 (form `gather` only), which sorts into buckets of cells first; or 0, to choose.
        With 0, `gather` takes two levels where that pays (see BucketedSort.pays), and `reorder`
        sorts few particles in a single launch (see SharedSort.pays). With 2, and with 0 except in
        the form `order`, the sort computes cell ids itself, which saves a launch.
    """

    name = "counting-sort"
    summary = "histogram with rank, scan, scatter"
    source = "Knuth, The Art of Computer Programming 3, Algorithm 5.2D; with atomics for the ranks"
    sample_sizes = ((600, 36000),)  # several tiles in the scan
    forms: ClassVar[Mapping[str, Form]] = {
        "order": Form("indices only"),
        "reorder": Form("positions travel in the scatter pass", reorders=True),
        "gather": Form("positions gathered when the indices are in order", reorders=True),
    }
    defaults: ClassVar[Mapping[str, int]] = {"levels": 1}
    variants: ClassVar[Sequence[Mapping[str, int]]] = ({}, {"levels": 2})

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        levels = self.parameters["levels"]
        if levels not in (0, 1, 2):
            raise UserError(f"levels must be 1 or 2 (or 0: what pays), not {levels}")
        if levels == 2 and form != "gather":
            raise NotSupported(f"only gather has two levels, not {form}")
        if levels == 0 and form == "gather" and BucketedSort.pays(device, particles, grid):
            levels = 2
        self._sort: BucketedSort | SharedSort | None = None  # if set, does the whole sort
        if levels == 2:
            self._sort = BucketedSort(device, particles, grid)
        elif levels == 0 and form == "reorder" and SharedSort.pays(device, particles, grid):
            self._sort = SharedSort(device, particles, grid)
        if self._sort:
            self.workspace_bytes += self._sort.workspace_bytes
            return
        self._travel = form == "reorder"
        self._finds_cells = levels == 0 and form != "order"  # computes cell ids from positions
        self._grid = device.upload(grid.packed().view("uint8"))
        self.workspace_bytes += self._grid.nbytes
        self._gather = Gather(device, particles) if form == "gather" else None
        if self._gather:
            self.workspace_bytes += self._gather.workspace_bytes
        # Counts are zero between builds: the scan clears them after reading.
        self._counts = self.allocate(grid.count, "int32")
        device.fill(self._counts, 0x00)
        self._start = self.allocate(grid.count + 1, "int32")
        self._rank = self.allocate(particles, "int32")
        self._order = self.allocate(particles, "int32")
        self._sorted = self.allocate((particles if self._travel else 0, 4), "float32")
        self._scan = ExclusiveScan(device, grid.count, clear=True)
        self.workspace_bytes += self._scan.workspace_bytes
        items = ITEMS_OF_MANY if self._travel and particles >= MANY else ITEMS
        self._blocks = device.blocks(particles, BLOCK * items)
        constants = {
            "BLOCK": BLOCK, "ITEMS": items, "REORDER": int(self._travel),
            "FROM_POSITIONS": int(self._finds_cells),
        }  # fmt: skip
        self._histogram, self._scatter = (
            NamedKernel(device, "counting_sort.cu", name, **constants)
            for name in ("histogram_with_rank", "scatter_by_rank")
        )

    @property
    def reads_cells(self) -> bool:
        return self._sort is None and not self._finds_cells

    def build(self, cell_of: Any, positions: Any) -> None:
        if self._sort:
            self._sort.launch(positions)
            return
        self._histogram(
            self._blocks, BLOCK, positions=positions, grid=self._grid, cell_of=cell_of,
            counts=self._counts, rank=self._rank, particles=self.particles,
        )  # fmt: skip
        self._scan.launch(self._counts, self._start)
        self._scatter(
            self._blocks, BLOCK, cell_of=cell_of, start=self._start, rank=self._rank,
            order=self._order, positions=positions, sorted_positions=self._sorted,
            particles=self.particles,
        )  # fmt: skip
        if self._gather:
            self._gather.launch(self._order, positions)

    @property
    def answer(self) -> SortedCells:
        if self._sort:
            return SortedCells(self._sort.start, self._sort.order, self._sort.sorted)
        in_order = self._gather.sorted if self._gather else self._sorted if self._travel else None
        return SortedCells(self._start, self._order, in_order)

    def outcome(self) -> dict[str, int | float | str]:
        if self._sort:
            return {"levels": 2 if isinstance(self._sort, BucketedSort) else 1}
        return {"scan": self._scan.form}

    def traffic_bytes(self) -> int:
        if self._sort:
            return self._sort.traffic_bytes()
        # A particle reads its cell twice, updates a count (8 bytes), writes and reads a rank,
        # reads a start, and writes the order (32 bytes in all); moving its position takes 32 more,
        # computing its cell 16. Per cell: read and clear the count, write the start.
        gathered = self._gather.traffic_bytes() if self._gather else 0
        return (
            (32 + 32 * self._travel + 16 * self._finds_cells) * self.particles
            + 12 * self.grid.count
            + gathered
        )
