"""The iterative bucket sort of Rožen, Boryczko and Alda (2008)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.contracts import CellList, Form, LinkedCells
from gpubench.devices.base import Device
from gpubench.errors import UserError
from gpubench.grid import Grid

BLOCK = 256
RESIDENT_THREADS = 1024
CONTROL = 10  # int32 words that the resident blocks meet at and report in
MAX_SLOTS = 8  # elements that a resident thread keeps in registers
MAX_PARTS = 64  # one bit each in the kernels' mask


class HostLoop(CellList):
    """Listing 1 with the loop on the host, over elements cut into equal parts.

    Each round scatters the parts that take part, reads back how many unvisited elements each of
    them drew (the paper's occlusion queries), and links. One part is the listing itself.
    """

    defaults: ClassVar[Mapping[str, int]] = {"parts": 1, "threshold": 1}

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        super().__init__(device, particles, grid, form, parameters)
        self._parts, self._threshold = self.parameters["parts"], self.parameters["threshold"]
        if not 1 <= self._parts <= MAX_PARTS:
            raise UserError(f"parts must be 1 to {MAX_PARTS}, not {self._parts}")
        if self._threshold < 1:
            raise UserError(f"the threshold must be at least 1 element, not {self._threshold}")
        self._head = self.allocate(grid.count, "int32")
        self._next = self.allocate(particles, "int32")
        self._visited = self.allocate(particles, "int32")
        self._drawn = self.allocate(self._parts, "int32")
        self._part_size = max(1, -(-particles // self._parts))
        self._blocks_per_part = device.blocks(self._part_size, BLOCK)
        self._scatter = device.kernel("bucket_sort.cu", "scatter")
        self._link = device.kernel("bucket_sort.cu", "link_elements")
        self._rounds = self._drawn_in_all = self._scanned_in_all = 0

    def build(self, cell_of: Any, positions: Any) -> None:
        device = self.device
        device.fill(self._head, 0xFF)
        device.fill(self._next, 0xFF)
        device.fill(self._visited, 0x00)
        blocks = self._blocks_per_part * self._parts
        sizes = self._blocks_per_part, self._part_size, self.particles
        active, joined = 1, 1
        self._rounds = self._drawn_in_all = self._scanned_in_all = 0
        while active:
            device.fill(self._drawn, 0x00)
            self._scatter(
                blocks, BLOCK, cell_of, self._visited, self._head, self._drawn,
                np.uint64(active), *sizes,
            )  # fmt: skip
            drawn = device.download(self._drawn)
            # A part that drew nothing drops out; the next joins once the one before it is
            # nearly done.
            drew = sum(1 << part for part in range(self._parts) if drawn[part] > 0)
            joining = 0
            if joined < self._parts and drawn[joined - 1] < self._threshold:
                joining = 1 << joined
                joined += 1
            active = drew | joining
            self._rounds += bool(drew)
            self._drawn_in_all += int(drawn.sum())
            self._scanned_in_all += active.bit_count() * self._part_size
            if active:
                self._link(
                    blocks, BLOCK, cell_of, self._visited, self._head, self._next,
                    np.uint64(active), *sizes,
                )  # fmt: skip

    @property
    def answer(self) -> LinkedCells:
        return LinkedCells(self._head, self._next)

    def outcome(self) -> dict[str, int | float | str]:
        return {"rounds": self._rounds}

    def traffic_bytes(self) -> int | None:
        # Fills; each round the visited flag of every element twice, and of those drawn the cell
        # twice, the head written and read, the link or flag written.
        fills = 4 * self.grid.count + 8 * self.particles
        return fills + 8 * self._scanned_in_all + 20 * self._drawn_in_all


class BucketSort(HostLoop):
    """Listing 1, and the same algorithm with its loop on the device."""

    name = "bucket-sort"
    summary = "iterative bucket sort: scatter to heads, link, repeat until nothing is left"
    source = "rozen2008, Listing 1"
    forms: ClassVar[Mapping[str, Form]] = {
        "host-loop": Form("Listing 1: the host reads back the end test each round",
                          capturable=False),
        "device-loop": Form("the rounds stay on the device and skip elements that are done",
                            requires=frozenset({"cuda"})),
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, int]] = {}

    def __init__(
        self, device: Device, particles: int, grid: Grid, form: str, parameters: Mapping[str, int]
    ) -> None:
        if form == "host-loop":
            super().__init__(device, particles, grid, form, {**HostLoop.defaults, **parameters})
            self.parameters = {}
            return
        CellList.__init__(self, device, particles, grid, form, parameters)
        # One array for the blocks' meetings and the heads: one fill readies both.
        self._state = self.allocate(CONTROL + 2 * grid.count, "int32")
        self._heads = self._state[CONTROL:]
        self._head = self._heads[: grid.count]
        self._next = self.allocate(particles, "int32")
        # Elements of a thread: few enough of them live in registers.
        slots = max(1, -(-particles // (device.compute_units * RESIDENT_THREADS)))
        if slots > MAX_SLOTS:
            slots = 0
        blocks_each = 1 if slots else 2
        self._blocks = blocks_each * device.compute_units
        self._unvisited = self.allocate((0 if slots else particles, 2), "int32")
        self._resident_sort = device.kernel(
            "bucket_sort.cu",
            "resident_sort",
            RESIDENT_THREADS=RESIDENT_THREADS,
            RESIDENT_BLOCKS=blocks_each,
            SLOTS=slots,
        )

    def build(self, cell_of: Any, positions: Any) -> None:
        if self.form == "host-loop":
            super().build(cell_of, positions)
            return
        device = self.device
        device.fill(self._state, 0xFF)
        self._resident_sort(
            self._blocks, RESIDENT_THREADS, cell_of, self._heads, self._next, self._unvisited,
            self._state, self.particles, self.grid.count,
        )  # fmt: skip

    def outcome(self) -> dict[str, int | float | str]:
        if self.form == "host-loop":
            return super().outcome()
        return {"rounds": self._report()[0]}

    def traffic_bytes(self) -> int | None:
        if self.form == "host-loop":
            return super().traffic_bytes()
        # Heads filled and settled; the cell read and the link written once; of those drawn the
        # head written and read, and where they do not stay in registers, their list as well.
        listed = 16 if self._unvisited.shape[0] else 0
        fixed = 16 * self.grid.count + 8 * self.particles
        return fixed + (8 + listed) * self._report()[1]

    def _report(self) -> tuple[int, int]:
        """Return the rounds of the last build, and the elements drawn over all of them."""
        rounds, drawn = self.device.download(self._state[:CONTROL]).view("uint64")[3:]
        return int(rounds), int(drawn)
