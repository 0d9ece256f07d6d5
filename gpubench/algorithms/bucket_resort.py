"""Updates the bucket sort's lists after particles moved (rozen2008, section 2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gpubench.algorithms.bucket_sort import BLOCK, CONTROL, RESIDENT_THREADS, BucketSort, HostRounds
from gpubench.base.errors import UserError
from gpubench.core.algorithm import Form
from gpubench.problems.cells.contract import CellListUpdate, LinkedCells


class BucketResort(CellListUpdate):
    """Unlinks the particles that are in the wrong bucket, and sorts only these into new lists.

    parts, threshold: parameters of the form `host-loop`, which inserts the movers by the partial
    update (see BucketSortPartial) with one part per `threshold` movers, but at most `parts` parts.
    """

    name = "bucket-resort"
    replaces = "bucket-sort"
    summary = "re-sort of the bucket sort's lists: unlink moved particles and sort them in again"
    source = "rozen2008, section 2.2"
    forms: ClassVar[Mapping[str, Form]] = {
        "host-loop": Form(
            "scan of every list, then the rounds of Listing 1 from the host", capturable=False
        ),
        "device-loop": Form(
            "one launch that walks only the lists that something left",
            requires=frozenset({"cuda"}),
        ),
    }
    defaults: ClassVar[Mapping[str, int]] = {"parts": 4, "threshold": 65536}
    conformance_parameters: ClassVar[Mapping[str, int]] = {"parts": 3, "threshold": 20}

    def prepare(self) -> None:
        device, particles, grid, form = self.device, self.particles, self.grid, self.form
        if self.parameters["threshold"] < 1:
            raise UserError(
                f"the threshold must be at least 1 element, not {self.parameters['threshold']}"
            )
        self._sort = BucketSort(device, particles, grid, form, {})
        self.workspace_bytes += self._sort.workspace_bytes
        lists = self._sort.answer
        self._head, self._next = lists.head, lists.next
        if form == "host-loop":
            self._rounds = HostRounds(self, self.parameters["parts"])
            self._moved = self.allocate(1, "int32")
            self._unlink_lists = device.kernel("bucket_resort.cu", "unlink_lists")
            self._clear_moved = device.kernel("bucket_resort.cu", "clear_moved")
            return
        self._claims = self.allocate(2 * grid.count, "int32")
        self._is_touched = self.allocate(grid.count, "int32")
        device.fill(self._is_touched, 0x00)
        self._movers = self.allocate((particles, 2), "int32")
        self._touched = self.allocate(particles, "int32")
        self._control = self.allocate(CONTROL // 2 + 1, "uint64")
        nothing_met = np.full(self._control.shape[0], -1, np.int64).view(np.uint64)
        nothing_met[3:] = 0
        device.write(self._control, nothing_met)
        self._resident_resort = device.kernel(
            "bucket_resort.cu", "resident_resort", RESIDENT_THREADS=RESIDENT_THREADS,
            RESIDENT_BLOCKS=1,
        )  # fmt: skip

    def build(self, cell_of: Any, positions: Any) -> None:
        self._sort.build(cell_of, positions)

    def update(self, cell_of: Any, positions: Any) -> None:
        if self.form == "host-loop":
            self._update_from_host(cell_of)
            return
        self._resident_resort(
            self.device.compute_units, RESIDENT_THREADS, cell_of, self.cell_of, self._head,
            self._next, self._claims, self._is_touched, self._movers, self._touched,
            self._control, self.particles, self.grid.count,
        )  # fmt: skip

    def _update_from_host(self, cell_of: Any) -> None:
        device, cells = self.device, self.grid.count
        device.fill(self._moved, 0x00)
        self._unlink_lists(
            device.blocks(cells, BLOCK), BLOCK, cell_of, self._head, self._next, self._moved, cells
        )
        moved = int(device.download(self._moved)[0])
        if moved == 0:
            return
        self._clear_moved(
            device.blocks(self.particles, BLOCK), BLOCK, cell_of, self.cell_of,
            self._sort.visited, self.particles,
        )  # fmt: skip
        threshold = self.parameters["threshold"]
        self._rounds.run(
            cell_of, self._sort.visited, self._head, self._next,
            parts=min(self.parameters["parts"], -(-moved // threshold)),
            threshold=threshold,
            into_lists=True,
        )  # fmt: skip

    @property
    def answer(self) -> LinkedCells:
        return LinkedCells(self._head, self._next)

    def outcome(self) -> dict[str, int | float | str]:
        if self.form == "host-loop":
            return {"rounds": self._rounds.rounds}
        return {"rounds": int(self.device.download(self._control)[3])}

    def traffic_bytes(self) -> int | None:
        if self.form == "host-loop":
            # Scan heads, links and cells; clear flags, reading old and new cells; run the rounds.
            scan = 4 * self.grid.count + 8 * self.particles
            return scan + 8 * self.particles + self._rounds.traffic_bytes
        # Read all old and new cells; each draw writes and reads a claim and a list entry.
        return 8 * self.particles + 24 * int(self.device.download(self._control)[4])
