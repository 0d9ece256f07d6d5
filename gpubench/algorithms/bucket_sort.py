"""The iterative bucket sort of Rožen, Boryczko and Alda (2008)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.problems.cells.contract import CellList, LinkedCells

BLOCK = 256
RESIDENT_THREADS = 1024
CONTROL = 10  # int32 words for the barrier and the statistics of the resident blocks
MAX_SLOTS = 8  # maximum elements that a resident thread can keep in registers
MAX_PARTS = 64  # one bit per part in the kernels' mask


class HostRounds:
    """The loop of Listing 1 (lines 4 to 17), run by the host over equal parts of the elements.

    Each round draws (scatters) the unvisited elements of the active parts, reads back how many each
    part drew (the paper's occlusion queries), and links the elements. With one part, this is
    Listing 1 itself; with several, the partial update of section 2.1: a part becomes active in the
    round after its predecessor drew fewer elements than `threshold`, and inactive if it draws none.

    rounds, drawn, traffic_bytes: the rounds, drawn elements and moved bytes of the last run.
    """

    def __init__(self, owner: CellList, max_parts: int) -> None:
        if not 1 <= max_parts <= MAX_PARTS:
            raise UserError(f"parts must be 1 to {MAX_PARTS}, not {max_parts}")
        self._device, self._elements = owner.device, owner.particles
        self._drawn_by_part = owner.allocate(max_parts, "int32")
        self._scatter = owner.device.kernel("bucket_sort.cu", "scatter")
        self._link = owner.device.kernel("bucket_sort.cu", "link_elements")
        self.rounds = self.drawn = self.traffic_bytes = 0

    def run(
        self,
        cell_of: Any,
        visited: Any,
        head: Any,
        next: Any,
        *,
        parts: int = 1,
        threshold: int = 1,
        into_lists: bool = False,
    ) -> None:
        """Sort the unvisited elements into their lists.

        into_lists: whether `head` and `next` may already hold lists, to which elements are added.
        """
        device = self._device
        part_size = max(1, -(-self._elements // parts))
        blocks_per_part = device.blocks(part_size, BLOCK)
        blocks = blocks_per_part * parts
        sizes = blocks_per_part, part_size, self._elements

        def link(active: int) -> None:
            self._link(blocks, BLOCK, cell_of, visited, head, next, np.uint64(active), *sizes)
            self.traffic_bytes += 4 * active.bit_count() * part_size

        self.rounds = self.drawn = self.traffic_bytes = 0
        if into_lists:
            link((1 << parts) - 1)
        active, joined = 1, 1
        while active:
            device.fill(self._drawn_by_part, 0x00)
            self._scatter(
                blocks, BLOCK, cell_of, visited, head, self._drawn_by_part,
                np.uint64(active), *sizes,
            )  # fmt: skip
            drawn = device.download(self._drawn_by_part)
            # Each element of an active part reads its flag `visited`; a drawn element also reads
            # its cell twice, writes and reads a head, and writes a link or flag.
            self.traffic_bytes += 4 * active.bit_count() * part_size + 20 * int(drawn.sum())
            self.drawn += int(drawn.sum())
            drew = sum(1 << part for part in range(parts) if drawn[part] > 0)
            joining = 0
            if joined < parts and drawn[joined - 1] < threshold:
                joining = 1 << joined
                joined += 1
            active = drew | joining
            self.rounds += bool(drew)
            if active:
                link(active)


class HostLoop(CellList):
    """Listing 1 with its loop on the host; with several parts, the partial update."""

    defaults: ClassVar[Mapping[str, int]] = {"parts": 1, "threshold": 1}

    def prepare(self) -> None:
        particles, grid = self.particles, self.grid
        if self.parameters["threshold"] < 1:
            raise UserError(
                f"the threshold must be at least 1 element, not {self.parameters['threshold']}"
            )
        self._rounds = HostRounds(self, self.parameters["parts"])
        self._head = self.allocate(grid.count, "int32")
        self._next = self.allocate(particles, "int32")
        self.visited = self.allocate(particles, "int32")

    def build(self, cell_of: Any, positions: Any) -> None:
        self.device.fill(self._head, 0xFF)
        self.device.fill(self._next, 0xFF)
        self.device.fill(self.visited, 0x00)
        self._rounds.run(
            cell_of, self.visited, self._head, self._next,
            parts=self.parameters["parts"], threshold=self.parameters["threshold"],
        )  # fmt: skip

    @property
    def answer(self) -> LinkedCells:
        return LinkedCells(self._head, self._next)

    def outcome(self) -> dict[str, int | float | str]:
        return {"rounds": self._rounds.rounds}

    def traffic_bytes(self) -> int | None:
        # Fill the arrays, then run the rounds.
        return 4 * self.grid.count + 8 * self.particles + self._rounds.traffic_bytes


class BucketSort(HostLoop):
    """Listing 1, with its loop on the host or on the device."""

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

    def prepare(self) -> None:
        if self.form == "host-loop":
            self.parameters = dict(HostLoop.defaults)
            super().prepare()
            return
        device, particles, grid = self.device, self.particles, self.grid
        # One array holds the barrier words and the heads: a single fill resets both.
        self._state = self.allocate(CONTROL + 2 * grid.count, "int32")
        self._heads = self._state[CONTROL:]
        self._head = self._heads[: grid.count]
        self._next = self.allocate(particles, "int32")
        # Number of elements that each thread keeps in registers; 0 if they do not fit there.
        slots = max(1, -(-particles // (device.compute_units * RESIDENT_THREADS)))
        if slots > MAX_SLOTS:
            slots = 0
        blocks_each = 1 if slots else 2
        self._blocks = blocks_each * device.compute_units
        self._unvisited = self.allocate((0 if slots else particles, 2), "int32")
        self._resident_sort = device.kernel(
            "bucket_sort.cu", "resident_sort", RESIDENT_THREADS=RESIDENT_THREADS,
            RESIDENT_BLOCKS=blocks_each, SLOTS=slots,
        )  # fmt: skip

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
        # Heads are filled and finalised; cells are read and links written once; each draw writes
        # and reads a head, and also a list entry unless elements are kept in registers.
        listed = 16 if self._unvisited.shape[0] else 0
        fixed = 16 * self.grid.count + 8 * self.particles
        return fixed + (8 + listed) * self._report()[1]

    def _report(self) -> tuple[int, int]:
        """Return the number of rounds of the last build, and the total number of elements drawn."""
        rounds, drawn = self.device.download(self._state[:CONTROL]).view("uint64")[3:]
        return int(rounds), int(drawn)
