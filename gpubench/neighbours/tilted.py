"""A search in a tilted cell that holds the cutoff three times: without images, by rows of cells.

See kernels/common/tilted.h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.algorithms.cell_search import CellSearch
from gpubench.core.grid import EPSILON, Grid
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.neighbours.box import LEAST_STEPS, STEPS, SearchBox, widened
from gpubench.neighbours.cell import Cell
from gpubench.neighbours.method import chosen
from gpubench.neighbours.plan import Plan
from gpubench.neighbours.refined import Refined
from gpubench.primitives import simd_query
from gpubench.primitives.cell_query import (
    GROUP_BLOCK,
    LIST_BLOCK,
    LIST_STEP,
    ROUNDINGS,
    ROWS,
    CellQuery,
    lanes_for,
    row_volume,
    words_for,
)
from gpubench.primitives.gather import Gather
from gpubench.primitives.scan import ExclusiveScan
from gpubench.primitives.simd_query import SLOTS, TARGETS, WIDTH, SimdQuery
from gpubench.primitives.workspace import Workspace
from gpubench.problems.cells.contract import CellList, LinkedCells

EXTRAS = ROWS  # of kernels/tilted_cells.cu
FEW_TILTED = {0.0: 0, 40.0: 2**15}  # see FEW; one thread each is as fast with fewer neighbours
LONGER = 1 + 2.0**-14  # cells than the cutoff, by more than the rounding of cell numbers
BEYOND = 3  # cells past the ends of the brick, to which particles are moved
TRIED = 1 + np.arange(64) / 2**12  # steps, of which the one that rounds the vectors least is taken
NEAR = 0.45  # of a reduced vector: the image of a pair is the nearest by fractions

# The layout of `struct Tilt` in kernels/common/tilted.h.
TILT_DTYPE = np.dtype(
    [("low", np.int32, 3), ("a", np.int32), ("b", np.int32, 2), ("c", np.int32, 3)]
)


@dataclass(frozen=True)
class Tilt:
    """A brick in steps.

    region: in the user's unit. lattice: the vectors as rows, (3, 3). rounding: see `SearchBox`.
    """

    region: SearchBox
    lattice: NDArray[np.int32]
    grid: Grid
    rounding: float

    @classmethod
    def of(cls, cell: Cell, particles: int, reach: float) -> Tilt | None:
        """Return the brick of a cell; None for one that needs images."""
        edges, lattice = cell.edges, cell.turned[1]
        if len(cell.repeats) < 3 or min(edges) < 3 * LONGER * reach:
            return None
        if lattice[2, 1] > edges[1] or (reach * np.linalg.norm(cell.dual, axis=0) > NEAR).any():
            return None
        x, y, z = edges.tolist()
        region = SearchBox((0.0, 0.0, 0.0), (x, y, z), (False, False, False))
        cells = region.grid(particles, LONGER * reach, in_steps=True).cells
        sizes = edges / cells
        steps = TRIED * (max(edges) / 2 + BEYOND * max(sizes)) / (STEPS - 1)
        # Of each vector, by which a pair is moved at most 3, 2 and 1 times.
        off = np.abs(lattice / steps[:, None, None] - np.rint(lattice / steps[:, None, None]))
        rounding = steps * np.linalg.norm(1 + np.array([3, 2, 1]) @ off, axis=1)
        best = int(rounding.argmin())
        if LEAST_STEPS * steps[best] > min(sizes):
            return None
        whole = np.rint(lattice / steps[best]).astype(np.int32)
        (x, y, z), (a, b, c) = np.diagonal(whole).tolist(), (-(np.diagonal(whole) // 2)).tolist()
        grid = Grid(cells, (a, b, c), (x, y, z))
        off_by = float(rounding[best]) + 2.0**-22 * reach
        return cls(replace(region, given_step=float(steps[best])), whole, grid, off_by)

    def packed(self) -> NDArray[np.void]:
        """Return the brick as an array with one element of TILT_DTYPE, for the kernels."""
        packed = np.zeros(1, TILT_DTYPE)
        packed["low"], packed["a"] = self.grid.low, self.lattice[0, 0]
        packed["b"], packed["c"] = self.lattice[1, :2], self.lattice[2]
        return packed


class TiltedPlan(Plan):
    """Buffers and kernels of such a search; why: its method was chosen."""

    def __init__(
        self, device: Device, method: type[CellSearch], positions: Any, cell: Cell, tilt: Tilt,
        reach: float, half: bool, why: str,
    ) -> None:  # fmt: skip
        self._tilt, self.chosen = tilt, why
        super().__init__(
            device, method, positions, tilt.region, tilt.grid, reach,
            half=half, in_cells=False, capacity=None, cell=cell,
        )  # fmt: skip

    def _placing(self) -> NamedKernel:
        assert self.cell is not None
        frame = self.cell.packed(self.box)
        frame["extent"] += 1  # a position at the end may be rounded up
        self._packed = {"frame": self._device.upload(frame.view("uint8"))}
        return NamedKernel(
            self._device, "periodic_images.cu", "wrap_cells", **self.kernel.keywords,
            CELLS=int(self._cells.reads_cells), THREADS=1,
        )  # fmt: skip

    def _query_in(self, grid: Grid, cutoff: float, *, lists: bool, half: bool) -> CellQuery:
        return TiltedQuery(self._cells, grid, cutoff, self._tilt, lists=lists, half=half)


class TiltedQuery(CellQuery):
    """The query of such a search.

    cells: the cell list. grid: its cells before they are split along x. cutoff: in steps.
    """

    def __init__(
        self, cells: CellList, grid: Grid, cutoff: float, tilt: Tilt, *, lists: bool, half: bool
    ) -> None:
        device, n, own = cells.device, cells.particles, cells.grid
        Workspace.__init__(self, device)  # all else differs, but for the methods
        self._particles, self._lists, self._neighbours = n, lists, device.empty(0, "int32")
        self._given = {
            "grid": device.upload(own.packed().view("uint8")), "particles": n,
            "tilt": device.upload(tilt.packed().view("uint8")), "cutoff2": np.float32(cutoff) ** 2,
            "slack": np.float32(ROUNDINGS * EPSILON * max(own.size)),
        }  # fmt: skip
        self._counts = self._offsets = None
        kept: dict[str, Any] = {
            "PERIODIC": 0,
            "REACH": own.cells[0] // grid.cells[0],
            "HALF": int(half),
        }
        if lists:
            self._scan = ExclusiveScan(device, n, sum_type="int64")
        self._simd = self._gather = None
        if simd_query.suits(device):
            self._simd = TiltedSimd(device, n, self._given, kept)
            return
        self._gather = None if cells.forms[cells.form].reorders else Gather(device, n)
        density, is_gpu = n / math.prod(grid.size), "cuda" in device.features
        in_row = density * row_volume(grid, cutoff, kept["REACH"])
        neighbours = 4 / 3 * math.pi * cutoff**3 * density
        self._masks: dict[str, Any] = {}
        if is_gpu and (lanes := lanes_for(n, neighbours, in_row, FEW_TILTED)):
            self._count_shape = self._fill_shape = lanes, GROUP_BLOCK
            kernel = partial(NamedKernel, device, "tilted_lane_groups.cu", LANES=lanes, **kept)
        else:
            self._count_shape = self._fill_shape = 1, LIST_BLOCK
            words = words_for(in_row, False) if lists else 1
            self._masks = {
                "extras": device.empty(n if lists else 0, "int32"),
                "words": device.empty((ROWS * words + EXTRAS) * n * lists * 2, "int32"),
            }
            kept |= {"BLOCK": LIST_BLOCK, "STEP": LIST_STEP, "WORDS": words, "LISTS": int(lists)}
            kernel = partial(NamedKernel, device, "tilted_cells.cu", STAGED=int(is_gpu), **kept)
        self._count = kernel(name="count")
        if lists:
            self._fill = kernel(name="fill")


class TiltedSimd(SimdQuery):
    """Runs such a query on a CPU. given: arguments of its kernels. constants: as in `SimdQuery`."""

    def __init__(
        self, device: Device, particles: int, given: dict[str, Any], constants: dict[str, int]
    ) -> None:
        self._device, self._particles, self._given = device, particles, given
        self._pitch = (particles // WIDTH + 2) * WIDTH
        self._sorted = device.empty(3 * self._pitch, "float32")
        boxes, tilted = "neighbour_query_simd.cl", "tilted_query_simd.cl"
        self._gather, self._count, self._fill = (
            NamedKernel(device, file, name, FILL=fill, SLOTS=SLOTS, TARGETS=TARGETS, **constants)
            for file, name, fill in (
                (boxes, "gather", 0),
                (tilted, "query", 0),
                (tilted, "query", 1),
            )
        )

    def launch(
        self, fills: bool, arrays: Mapping[str, Any], counts: Any, offsets: Any, neighbours: Any
    ) -> None:
        """Queue the count or the fill of a query, as `SimdQuery` does."""
        (self._fill if fills else self._count)(
            self._device.blocks(self._particles, SLOTS), 1, **arrays,
            **{name: of for name, of in self._given.items() if name != "slack"}, pitch=self._pitch,
            counts=counts, offsets=offsets, neighbours=neighbours,
            capacity=np.int64(neighbours.shape[0]),
        )  # fmt: skip


def tilted_plan(
    device: Device, method: str, positions: Any, cell: Cell, cutoff: float, skin: float, half: bool
) -> TiltedPlan | Refined | None:
    """Return the search of a cell, or None for one that needs images; arguments: see `CellPlan`."""
    n, reach = positions.shape[0], cutoff + skin
    if tilt := Tilt.of(cell, n, reach):
        reach = widened(cutoff, skin, tilt.rounding)
        tilt = tilt if reach == cutoff + skin else Tilt.of(cell, n, reach)
    if tilt is None:
        return None
    search, why = chosen(method, device, n, tilt.grid, needs_sorted=True)
    if search.cells.shape() is LinkedCells:
        return None
    plan = TiltedPlan(device, search, positions, cell, tilt, reach, half, why)
    return Refined(device, plan, positions, cutoff + skin) if reach > cutoff + skin else plan
