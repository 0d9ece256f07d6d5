"""A search prepared for one device, number of particles, type of positions and box."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from gpubench.algorithms.cell_search import CellSearch, query_of
from gpubench.base.errors import UserError
from gpubench.core.grid import Grid
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.neighbours.arrays import Arrays, Layout
from gpubench.neighbours.box import SearchBox, raise_unsound
from gpubench.neighbours.cell import Cell
from gpubench.neighbours.few import Few
from gpubench.neighbours.packing import Packing
from gpubench.primitives.cell_query import MOST_WORDS, CellQuery, lanes_for, row_volume, words_for
from gpubench.problems.cells.contract import LinkedCells

BLOCK = 256
# Of a row of cells, for which a block's 48 KiB hold the marks and the neighbours in turn.
STAGED_WORDS = MOST_WORDS - 1


@dataclass
class ResultArrays:
    """Arrays of a result, on the device.

    counts: int32, (n,). offsets: int64, (n + 1,). neighbours: int32. ids: int32, (n,), the particle
    of each row; `neighbours` then contains row numbers too. None if row r is particle r.
    images: int32, (pairs,), the image of each pair in a `Cell`, of which the first n are the
    particles. moves: int32, (images, 3), the vectors of the cell from its particle to each image.
    None if the nearest image is meant.
    shifts: int32, (pairs, 3), of pairs in a batch; None otherwise. systems: int32, (n,), and cells:
    float64, (systems, 3, 3), of the batch.
    given: arrays already returned to the user; reused if later kernel writes show in them.
    """

    counts: Any
    offsets: Any
    neighbours: Any
    ids: Any = None
    images: Any = None
    moves: Any = None
    shifts: Any = None
    systems: Any = None
    cells: Any = None
    given: dict[str, Any] = field(default_factory=dict)


class PairKernels:
    """Kernels that compute a quantity for each pair of particles.

    positions: an array with the shape and type of all positions to come. box: what is searched.
    cell: the user's, if the box contains images of particles. capacity: see `Plan`.
    """

    capacity: int | None = None
    packing: Packing | None = None
    chosen = ""
    status: Any = None
    most = "2^29"  # edges from the box to a position

    def __init__(
        self, device: Device, positions: Any, box: SearchBox, cell: Cell | None = None
    ) -> None:
        self._device, self.box, self.cell = device, box, cell
        self._replays: dict[str, Callable[..., None]] = {}
        self.particles, stride = positions.shape
        self.packed_box = device.upload(box.packed().view("uint8"))
        self.vectors = None if cell is None else device.upload(cell.matrices)
        real = {"float32": "float", "float64": "double"}[positions.dtype.name]
        self.kernel = partial(
            NamedKernel, device, "neighbour_geometry.cu", REAL=real, STRIDE=stride,
            TEAM=(team := 1 if device.is_cpu else 32),
        )  # fmt: skip
        self.blocks_of_teams = device.blocks((self.particles + 1) * team, BLOCK)

    @cached_property
    def numbers(self) -> Any:
        """The particle numbers 0 to n - 1, int32, on the device."""
        return self._device.upload(np.arange(self.particles, dtype=np.int32))

    def require_sound(self) -> int:
        """Wait, and return the last number of the status: the pairs of the last search.

        With a capacity, the most of all searches since the last call. Raises UserError for a
        position that is not finite or not in the box.
        """
        if self.status is None:  # there is no pending search to check
            return 0
        not_finite, outside, *_, last = self._device.download(self.status).tolist()
        if not_finite or outside or self.capacity is not None:
            self._device.fill(self.status, 0)
        raise_unsound(not_finite, outside, self.most)
        return int(last)

    def _replayed(self, name: str, arrays: int) -> bool:
        """Record a method's launches, for `_queue` to replay; False if the device cannot."""
        replay = self._device.replayed(work := getattr(self, name), arrays)
        if replay != work:  # a bound method would make a reference cycle
            self._replays[name] = replay
        return name in self._replays

    def _queue(self, name: str, *arrays: Any) -> None:
        (self._replays.get(name) or getattr(self, name))(*arrays)


