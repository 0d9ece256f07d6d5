"""A search in a `Cell`: an open box that contains the particles and their images."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.neighbours.arrays import Arrays
from gpubench.neighbours.box import SearchBox, measured, widened
from gpubench.neighbours.cell import Cell, rounding_of, step_of
from gpubench.neighbours.method import chosen
from gpubench.neighbours.plan import BLOCK, PairKernels, Plan, ResultArrays
from gpubench.primitives.scan import ExclusiveScan

THREADS = 2048  # that measure the particles along open axes
SPARE = 64  # images for which there is room beyond those expected, and a sixteenth of these


class CellPlan(PairKernels):
    """Buffers and kernels of a search in a cell.

    method: as users pass it. half: whether each pair is listed once. The others as in `Plan`.
    `place` is called first.
    """

    def __init__(
        self,
        device: Device,
        method: str,
        positions: Any,
        cell: Cell,
        cutoff: float,
        skin: float,
        half: bool,
    ) -> None:
        self._reach = cutoff + skin  # of the search; more than that of the list if pairs are EXACT
        self._known = cell.region(self._reach)
        super().__init__(device, positions, self._known, cell)
        self._method, self._cutoff, self._skin, self._half = method, cutoff, skin, half
        self._reach2, self._own, n = np.float64(self._reach) ** 2, cell, self.particles
        self._kernel = partial(
            NamedKernel, device, "periodic_images.cu", **self.kernel.keywords,
            THREADS=THREADS, HALF=int(half),
        )  # fmt: skip
        self._take_pairs(exact=0)
        makes, writes = (partial(self._kernel, WRITES=writes, EXACT=0) for writes in (0, 1))
        self._measure, self._wrap, self._count_images = map(makes, ("measure", "wrap", "images"))
        names = "images", "fill_rest", "write_counts"
        self._write_images, self._fill_rest, self._write_counts = map(writes, names)
        self._scan = ExclusiveScan(device, n, sum_type="int64")
        self._blocks = device.blocks(n, BLOCK)
        self._counts, self._offsets = device.empty(n, "int32"), device.empty(n + 1, "int64")
        self.status = device.status(4)
        device.fill(self.status, 0)
        self._inner: Plan | None = None
        self._frame = self._upload(self.box)

    def _take_pairs(self, exact: int) -> None:
        """Compile the kernels that list pairs. exact: whether float64 decides which."""
        self._selects = self._half or bool(exact)  # and does not list all that the search finds
        names = ("pairs", "pairs") if self._selects else ("take_rows",)
        self._pairs = [
            self._kernel(name=name, WRITES=writes, EXACT=exact) for writes, name in enumerate(names)
        ]

    def _upload(self, region: SearchBox) -> Any:
        return self._device.upload(self._own.packed(region).view("uint8"))

    def place(self, positions: Any) -> None:
        """Choose the box of the particles and their images, and prepare its search."""
        region = self._region(positions)
        reach = widened(self._cutoff, self._skin, rounding_of(region, self._reach))
        if reach > self._reach:  # from now on
            self._reach, self._known = 1.01 * reach, self._own.region(1.01 * reach)
            self._take_pairs(exact=1)
            region = self._region(positions)
        if self._inner is None or region != self.box:
            self._prepare(region, self._own.images(self.particles, region))

    def _locate(self, positions: Any, moves: Any) -> None:
        """Queue the places of particles and images, and the moves of each, as far as there is room.

        Counts the images, for `_until_they_fit`.
        """
        n, status = self.particles, self.status
        of_images = {**self._of_images, "moves": moves, "status": status}
        self._wrap(
            self._blocks, BLOCK, given=positions, frame=self._frame, particles=n,
            placed=self._placed, moves=moves, status=status,
        )  # fmt: skip
        self._count_images(self._blocks, BLOCK, **of_images)
        self._scan.launch(self._counts, self._offsets)
        self._write_images(self._blocks, BLOCK, **of_images)
        self._fill_rest(
            self._device.blocks(self._room, BLOCK), BLOCK, offsets=self._offsets,
            particles=n, room=self._room, placed=self._placed, **self._rest,
        )  # fmt: skip

    def _count(self, positions: Any, moves: Any, counts: Any, offsets: Any) -> None:
        """Queue the same, and count the neighbours of particles and images."""
        assert self._inner is not None
        self._locate(positions, moves)
        self._inner.count(self._placed, counts, offsets)

    def _until_they_fit(self, queue: Callable[[], None]) -> None:
        """Queue work that locates images, and wait; again if they found no room.

        Raises UserError for a position that is not finite, or is outside an axis with an edge.
        """
        while True:
            queue()
            if (images := self.require_sound()) <= self._room <= 2 * images + 999:
                return
            self._prepare(self.box, images)

    def _region(self, positions: Any) -> SearchBox:
        """Return the box of all particles and images; measured along open axes."""
        if self._known.is_bounded:
            return self._known
        ends = self._device.empty((THREADS, 2, 3), "float64")
        self._measure(
            self._device.blocks(THREADS, BLOCK), BLOCK, given=positions, frame=self._frame,
            particles=self.particles, ends=ends,
        )  # fmt: skip
        each = self._device.download(ends)
        low, high = each[:, 0].min(axis=0), each[:, 1].max(axis=0)
        low, high = np.where(low > high, 0.0, (low, high))  # no particles
        last = None if self._inner is None else self.box
        high = high + step_of(self.box)  # the last step of the box may not be whole
        return measured(self._known, low, high, self._reach, last)

    def _prepare(self, region: SearchBox, images: int) -> None:
        """Allocate room for about as many images, and make the search of all of them."""
        device, n, reach = self._device, self.particles, self._reach
        self._replays.clear()  # of arrays to be freed
        self._inner, self.box, self._frame = None, region, self._upload(region)
        self._room = images + images // 16 + SPARE
        entries = n + self._room
        # What remains of the room is filled with points beyond the box, as dense as those in it.
        apart = math.prod(region.size) ** (1 / 3) / entries ** (1 / 3)
        along, across = (max(1, math.floor(edge / apart)) for edge in region.size[:2])
        beyond = region.size[2] + 1.01 * reach
        height = beyond + math.ceil(self._room / (along * across)) * apart
        self._rest = {"along": along, "across": across, "apart": apart, "beyond": beyond}
        sizes = max(along * apart, region.size[0]), max(across * apart, region.size[1]), height
        # With the steps in which particles and images are placed, for nothing to be rounded again.
        box = SearchBox((0.0, 0.0, 0.0), sizes, (False, False, False), step_of(region))
        grid = box.grid(entries, reach, in_steps=True)
        method, self.chosen = chosen(self._method, device, entries, grid, False)
        self._placed = device.empty((entries, 4), "float32")
        self._sources = device.empty(self._room, "int32")
        self._of_images = {
            "frame": self._frame, "particles": n, "counts": self._counts, "room": self._room,
            "offsets": self._offsets, "placed": self._placed, "sources": self._sources,
        }  # fmt: skip
        self._inner = Plan(
            device, method, self._placed, box, grid, reach,
            half=False, in_cells=False, capacity=None, listed=n,
        )  # fmt: skip
        self._replayed("_count", 4)

    def ranked(self, moves: Any) -> dict[str, Any]:
        """Queue and return the order of the images last placed: by particle, then by shift."""
        device, entries = self._device, self.particles + self._room
        found = {name: device.empty(entries, "int32") for name in ("ranks", "order")}
        NamedKernel(device, "neighbour_rows.cu", "rank_images", IMAGES=1, LIMITS=0, REAL="float")(
            self._blocks, BLOCK, offsets=self._offsets, moves=moves,
            particles=self.particles, **found,
        )  # fmt: skip
        return found | {"sources": self._sources}

    def rows(self, arrays: Arrays) -> ResultArrays:
        """Allocate the arrays of a result whose size is known."""
        n = self.particles
        return ResultArrays(arrays.empty(n, "int32"), arrays.empty(n + 1, "int64"), None)

    def search(self, arrays: Arrays | Device, positions: Any, rows: ResultArrays) -> int:
        """List the pairs, and return their number; raises UserError as `_until_they_fit`.

        arrays: allocates the result; a device's memory is kept until its kernels are done.
        """
        device, found = self._device, rows

        def queue() -> None:
            nonlocal found
            entries = self.particles + self._room
            counts, offsets = device.empty(entries, "int32"), device.empty(entries + 1, "int64")
            found = ResultArrays(counts, offsets, None)
            rows.moves = arrays.empty((entries, 3), "int32")
            self._queue("_count", positions, rows.moves, counts, offsets)

        self._until_they_fit(queue)
        assert self._inner is not None
        pairs = self._inner.filled(device if self._selects else arrays, found)
        given = {
            "found_offsets": found.offsets, "found": found.neighbours, "rows": self.particles,
            "moves": rows.moves, "sources": self._sources, "given": positions,
            "cell": self.vectors, "reach2": self._reach2, "counts": rows.counts,
            "offsets": rows.offsets, "images": found.neighbours, "neighbours": found.neighbours,
        }  # fmt: skip
        blocks = self.blocks_of_teams
        if self._selects:
            blocks = self._blocks
            self._pairs[0].launch_from(blocks, BLOCK, given)
            self._scan.launch(rows.counts, rows.offsets)
            pairs = int(device.download(rows.offsets)[-1])
            given["images"] = arrays.empty(pairs, "int32")
        given["neighbours"] = arrays.empty(pairs, "int32")
        self._pairs[-1].launch_from(blocks, BLOCK, given)
        rows.neighbours, rows.images = given["neighbours"], given["images"]
        return pairs

    def count_only(self, positions: Any, counts: Any) -> None:
        """Count the pairs of each particle; raises UserError as `_until_they_fit`."""
        n, device = self.particles, self._device
        if self._selects:
            self.search(device, positions, ResultArrays(counts, device.empty(n + 1, "int64"), None))
            return

        def queue() -> None:
            assert self._inner is not None
            entries = n + self._room
            found = device.empty(entries, "int32")
            self._locate(positions, device.empty((entries, 3), "int32"))
            self._inner.count_only(self._placed, found)
            self._write_counts(self._blocks, BLOCK, found=found, rows=n, counts=counts)

        self._until_they_fit(queue)
