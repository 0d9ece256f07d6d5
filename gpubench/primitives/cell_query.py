"""Neighbour queries over a cell list, on the device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpubench.core.grid import EPSILON, Grid
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.primitives import simd_query
from gpubench.primitives.gather import Gather
from gpubench.primitives.scan import ExclusiveScan
from gpubench.primitives.workspace import Workspace
from gpubench.problems.cells.contract import LinkedCells, SortedCells
from gpubench.problems.neighbours.contract import Neighbours

BLOCK = 512
LIST_BLOCK = 128  # smaller than BLOCK, since listing stages neighbours in shared memory
GROUP_BLOCK = 256
STEP, LIST_STEP = 2, 4  # candidates loaded at once, to count and to list
ROUNDINGS = 8  # error bound of the distance to a cell, in roundings of the largest coordinate
ROWS = 9  # rows of cells searched per particle
MOST_WORDS = 10  # 32-bit masks per row of cells; a block on CUDA has shared memory for one less
# Few particles do not fill a GPU with one thread each, so several threads (LANES) share a particle.
# Keys: the least mean number of neighbours to which an entry applies. Values of FEW (for lists), of
# FEW_WRAPPED (in periodic boxes) and of FEW_COUNTED (for counts): the most particles that count as
# few. Measured on an H200, FEW_WRAPPED on an H100.
FEW = {0.0: 2**13, 40.0: 2**15}
FEW_WRAPPED = {0.0: 2**14, 40.0: 2**15}
FEW_COUNTED = {0.0: 2**15}
LANES = {0.0: 16, 150.0: 32}


class CellQuery(Workspace):
    """Count or list the particles strictly nearer than the cutoff, from 27 cells.

    grid: each cell is at least as long as the cutoff; along x, `reach` cells together are.
    shape: LinkedCells, or SortedCells.
    lists: whether neighbours are listed, in CSR (count, scan, fill). Lists are never truncated:
        `make_room` first counts the pairs.
    gathers: whether `arrays` must gather positions in cell order; for sorted cells only.
    half: whether each pair is found once, in the row of its first particle; sorted cells only.
    workspace_bytes: all memory allocated here.
    """

    def __init__(
        self,
        device: Device,
        particles: int,
        grid: Grid,
        cutoff: float,
        shape: type[LinkedCells] | type[SortedCells],
        *,
        lists: bool,
        reach: int = 1,
        gathers: bool = False,
        half: bool = False,
    ) -> None:
        super().__init__(device)
        self._particles = particles
        self._cutoff2 = np.float32(cutoff) ** 2
        ends = [
            abs(end)
            for low, size in zip(grid.low, grid.size, strict=True)
            for end in (low, low + size, size)
        ]
        self._slack = np.float32(ROUNDINGS * EPSILON * max(ends))
        self._linked, self._lists, self._lanes = shape is LinkedCells, lists, 0
        self._grid = device.upload(grid.packed().view("uint8"))
        self._counts = self._allocate(particles, "int32")
        self._offsets = self._allocate(particles + 1 if lists else 0, "int64")
        self._neighbours = device.empty(0, "int32")
        kept = {"PERIODIC": int(any(grid.periodic)), "REACH": reach, "HALF": int(half)}
        if lists:
            self._scan = ExclusiveScan(device, particles, sum_type="int64")
            self.workspace_bytes += self._scan.workspace_bytes
        self._simd = self._gather = None
        if simd_query.suits(device) and not self._linked:
            self._simd = simd_query.SimdQuery(device, particles, self._grid, self._cutoff2, **kept)
            self.workspace_bytes += self._simd.workspace_bytes
            return
        self._gather = Gather(device, particles) if gathers else None
        if self._gather:
            self.workspace_bytes += self._gather.workspace_bytes
        self._given = {"grid": self._grid, "cutoff2": self._cutoff2, "particles": particles}
        self._masks: dict[str, Any] = {}
        self._count_shape = self._fill_shape = 1, BLOCK  # threads per particle, threads per block
        if self._linked:
            self._take_linked(kept["PERIODIC"], reach)
        else:
            self._take_sorted(grid, cutoff, reach, kept)

    def _take_linked(self, is_periodic: int, reach: int) -> None:
        """Compile the kernels over linked lists."""
        self._fill_shape = 1, GROUP_BLOCK
        blocks = {"COUNT_BLOCK": BLOCK, "FILL_BLOCK": GROUP_BLOCK}
        self._count, self._fill = (
            NamedKernel(
                self._device, "neighbour_linked_lists.cu", name,
                PERIODIC=is_periodic, REACH=reach, **blocks,
            )
            for name in ("count", "fill")
        )  # fmt: skip

    def _take_sorted(self, grid: Grid, cutoff: float, reach: int, kept: dict[str, int]) -> None:
        """Compile the kernels over sorted cells, chosen by density and number of particles."""
        device, particles, lists = self._device, self._particles, self._lists
        self._given["slack"] = self._slack
        density = particles / math.prod(grid.size)
        in_row = density * row_volume(grid, cutoff, reach)
        if "cuda" in device.features:
            neighbours = 4 / 3 * math.pi * cutoff**3 * density
            few = FEW_COUNTED if not lists else FEW_WRAPPED if kept["PERIODIC"] else FEW
            self._lanes = lanes_for(particles, neighbours, in_row, few)
        if self._lanes:
            self._count_shape = self._fill_shape = self._lanes, GROUP_BLOCK
            ahead = {"LANES": self._lanes, "AHEAD": int(in_row <= self._lanes)}
            counts = lists_in = "neighbour_lane_groups.cu"
            kept |= ahead
        elif lists:
            self._count_shape = self._fill_shape = 1, LIST_BLOCK
            words = words_for(in_row, False)
            self._masks = {
                "begins": self._allocate(ROWS * particles, "int32"),
                "wraps": self._allocate(ROWS * particles * kept["PERIODIC"], "int32"),
                "masks": self._allocate(ROWS * words * particles, "uint32"),
            }
            kept |= {"BLOCK": LIST_BLOCK, "STEP": LIST_STEP, "WORDS": words}
            counts, lists_in = "neighbour_bitmask_count.cu", "neighbour_bitmask_list.cu"
        else:
            counts, kept = "neighbour_sorted_count.cu", kept | {"BLOCK": BLOCK, "STEP": STEP}
        self._count = NamedKernel(device, counts, "count", **kept)
        if lists:
            staged = {} if self._lanes else {"STAGED": int("cuda" in device.features)}
            self._fill = NamedKernel(device, lists_in, "fill", **kept, **staged)

    def arrays(self, cells: LinkedCells | SortedCells, positions: Any) -> dict[str, Any]:
        """Return the arrays that a query reads, by the name of the kernel argument.

        positions: float32, shape (particles, 4), in input order. For sorted cells, positions in
        cell order are returned in place of them; they are gathered first if needed.
        """
        match cells:
            case LinkedCells(head, next):
                return {"positions": positions, "head": head, "next": next}
            case SortedCells(start, order, _) if self._simd:
                positions = self._simd.gather(order, positions)
            case SortedCells(start, order, None):
                assert self._gather is not None
                self._gather.launch(order, positions)
                positions = self._gather.sorted
            case SortedCells(start, order, in_order):
                positions = in_order
        return {"positions": positions, "start": start, "order": order}

    def make_room(self, arrays: Mapping[str, Any]) -> None:
        """Count the pairs, and allocate a list for them."""
        self.count(arrays)
        self.sum()
        total = int(self._device.download(self._offsets)[-1])
        self.workspace_bytes -= self._neighbours.nbytes
        self._neighbours = self._allocate(total, "int32")

    @property
    def pairs(self) -> int:
        """Capacity of the list in pairs; unless `half`, each pair counts from both sides."""
        return int(self._neighbours.shape[0])

    def count(self, arrays: Mapping[str, Any]) -> None:
        """Queue the count of each particle's neighbours."""
        if self._simd:
            self._simd.launch(False, arrays, self._counts, self._offsets, self._neighbours)
            return
        each, block = self._count_shape
        self._count(
            self._device.blocks(self._particles * each, block), block, **arrays, **self._given,
            counts=self._counts, **self._masks,
        )  # fmt: skip

    def list(self, arrays: Mapping[str, Any]) -> None:
        """Queue count, scan and fill."""
        self.count(arrays)
        self.sum()
        self.fill(arrays)

    def sum(self) -> None:
        """Queue the offsets of the rows: the exclusive sum of the counts."""
        self._scan.launch(self._counts, self._offsets)

    def fill(self, arrays: Mapping[str, Any]) -> None:
        """Queue the listing of the counted neighbours, up to the capacity."""
        if self._simd:
            self._simd.launch(True, arrays, self._counts, self._offsets, self._neighbours)
            return
        each, block = self._fill_shape
        self._fill(
            self._device.blocks(self._particles * each, block), block, **arrays, **self._given,
            offsets=self._offsets, neighbours=self._neighbours, capacity=np.int64(self.pairs),
            **self._masks,
        )  # fmt: skip

    def write_to(self, counts: Any, offsets: Any = None, neighbours: Any = None) -> None:
        """Make the next queries write to these arrays, shaped as in `Neighbours`."""
        self._counts = counts
        if offsets is not None:
            self._offsets = offsets
        if neighbours is not None:
            self._neighbours = neighbours

    @property
    def gathered_bytes(self) -> int:
        """Bytes moved by gathering positions in cell order; 0 if the query does not gather."""
        brings = self._simd or self._gather
        return brings.traffic_bytes() if brings else 0

    @property
    def found(self) -> Neighbours:
        """The neighbours of the last query; overwritten by the next."""
        if not self._lists:
            return Neighbours(self._counts)
        return Neighbours(self._counts, self._offsets, self._neighbours)

    def traffic_bytes(self, cells: int) -> int:
        """Return the bytes moved if each kernel reads positions, order and bounds only once."""
        once = (16 + 4 + 4) * self._particles + 4 * cells
        if not self._lists:
            return once
        return 2 * once + (8 + 8) * self._particles + 4 * self.pairs


