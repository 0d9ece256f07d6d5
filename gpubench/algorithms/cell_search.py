"""Neighbour searches: each computes cell ids, builds one of the cell lists, and queries it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from gpubench.algorithms.atomic_list import AtomicList
from gpubench.algorithms.atomic_resort import AtomicResort
from gpubench.algorithms.bitonic_search import BitonicSearch
from gpubench.algorithms.bucket_resort import BucketResort
from gpubench.algorithms.bucket_sort import BucketSort
from gpubench.algorithms.counting_resort import CountingResort
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.algorithms.radix_grid import RadixGrid
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.core.grid import MAX_CELLS, Grid
from gpubench.core.poison import arrays_of, empty, poison
from gpubench.devices import Device, missing_feature
from gpubench.primitives import simd_query
from gpubench.primitives.cell_query import CellQuery
from gpubench.problems.cells.contract import CellList, CellListUpdate, LinkedCells, SortedCells
from gpubench.problems.neighbours.contract import Neighbours, NeighbourSearch
from gpubench.problems.neighbours.tasks import COUNTS, TASKS
from gpubench.problems.particles.cell_ids import CellIds

if TYPE_CHECKING:
    from gpubench.problems.particles.inputs import ParticleSet

# Preferred forms of cell lists: they reorder positions, or run without the host.
PREFERRED = ("gather", "reorder", "device-loop")
# Up to this number of particles, saving a launch beats memory order.
FEW = 2**16
PREFERRED_FEW = ("reorder", "device-loop")
PREFERRED_SIMD = ("order", "device-loop")  # the query makes its own copies of positions
MOST_PARTS = 5


def tasks(*names: str) -> dict[str, Form]:
    """Return the forms of a search that performs these tasks."""
    return {name: Form(TASKS[name]) for name in names}


class CellSearch(NeighbourSearch):
    """A search that computes cell ids, builds a cell list, and queries 27 cells (or their parts).

    cells: the class of the cell list, which runs in a preferred form if the device supports one.
    of_cells: the parameters passed on to the cell list, and their defaults in this search.
    """

    cells: ClassVar[type[CellList]]
    of_cells: ClassVar[Mapping[str, int]] = {}
    _arrays: Any
    forms: ClassVar[Mapping[str, Form]] = tasks("build", "count", "ten-counts", "list")
    source = "rozen2008, section 2.3, over the cell list's own source"

    @classmethod
    def structure(cls) -> str:
        """Return the cell list's kind of answer, e.g. "sorted", or else the search's name."""
        return cls.cells.task_and_answer(next(iter(cls.cells.forms)))[1] or cls.name

    def prepare(self) -> None:
        self._cells = self.cells_for(self.device, self.particles, self.grid, self.parameters)
        self._query = query_of(self._cells, self.grid, self.cutoff, lists=self.task == "list")
        self._ids = CellIds(self.device, self._cells.grid)
        self._cell_of = [
            self.allocate(self.particles, "int32") for _ in range(2 if self.task == "update" else 1)
        ]
        self.workspace_bytes += self._cells.workspace_bytes + self._query.workspace_bytes

    @classmethod
    def cells_for(
        cls, device: Device, particles: int, grid: Grid, parameters: Mapping[str, int]
    ) -> CellList:
        """Return the cell list of this search. grid: cells no shorter than the cutoff."""
        cut = _cut(grid, parameters.get("parts") or cls.parts(device, particles, grid))
        given = {name: parameters[name] for name in cls.of_cells}
        return cls.cells(device, particles, cut, cls.preferred_form(device, particles), given)

    @classmethod
    def parts(cls, device: Device, particles: int, grid: Grid) -> int:
        """Return the number of parts that each cell is split into along x."""
        return 1

    @classmethod
    def preferred_form(cls, device: Device, particles: int) -> str:
        """Return the form of the cell list to use on a device, for this number of particles."""
        preferred = PREFERRED_FEW if particles <= FEW else PREFERRED
        if simd_query.suits(device):
            preferred = PREFERRED_SIMD
        return min(
            (f for f, of in cls.cells.forms.items() if not missing_feature(of.requires, device)),
            key=lambda form: (form not in preferred, form),
        )

    def load(self, inputs: ParticleSet) -> None:
        """Upload positions (for updates, of all states); for lists and updates, build a list."""
        states = inputs.history if self.task == "update" else [inputs]
        self._positions = [self.device.upload(state.positions) for state in states]
        if self.task in ("list", "update"):
            self._build()
        if self.task == "list":
            self.workspace_bytes -= self._query.workspace_bytes
            self._query.make_room(self._arrays)
            self.workspace_bytes += self._query.workspace_bytes

    def launch(self) -> None:
        """Run the task of the form."""
        if self.task == "update":
            self.move_to(-1)
            self.move_to(0)
            return
        self._build()
        for _ in range(COUNTS[self.task]):
            self._query.count(self._arrays)
        if self.task == "list":
            self._query.list(self._arrays)

    def move_to(self, state: int) -> None:
        cells, positions = self._cells, self._positions[state]
        assert isinstance(cells, CellListUpdate)
        # The update still needs the old ids: the new ids go to the other array.
        self._cell_of.reverse()
        self._ids.launch(positions, self._cell_of[0])
        cells.move_to(self._cell_of[0], positions)
        self._take(positions)
        self._query.count(self._arrays)

    def _build(self) -> None:
        positions = self._positions[0]
        self._arrays = None  # frees the old output of a sort that allocates its output
        if self._cells.reads_cells:
            self._ids.launch(positions, self._cell_of[0])
        self._cells.build(self._cell_of[0], positions)
        self._cells.cell_of = self._cell_of[0]
        self._take(positions)

    def _take(self, positions: object) -> None:
        """Set `_arrays` to the arrays that the query reads."""
        cells = self._cells.answer
        assert isinstance(cells, LinkedCells | SortedCells)
        self._arrays = self._query.arrays(cells, positions)

    def neighbours(self) -> Neighbours:
        if self.task == "build":
            self._query.count(self._arrays)
        return self._query.found

    def poison(self) -> None:
        if self.task != "update":
            empty(self.device, self._cells.answer)
        poison(self.device, *arrays_of(self._query.found))

    @property
    def no_graph(self) -> str | None:
        return self._cells.no_graph

    def outcome(self) -> dict[str, int | float | str]:
        pairs = {"pairs": self._query.pairs} if self.task == "list" else {}
        return {"cells": self._cells.form, "cells_along_x": self._cells.grid.cells[0], **pairs}

    def traffic_bytes(self) -> int | None:
        cells = self._cells.traffic_bytes()
        if cells is None:
            return None
        # Computing a cell id reads a position and writes the id.
        ids = (16 + 4) * self.particles * self._cells.reads_cells
        queries = COUNTS[self.task] + (self.task == "list")
        query = queries * self._query.traffic_bytes(self._cells.grid.count)
        return ids + cells + self._query.gathered_bytes + query


class SortedSearch(CellSearch):
    """A search over sorted cells, each of which is first split into `parts` along x.

    Shorter cells exclude more particles that are out of reach, and a row of them costs no more, as
    its particles are still contiguous. By default (0), a cell is split into parts of about one
    particle each, but at most five: with more, reading cell bounds costs more than testing fewer
    candidates saves. On a CPU, where a cell's particles share candidates, a part holds about eight.
    """

    defaults: ClassVar[Mapping[str, int]] = {"parts": 0}
    # Small inputs would rarely split their cells by default.
    conformance_parameters: ClassVar[Mapping[str, int]] = {"parts": 3}

    @classmethod
    def parts(cls, device: Device, particles: int, grid: Grid) -> int:
        in_part = simd_query.SHARING if simd_query.suits(device) else 1
        wanted = round(particles / grid.count / in_part)
        return max(1, min(wanted, MOST_PARTS, MAX_CELLS // grid.count))


def query_of(
    cells: CellList, grid: Grid, cutoff: float, *, lists: bool, half: bool = False
) -> CellQuery:
    """Return a query over a cell list.

    grid: the cells before splitting. lists, half: as in CellQuery.
    """
    is_linked = cells.shape() is LinkedCells
    return CellQuery(
        cells.device, cells.particles, cells.grid, cutoff,
        LinkedCells if is_linked else SortedCells,
        lists=lists, half=half, reach=cells.grid.cells[0] // grid.cells[0],
        gathers=not is_linked and not cells.forms[cells.form].reorders,
    )  # fmt: skip


def _cut(grid: Grid, parts: int) -> Grid:
    """Return the grid with its cells split along x; unsplit if float32 cannot resolve the parts."""
    x, y, z = grid.cells
    if parts < 1 or parts * grid.count > MAX_CELLS:
        raise UserError(
            f"parts must be at least 1 (or 0: as many as there are particles for), and leave at"
            f" most {MAX_CELLS} cells, not {parts}"
        )
    try:
        return replace(grid, cells=(parts * x, y, z))
    except UserError:
        return grid


class AtomicListSearch(CellSearch):
    """Search over linked lists, built by atomic exchange."""

    name = "search-atomic-list"
    summary = "positions to neighbours over atomic-list"
    cells = AtomicList


class BucketSortSearch(CellSearch):
    """Search over linked lists, built by the paper's bucket sort."""

    name = "search-bucket-sort"
    summary = "positions to neighbours over bucket-sort"
    cells = BucketSort
    forms: ClassVar[Mapping[str, Form]] = tasks("build", "count")


