"""A search in a `Cell`: an open box that contains the particles and their images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpubench.base.errors import UserError
from gpubench.devices.base import Device
from gpubench.devices.named import NamedKernel
from gpubench.neighbours.arrays import Arrays
from gpubench.neighbours.box import SearchBox, measured, raise_unsound
from gpubench.neighbours.cell import Cell, step_of
from gpubench.neighbours.method import chosen
from gpubench.neighbours.plan import BLOCK, PairKernels, Plan, ResultArrays
from gpubench.primitives.scan import ExclusiveScan

THREADS = 2048  # that measure the particles along open axes
SPARE = 64  # images for which there is room beyond those expected, and a sixteenth of these


class CellPlan(PairKernels):
    """Buffers and kernels of a search in a cell.

    method: as users pass it. half: whether each pair is listed once. The others as in `Plan`.
    `place` is called first; it waits, since the images must be counted before they are searched.
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
        self._known = cell.region(cutoff + skin)
        super().__init__(device, positions, self._known, cell)
        self._method, self._cutoff, self._skin, self._half = method, cutoff, skin, half
        self._own, n = cell, self.particles
        (self._measure, self._wrap, self._count_images, self._count_pairs), (
            self._write_images, self._fill_rest, self._write_pairs, self._write_counts,
        ) = (
            [
                NamedKernel(
                    device, "periodic_images.cu", name, **self.kernel.keywords,
                    THREADS=THREADS, HALF=int(half), WRITES=writes,
                )
                for name in names
            ]
            for writes, names in (
                (0, ("measure", "wrap", "images", "pairs")),
                (1, ("images", "fill_rest", "pairs", "write_counts")),
            )
        )  # fmt: skip
        self._note, self._blocks = self.kernel("note_pairs"), device.blocks(n, BLOCK)
        self._scan = ExclusiveScan(device, n, sum_type="int64")
        self._counts, self._offsets = device.empty(n, "int32"), device.empty(n + 1, "int64")
        self.status = device.status(3)
        device.fill(self.status, 0)
        self._inner: Plan | None = None
        self._frame = self._upload(self.box)

    def _upload(self, region: SearchBox) -> Any:
        return self._device.upload(self._own.packed(region).view("uint8"))

    def place(self, positions: Any) -> None:
        """Place the particles and their images in a box; wait for the number of images.

        Raises UserError for a position that is not finite, or is outside an axis with an edge.
        """
        region = self._region(positions)
        if self._inner is None or region != self.box:
            self._prepare(region, self._own.images(self.particles, region))
        while (images := self._wrapped(positions)) > self._room or self._room > 2 * images + 999:
            self._prepare(region, images)
        self._write_images(self._blocks, BLOCK, **self._of_images)
        self._fill_rest(
            self._device.blocks(self._room, BLOCK), BLOCK, offsets=self._offsets,
            particles=self.particles, room=self._room, placed=self._placed, **self._rest,
        )  # fmt: skip

    def _wrapped(self, positions: Any) -> int:
        """Wrap the particles, and return the number of their images."""
        n, status = self.particles, self.status
        self._wrap(
            self._blocks, BLOCK, given=positions, frame=self._frame, particles=n,
            placed=self._placed, moves=self._moves, status=status,
        )  # fmt: skip
        self._count_images(self._blocks, BLOCK, **self._of_images)
        self._scan.launch(self._counts, self._offsets)
        self._note(1, 32, offsets=self._offsets, particles=n, keeps_most=0, status=status)
        return self.require_sound()

    def require_sound(self) -> int:
        """Wait, and return the number of images; raise UserError as `place` does."""
        not_finite, outside, images = self._device.download(self.status).tolist()
        if not_finite or outside:
            self._device.fill(self.status, 0)
        raise_unsound(not_finite, outside, "2^29")
        return int(images)

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
        region = measured(self._known, low, high, self._cutoff + self._skin, last)
        if why := region.why_coarse(self._cutoff, self._skin):
            raise UserError(why)
        return region

    def _prepare(self, region: SearchBox, images: int) -> None:
        """Allocate room for about as many images, and make the search of all of them."""
        device, n, reach = self._device, self.particles, self._cutoff + self._skin
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
        box = SearchBox((0.0, 0.0, 0.0), sizes, (False, False, False))
        grid = box.grid(entries, reach)
        method, self.chosen = chosen(self._method, device, entries, grid, False)
        self._placed = device.empty((entries, 4), "float32")
        self._moves = device.empty((entries, 3), "int32")
        self._sources = device.empty(self._room, "int32")
        self._of_images = {
            "frame": self._frame, "particles": n, "counts": self._counts, "room": self._room,
            "offsets": self._offsets, "placed": self._placed, "moves": self._moves,
            "sources": self._sources,
        }  # fmt: skip
        self._inner = Plan(
            device, method, self._placed, box, grid, reach,
            half=False, in_cells=False, capacity=None, listed=n,
        )  # fmt: skip

    def ranked(self) -> dict[str, Any]:
        """Queue and return the order of the images last placed: by particle, then by shift."""
        device, entries = self._device, self.particles + self._room
        found = {name: device.empty(entries, "int32") for name in ("ranks", "order")}
        NamedKernel(device, "neighbour_rows.cu", "rank_images", IMAGES=1, LIMITS=0, REAL="float")(
            self._blocks, BLOCK, offsets=self._offsets, moves=self._moves,
            particles=self.particles, **found,
        )  # fmt: skip
        return found | {"sources": self._sources}

    def rows(self, arrays: Arrays) -> ResultArrays:
        """Allocate the arrays of a result whose size is known."""
        n = self.particles
        return ResultArrays(arrays.empty(n, "int32"), arrays.empty(n + 1, "int64"), None)

    def search(self, arrays: Arrays | Device, positions: Any, rows: ResultArrays) -> int:
        """List the pairs of the particles last placed, and return their number.

        arrays: allocates the result; a device's memory is kept until its kernels are done.
        """
        assert self._inner is not None
        entries, device = self.particles + self._room, self._device
        offsets = device.empty(entries + 1, "int64")
        found = ResultArrays(device.empty(entries, "int32"), offsets, None)
        pairs = self._inner.search(device if self._half else arrays, self._placed, found)
        assert pairs is not None
        given = {
            "found_offsets": found.offsets, "found": found.neighbours, "images": found.neighbours,
            "neighbours": found.neighbours, "moves": self._moves, "sources": self._sources,
            "rows": self.particles, "counts": rows.counts, "offsets": rows.offsets,
        }  # fmt: skip
        self._count_pairs(self._blocks, BLOCK, **given)
        self._scan.launch(rows.counts, rows.offsets)
        if self._half:
            pairs = int(device.download(rows.offsets)[-1])
            given["images"] = arrays.empty(pairs, "int32")
        given["neighbours"] = arrays.empty(pairs, "int32")
        self._write_pairs(self._blocks, BLOCK, **given)
        rows.neighbours, rows.images = given["neighbours"], given["images"]
        # A copy, since the next search overwrites them.
        rows.moves = arrays.empty((entries, 3), "int32")
        device.copy(self._moves, rows.moves)
        return pairs

    def count_only(self, positions: Any, counts: Any) -> None:
        """Count the pairs of the particles last placed, indexed by particle."""
        assert self._inner is not None
        n, device = self.particles, self._device
        if self._half:
            self.search(device, positions, ResultArrays(counts, device.empty(n + 1, "int64"), None))
            return
        found = device.empty(n + self._room, "int32")
        self._inner.count_only(self._placed, found)
        self._write_counts(self._blocks, BLOCK, found=found, rows=n, counts=counts)
