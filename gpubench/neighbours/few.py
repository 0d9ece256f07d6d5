"""Launches that a search of few particles saves, since launches dominate its time."""

from __future__ import annotations

from typing import Any

from gpubench.algorithms.counting_sort import CountingSort
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.primitives.shared_sort import SharedSort
from gpubench.problems.cells.contract import CellList


class Few:
    """Places and sorts given positions in one launch, and sums and notes their pairs in another.

    cells: the sort whose answer `sort` writes; see `suits`. types: constants of the positions.
    """

    def __init__(self, device: Device, cells: CellList, **types: int | str) -> None:
        self._cells, block = cells, SharedSort.block
        in_thread = 4 * device.blocks(cells.grid.count, 4 * block)
        constants: dict[str, int | str] = {
            "BLOCK": block, "ITEMS": device.blocks(cells.particles, block),
            "IN_THREAD": in_thread, "SHARED_BYTES": 4 * block * in_thread, **types,
        }  # fmt: skip
        self._sort, self._sum = (
            NamedKernel(device, "neighbour_few.cu", name, **constants)
            for name in ("sort_placed", "sum_rows")
        )

    @staticmethod
    def suits(device: Device, cells: CellList) -> bool:
        """Whether a cell list sorts in a single launch, as `sort` does."""
        sorts = isinstance(cells, CountingSort) and cells.form == "reorder"
        is_own = sorts and not cells.reads_cells  # computes cells itself
        return is_own and SharedSort.pays(device, cells.particles, cells.grid)

    def sort(self, positions: Any, box: Any, grid: Any, status: Any) -> None:
        """Queue the sort of positions as given into the cells' answer; arguments as of `place`."""
        cells: Any = self._cells.answer
        self._sort(
            SharedSort.blocks, SharedSort.block, given=positions, box=box, grid=grid,
            start=cells.start, order=cells.order, sorted_positions=cells.positions, status=status,
            particles=self._cells.particles, cells=self._cells.grid.count,
        )  # fmt: skip

    def sum(self, counts: Any, offsets: Any, listed: int, keeps_most: bool, status: Any) -> None:
        """Queue the offsets of rows, and the note of the pairs in the first `listed` of them."""
        self._sum(
            1, SharedSort.block, counts=counts, particles=self._cells.particles, listed=listed,
            keeps_most=keeps_most, offsets=offsets, status=status,
        )  # fmt: skip