class BitonicSearchSearch(SortedSearch):
    """Search over cells sorted by a sorting network."""

    name = "search-bitonic"
    summary = "positions to neighbours over bitonic-search"
    cells = BitonicSearch
    forms: ClassVar[Mapping[str, Form]] = tasks("build", "count")


class CountingSortSearch(SortedSearch):
    """Search over cells from a counting sort; the sort costs more with more cells."""

    name = "search-counting-sort"
    summary = "positions to neighbours over counting-sort"
    cells = CountingSort
    of_cells: ClassVar[Mapping[str, int]] = {"levels": 0}
    defaults: ClassVar[Mapping[str, int]] = {**SortedSearch.defaults, **of_cells}


class RadixGridSearch(SortedSearch):
    """Search over cells sorted by a radix sort."""

    name = "search-radix-grid"
    summary = "positions to neighbours over radix-grid"
    cells = RadixGrid


class AtomicResortSearch(CellSearch):
    """Search over linked lists that are re-sorted after particles moved."""

    name = "search-atomic-resort"
    summary = "moved positions to neighbours over atomic-resort"
    cells = AtomicResort
    forms: ClassVar[Mapping[str, Form]] = tasks("update")


class BucketResortSearch(CellSearch):
    """Search over linked lists, re-sorted by the paper's method after particles moved."""

    name = "search-bucket-resort"
    summary = "moved positions to neighbours over bucket-resort"
    cells = BucketResort
    forms: ClassVar[Mapping[str, Form]] = tasks("update")


class CountingResortSearch(SortedSearch):
    """Search over sorted cells that are re-sorted after particles moved."""

    name = "search-counting-resort"
    summary = "moved positions to neighbours over counting-resort"
    cells = CountingResort
    forms: ClassVar[Mapping[str, Form]] = tasks("update")