class Plan(PairKernels):
    """Buffers and kernels of a search.

    method: the class of the search. grid: the cells of the box, in steps. cutoff: including the
    skin, in the unit of the positions.
    half: whether each pair is listed once. in_cells: whether rows and neighbours are numbered in
    cell order. capacity: fixed size of the neighbour array; None allocates it for each search.
    listed: the number of rows that are listed, the first ones; None for all. packing: how the
    particles lie in the box; None if it is the user's.
    """

    def __init__(
        self,
        device: Device,
        method: type[CellSearch],
        positions: Any,
        box: SearchBox,
        grid: Grid,
        cutoff: float,
        *,
        half: bool,
        in_cells: bool,
        capacity: int | None,
        listed: int | None = None,
        packing: Packing | None = None,
        cell: Cell | None = None,
    ) -> None:
        super().__init__(device, positions, box, cell)
        self.packing, self.most = packing, "2^30" if cell is None else self.most
        self._listed = self.particles if listed is None else listed
        self.in_cells, self.capacity = in_cells, capacity
        if method.cells.shape() is LinkedCells and (half or in_cells):
            what = "half lists" if half else "rows in the order of the cells"
            raise UserError(f"{what} need sorted cells, which {method.cells.name} does not make")
        n = self.particles
        steps = box.searched_steps(cutoff)
        given = _parameters_for(device, method, n, grid, steps)
        self._cells = method.cells_for(device, n, grid, given)
        self._searched = grid, steps
        self._half = half
        self._query = self._query_in(grid, steps, lists=True, half=half)
        self._counting: Any = None
        self._few = None
        if packing is None and cell is None and Few.suits(device, self._cells):
            self._few = Few(device, self._cells, **self.kernel.keywords)
        self._placed, self._cell_of = (
            device.empty(shape, dtype)
            for shape, dtype in (((0 if self._few else n, 4), "float32"), (n, "int32"))
        )
        self._grid = device.upload(self._cells.grid.packed().view("uint8"))
        # With a capacity, the status is read rarely and may cover several queued searches.
        self.status = device.status(3) if capacity is None else device.empty(3, "int64")
        device.fill(self.status, 0)
        self._packed = {} if packing is None else packing.arguments
        self._place = self._placing()
        self._note, self._blocks = self.kernel("note_pairs"), device.blocks(n, BLOCK)
        sizes = [(n, "int32"), (n + 1, "int64"), (capacity or 0, "int32")]
        self._layout = Layout(*sizes, *[(n, "int32")] * in_cells)
        if in_cells:
            self.numbers  # noqa: B018  # allocate now: not allowed while launches are recorded
        if self._replayed("count", 3):
            self._replayed("_fill", 3)  # reads results of the recorded count
        self._replayed("_list", 4)

    def _placing(self) -> NamedKernel:
        """Return the kernel that places particles in the box."""
        place = "place" if self.packing is None else "place_packed"
        return self.kernel(place, CELLS=int(self._cells.reads_cells))

    def _query_in(self, grid: Grid, cutoff: float, *, lists: bool, half: bool) -> CellQuery:
        return query_of(self._cells, grid, cutoff, lists=lists, half=half)

    def count_only(self, positions: Any, counts: Any) -> None:
        """Queue the cell build and the neighbour counts, indexed by particle."""
        if self._counting is None:
            # Writes no marks for a later fill.
            self._counting = self._query_in(*self._searched, lists=False, half=self._half)
            self._replayed("_count_only", 2)
        self._queue("_count_only", positions, counts)

    def _count_only(self, positions: Any, counts: Any) -> None:
        self._build(positions, self._counting)
        self._counting.write_to(counts)
        self._counting.count(self._read)

    def rows(self, arrays: Arrays) -> ResultArrays:
        """Allocate all arrays of a result."""
        return ResultArrays(*arrays.empty_each(self._layout))

    def search(self, arrays: Arrays | Device, positions: Any, rows: ResultArrays) -> int | None:
        """Queue a search, and return the number of pairs.

        With a capacity, it does not wait, drops pairs beyond the capacity and returns None.
        Otherwise it waits for the count and allocates the neighbour array; see `require_sound`.
        """
        pairs = None
        if self.capacity is None:
            self._queue("count", positions, rows.counts, rows.offsets)
            pairs = self.filled(arrays, rows)
        else:
            self._queue("_list", positions, rows.counts, rows.offsets, rows.neighbours)
        if self.in_cells:
            self._device.copy(self._order, rows.ids)
        return pairs

    def filled(self, arrays: Arrays | Device, rows: ResultArrays) -> int:
        """Wait for the counts, and queue the listing into an array that fits."""
        pairs = self.require_sound()
        rows.neighbours = arrays.empty(pairs, "int32")
        self._queue("_fill", rows.counts, rows.offsets, rows.neighbours)
        return pairs

    def count(self, positions: Any, counts: Any, offsets: Any) -> None:
        """Queue the counts, from which `filled` goes on."""
        self._build(positions, self._query)
        if self.in_cells:
            self._order, self._read["order"] = self._read["order"], self.numbers
        self._query.write_to(counts, offsets)
        self._query.count(self._read)
        keeps_most = self.capacity is not None
        if self._few:
            self._few.sum(counts, offsets, self._listed, keeps_most, self.status)
            return
        self._query.sum()
        given = {"offsets": offsets, "particles": self._listed, "status": self.status}
        self._note(1, 32, keeps_most=keeps_most, **given)

    def _list(self, positions: Any, counts: Any, offsets: Any, neighbours: Any) -> None:
        self.count(positions, counts, offsets)
        self._fill(counts, offsets, neighbours)

    def _fill(self, counts: Any, offsets: Any, neighbours: Any) -> None:
        self._query.write_to(counts, offsets, neighbours)
        self._query.fill(self._read)

    def _build(self, positions: Any, query: CellQuery) -> None:
        """Queue the cell build, and collect the arrays that the query reads."""
        if self._few:
            self._few.sort(positions, self.packed_box, self._grid, self.status)
        else:
            given = {
                "given": positions, "box": self.packed_box, "grid": self._grid,
                "particles": self.particles, "positions": self._placed, "cell_of": self._cell_of,
                "status": self.status, **self._packed,
            }  # fmt: skip
            self._place.launch_from(self._blocks, BLOCK, given)
            self._cells.build(self._cell_of, self._placed)
        self._cells.cell_of = self._cell_of
        cells: Any = self._cells.answer
        self._read = query.arrays(cells, self._placed)


def _parameters_for(
    device: Device, method: type[CellSearch], particles: int, grid: Grid, cutoff: float
) -> Mapping[str, int]:
    """Return the defaults of a method; but with cells in one part if marks would find no room.

    Rows of whole cells are too long for marks altogether, and several threads share a particle.
    """
    parts = method.parts(device, particles, grid)
    in_row = particles / math.prod(grid.size) * row_volume(grid, cutoff, parts)
    is_marked = not lanes_for(particles, math.inf, in_row)
    has_room = words_for(in_row, any(grid.periodic)) <= STAGED_WORDS
    if "cuda" not in device.features or parts == 1 or has_room or not is_marked:
        return method.defaults
    return {**method.defaults, "parts": 1}