def row_volume(grid: Grid, cutoff: float, reach: int) -> float:
    """Return the volume that a particle searches in a row of cells."""
    _, y, z = grid.cell_size
    return (2 + 1 / reach) * cutoff * y * z


def lanes_for(
    particles: int, neighbours: float, in_row: float, few: Mapping[float, int] = FEW
) -> int:
    """Return the number of threads per particle on a GPU; 0 selects the one-thread kernels.

    Several threads share a particle if particles are few, or if they have more candidates than
    `neighbour_bitmask_count.cu` can mark. neighbours: mean number per particle. in_row: mean number
    of candidates in the longest row of cells. few: by neighbours, the most particles that are few.
    """
    most, lanes = (
        max(number for least, number in by_neighbours.items() if neighbours >= least)
        for by_neighbours in (few, LANES)
    )
    return lanes if particles <= most or _words(in_row) > MOST_WORDS else 0


def words_for(in_row: float, is_periodic: bool) -> int:
    """Return the number of 32-bit words whose bits mark the candidates of a row of cells.

    These suffice for nearly all rows at uniform density. in_row: mean number of candidates in the
    longest row. is_periodic: whether those past a periodic end begin in a word of their own.
    """
    return min(_words(in_row) + is_periodic, MOST_WORDS)


def _words(in_row: float) -> int:
    return max(1, math.ceil((in_row + 3 * math.sqrt(in_row)) / 32))
