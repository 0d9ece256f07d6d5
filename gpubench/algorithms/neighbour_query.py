"""Neighbours within a cutoff, from 27 cells of a cell list, with an exact distance test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpubench.algorithms.atomic_list import AtomicList
from gpubench.algorithms.counting_sort import CountingSort
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.primitives.cell_query import CellQuery
from gpubench.problems.cells.contract import CellList, LinkedCells, SortedCells
from gpubench.problems.neighbours.contract import Neighbours
from gpubench.problems.particles.contract import ParticleAlgorithm
from gpubench.problems.particles.inputs import ParticleSet


class NeighbourQuery(ParticleAlgorithm):
    """Count or list the particles strictly nearer than the cutoff.

    The cutoff is the shortest cell edge. Loading an input, which is not timed, builds the cell list
    by `atomic-list` for the linked forms, and by `counting-sort` with reordered positions for the
    sorted forms. Neighbour lists are CSR (count, scan, fill) and never truncated: `load` counts the
    pairs and allocates memory for them.
    """

    name = "neighbour-query"
    family = "neighbour-query"
    summary = "27-cell query with exact distance test over a cell list"
    source = "rozen2008, section 2.3; Some GPU-based algorithms (slides), near-field test"
    forms: ClassVar[Mapping[str, Form]] = {
        "count-linked": Form("count over linked lists, particles in their given order"),
        "count-sorted": Form("count over sorted cells with reordered positions"),
        "list-linked": Form("full list (count, scan, fill) over linked lists"),
        "list-sorted": Form("full list (count, scan, fill) over sorted cells"),
    }

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        if any(p and n < 3 for p, n in zip(grid.periodic, grid.cells, strict=True)):
            raise UserError(
                f"a periodic axis needs at least 3 cells for neighbours, this grid is"
                f" {grid.cells}: use smaller cells or a larger box"
            )
        self.cutoff = min(grid.cell_size)
        self._lists = form.startswith("list")
        self._cells: CellList = (
            AtomicList(device, particles, grid, "one-pass", {})
            if form.endswith("linked")
            else CountingSort(device, particles, grid, "reorder", {})
        )
        shape = LinkedCells if form.endswith("linked") else SortedCells
        self._query = CellQuery(device, particles, grid, self.cutoff, shape, lists=self._lists)
        self.workspace_bytes = self._query.workspace_bytes

    @classmethod
    def task_and_answer(cls, form: str) -> tuple[str | None, str | None]:
        """Return None as the task, as cells are given, and the answer's kind: `count` or `list`."""
        return None, form.split("-")[0]

    def load(self, inputs: ParticleSet) -> None:
        """Upload an input, build its cell list, and allocate its neighbour list."""
        self._cells.load(inputs)
        self._cells.launch()
        cells = self._cells.answer
        assert isinstance(cells, LinkedCells | SortedCells)
        self._arrays = self._query.arrays(cells, self._cells.positions)
        if self._lists:
            self._query.make_room(self._arrays)
            self.workspace_bytes = self._query.workspace_bytes

    def launch(self) -> None:
        """Queue the count; for list forms, also the scan and the fill."""
        if self._lists:
            self._query.list(self._arrays)
        else:
            self._query.count(self._arrays)

    @property
    def answer(self) -> Neighbours:
        return self._query.found

    def outcome(self) -> dict[str, int | float | str]:
        return {"pairs": self._query.pairs} if self._lists else {}

    def traffic_bytes(self) -> int:
        return self._query.traffic_bytes(self.grid.count)
