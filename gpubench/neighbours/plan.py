"""A search made for one device, number of particles, type of positions and box."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from gpubench.algorithms.cell_search import CellSearch
from gpubench.core.answers import LinkedCells, SortedCells
from gpubench.core.errors import UserError
from gpubench.devices.base import Device
from gpubench.neighbours.arrays import Arrays, Layout
from gpubench.neighbours.box import Box
from gpubench.primitives.cell_query import CellQuery

BLOCK = 256


def shape_of(method: type[CellSearch]) -> type[LinkedCells] | type[SortedCells]:
    """Return the shape of the cell list that a search looks through."""
    return LinkedCells if method.cells.shape() is LinkedCells else SortedCells


@dataclass
class Rows:
    """Arrays of a result, on the device.

    counts: int32, (n,). offsets: int64, (n + 1,). neighbours: int32. ids: int32, (n,), the particle
    of each row and the one that a neighbour is, or None where these are particles themselves.
    """

    counts: Any
    offsets: Any
    neighbours: Any
    ids: Any


class Plan:
    """Buffers and kernels of a search, which `count` and `fill` queue.

    method: the class of the search. box, cutoff: of the query, with the skin. half: whether each
    pair is listed once. in_cells: whether rows, and neighbours, are numbered in cell order.
    keeps_most: whether `require_sound` returns the most pairs of several searches.
    """

    def __init__(
        self,
        device: Device,
        method: type[CellSearch],
        positions: Any,
        box: Box,
        cutoff: float,
        *,
        half: bool,
        in_cells: bool,
        keeps_most: bool,
    ) -> None:
        self._keeps_most = keeps_most
        self._device, self.box, self._in_cells = device, box, in_cells
        self._layouts: dict[int, Layout] = {}
        self.particles, self._stride = positions.shape
        if shape_of(method) is LinkedCells and (half or in_cells):
            what = "half lists" if half else "rows in the order of the cells"
            raise UserError(f"{what} need sorted cells, which {method.cells.name} does not make")
        grid = box.grid(self.particles, cutoff)
        cut, form = method.layout(device, self.particles, grid)
        self._cells = method.cells(device, self.particles, cut, form, method.of_cells)
        self._placed = device.empty((self.particles, 4), "float32")
        self._cell_of = device.empty(self.particles, "int32")
        self._grid = device.upload(cut.packed().view("uint8"))
        self.packed_box = device.upload(box.packed().view("uint8"))
        # What keeps the most is looked at seldom, perhaps when other searches have been queued.
        self.status = device.empty(3, "int64") if keeps_most else device.status(3)
        device.fill(self.status, 0)
        shape = shape_of(method)
        self._query = CellQuery(
            device, self.particles, cut, cutoff, shape, lists=True,
            reach=cut.cells[0] // grid.cells[0], half=half,
            gathers=shape is SortedCells and not self._cells.forms[form].reorders,
        )  # fmt: skip
        real = {"float32": "float", "float64": "double"}[positions.dtype.name]
        self.kernel = partial(device.kernel, "neighbour_list.cu", REAL=real, STRIDE=self._stride)
        self._place, self._note = self.kernel("place"), self.kernel("note_pairs")
        self._blocks = device.blocks(self.particles, BLOCK)
        self._read: dict[str, Any]
        if in_cells:
            self.numbers  # noqa: B018  # made now: nothing is allocated while launches are noted
        self._queue_count = device.replayed(self._count, 3)
        # What fills reads what the count before it has noted.
        notes = self._queue_count != self._count
        self._queue_fill = device.replayed(self._fill, 3) if notes else self._fill
        self.count_only = device.replayed(self._count_only, 2)
        """Queue cells and counts, by particle: of positions, into counts."""
        self._queue_list = device.replayed(self._list, 4)

    @cached_property
    def numbers(self) -> Any:
        """The numbers of the particles, int32, on the device."""
        return self._device.upload(np.arange(self.particles, dtype=np.int32))

    def rows(self, arrays: Arrays, capacity: int) -> Rows:
        """Allocate the arrays of a result."""
        if (layout := self._layouts.get(capacity)) is None:
            n = self.particles
            sizes = [(n, "int32"), (n + 1, "int64"), (capacity, "int32")]
            layout = Layout(*sizes, *[(n, "int32")] * self._in_cells)
            self._layouts[capacity] = layout
        counts, offsets, neighbours, *ids = arrays.empty_each(layout)
        return Rows(counts, offsets, neighbours, ids[0] if ids else None)

    def count(self, positions: Any, rows: Rows) -> None:
        """Queue all but the list: cells, counts, offsets."""
        self._queue_count(positions, rows.counts, rows.offsets)
        self._copy_ids(rows)

    def fill(self, rows: Rows) -> None:
        """Queue the list, as far as there is room."""
        self._queue_fill(rows.counts, rows.offsets, rows.neighbours)

    def search(self, positions: Any, rows: Rows) -> None:
        """Queue counts and the list, as far as there is room."""
        self._queue_list(positions, rows.counts, rows.offsets, rows.neighbours)
        self._copy_ids(rows)

    def _copy_ids(self, rows: Rows) -> None:
        if self._in_cells:
            self._device.copy(self._order, rows.ids)

    def _count(self, positions: Any, counts: Any, offsets: Any) -> None:
        self._build(positions)
        if self._in_cells:
            self._order, self._read["order"] = self._read["order"], self.numbers
        self._query.write_to(counts, offsets)
        self._query.count(self._read)
        self._query.sum()
        self._note(1, 32, offsets, self.particles, self._keeps_most, self.status)

    def _list(self, positions: Any, counts: Any, offsets: Any, neighbours: Any) -> None:
        self._count(positions, counts, offsets)
        self._fill(counts, offsets, neighbours)

    def _count_only(self, positions: Any, counts: Any) -> None:
        self._build(positions)
        self._query.write_to(counts)
        self._query.count(self._read)

    def _fill(self, counts: Any, offsets: Any, neighbours: Any) -> None:
        self._query.write_to(counts, offsets, neighbours)
        self._query.fill(self._read)

    def _build(self, positions: Any) -> None:
        """Queue the cells, and what the query reads of them."""
        n = self.particles
        self._place(
            self._blocks, BLOCK, positions, self.packed_box, self._grid, n,
            self._placed, self._cell_of, self.status,
        )  # fmt: skip
        self._cells.build(self._cell_of, self._placed)
        self._cells.cell_of = self._cell_of
        cells: Any = self._cells.answer
        self._read = self._query.arrays(cells, self._placed)

    def require_sound(self) -> int:
        """Wait; return the pairs of the last search, or the most since the last call.

        Raises UserError for a particle that could not be placed. Either is forgotten.
        """
        status: list[int] = self._device.download(self.status).tolist()
        not_finite, outside, most = status
        if not_finite or outside or self._keeps_most:
            self._device.fill(self.status, 0)
        if not_finite:
            raise UserError(f"position {not_finite - 1} is not finite")
        if outside:
            raise UserError(
                f"position {outside - 1} is outside the box along an axis that does not repeat"
            )
        return most


class Displacement:
    """Whether particles moved further than they may since a list was made."""

    def __init__(self, plan: Plan, device: Device, positions: Any, reach: float) -> None:
        self._plan, self._device, self._reach2 = plan, device, np.float64(reach) ** 2
        self._before = device.empty(positions.shape, positions.dtype)
        device.copy(positions, self._before)
        self._flag = device.empty(1, "int64")
        self._kernel = plan.kernel("has_moved")

    def exceeds(self, positions: Any) -> bool:
        """Wait, and say so; a position that is not finite counts as one that moved."""
        plan, device = self._plan, self._device
        device.fill(self._flag, 0)
        self._kernel(
            device.blocks(plan.particles, BLOCK), BLOCK, self._before, positions, plan.packed_box,
            plan.particles, self._reach2, self._flag,
        )  # fmt: skip
        return bool(device.download(self._flag)[0])
