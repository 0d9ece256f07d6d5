"""Slabs of SPH on devices that write each other's memory: no host takes part in a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.decomposed import room
from gpubench.decomposed.shared import Phase
from gpubench.decomposed.slab_ranks import Slabs
from gpubench.decomposed.sph_ranks import SPHPlanes
from gpubench.devices.base import Graph
from gpubench.distributed.mailboxes import SIDES, Boxes, Mailboxes
from gpubench.distributed.slabs import is_unbalanced
from gpubench.distributed.team import together
from gpubench.problems.cells.contract import CellList, SortedCells
from gpubench.workloads.cell_workload import BLOCK

# As in kernels/common/part.h.
HELD, STAYED, OWNED, FAULT, BEGIN, INNER, MIDDLE, LAST, END, WORDS = range(10)
LATE = 8
STEPS_PER_GRAPH = 4
BOX_GROWTH = 1.25  # new boxes, and a new graph, once they should be that much larger
# The arrays of each kind of message, in the order of a step.
KINDS = {
    "places": ("places", "starts"),
    "flow": ("flow",),
    "movers": ("moved places", "moved velocities", "moved"),
}
ROW_KERNELS = (
    "cells_of_held", "arrange", "send_edges", "take_edges", "count_movers", "take_movers",
)  # fmt: skip
SPH_KERNELS = (
    "densities_of", "densities_of_edges", "forces_of", "forces_of_edges", "move_inner",
    "move_edges",
)  # fmt: skip


class DirectSlabs(Slabs, SPHPlanes):
    """Slabs whose steps are queued with numbers of rows that only the device knows.

    Kernels are launched for as many rows as there is room, and read on the device how many there
    are. Edges, cell starts and migrants are written into the neighbours' boxes.

    A *block* is the steps between two looks of the host, at most BALANCE_EVERY. Arrays are copied
    when it begins; if a rank ran out of room in it, all do its steps again as `Slabs` does, which
    allocates more. Where planes must be reassigned, `Slabs` does the next step too.

    block: steps queued since the host looked; while it is positive, `held`, `owned`, `counts` and
    `computed_rows` are those of its begin. redone: steps that were done again.
    """

    block = redone = 0
    _box_rows = 0  # the same in all ranks
    _planes_before: NDArray[np.int64] = np.zeros(0, np.int64)  # particles per plane, all ranks
    _is_due = False  # whether planes must be reassigned
    _is_warm = False  # whether a step has been launched, so that the next may be recorded
    _steps: Graph | None = None
    _boxes: Boxes | None = None

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        super()._keep_in(algorithm, form, parameters)
        self._part = self.device.empty(WORDS, "int32")
        self._noted_part = self.device.host_buffer(4 * WORDS)
        self._saved_fault = self.device.empty(4, "int32")
        self._mailboxes: Mailboxes = self.team.transport.mailboxes(KINDS)
        if not self.bodies:
            self.host_part = None  # type: ignore[assignment,misc]

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        kernel = self.device.kernel
        constants = {**self.constants, "COLUMNS": len(self.columns)}
        of_sph = {
            **self.constants, "MOVES": 0, "NEAR": self.noted_room,
            "SYMPLECTIC": int(self.parameters["integrator"] == "symplectic"),
        }  # fmt: skip
        self._on_rows = {name: kernel("slabs.cu", name, **constants) for name in ROW_KERNELS} | {
            name: kernel("sph_slabs.cu", name, **of_sph) for name in SPH_KERNELS
        }

    def _make_sorter(self) -> None:
        self._steps, self._is_warm = None, False
        super()._make_sorter()

    def _allocate_computed(self) -> list[Any]:
        self._steps, self._is_warm = None, False
        rows = room.aligned(self.capacity), 4
        self._saved = [self.device.empty(rows, "float32") for _ in self._kept]
        return [*super()._allocate_computed(), *self._saved]

    # What rank 0 calls.

    @together
    def advance(self, steps: int) -> None:
        self._do(steps, replays=True)

    def plain_steps(self, steps: int) -> None:
        if not self.team.notes(self, steps):
            self.launch(steps)

    @together
    def launch(self, steps: int) -> None:
        """Queue steps launch by launch."""
        self._do(steps, replays=False)

    @together
    def do_phase(self, index: int) -> None:
        phases = self._own_phases()
        if index == 0:
            self._begin()
        phases[index][1]()
        if index == len(phases) - 1 and not self.bodies:
            self._count(1)

    def settle(self) -> None:
        """Look at the steps that were queued last, if any."""
        if self.block > 0:
            self.look()

    @together
    def look(self) -> None:
        """End the block in all ranks."""
        self._look()

    def state(self) -> dict[str, NDArray[Any]]:
        self.settle()
        return super().state()

    def computed(self, name: str) -> NDArray[Any]:
        self.settle()
        return super().computed(name)

    def faults(self) -> list[int]:
        self.settle()
        return super().faults()

    def count_steps(self) -> None:
        self.settle()
        super().count_steps()

    def paint(self) -> None:
        self.settle()
        super().paint()

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.block = 0
        super()._take(state)

    # Blocks of steps.

    def _do(self, steps: int, replays: bool) -> None:
        while steps > 0:
            if self.bodies or (self._is_due and self.step % room.BALANCE_EVERY == 0):
                self._look()
                self._do_with_hosts(1)
                steps -= 1
                continue
            self._begin()
            now = min(steps, room.BALANCE_EVERY - self.step % room.BALANCE_EVERY)
            self._queue(now, replays)
            steps -= now

    def _do_with_hosts(self, steps: int) -> None:
        """Do steps as `Slabs` does."""
        self._is_due, self._planes_before = False, np.zeros(0, np.int64)
        for _ in range(steps):
            for _, launch in super()._own_phases():
                launch()

    def _queue(self, steps: int, replays: bool) -> None:
        form = self.algorithm.forms[self.algorithm.form]
        replays = replays and "graphs" in self.device.features and form.capturable
        while steps > 0:
            if replays and self._is_warm and steps >= STEPS_PER_GRAPH:
                if self._steps is None:
                    self._steps = self.device.capture(lambda: self._queue_steps(STEPS_PER_GRAPH))
                self._steps.launch()
                now = STEPS_PER_GRAPH
            else:
                self._queue_steps(1)
                now = 1
            steps -= now
            self._count(now)

    def _queue_steps(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self._own_phases():
                launch()

    def _count(self, steps: int) -> None:
        """Note that steps have been queued, and end the block if it is time to."""
        self.step += steps
        self.block += steps
        self._is_warm = True
        if self.step % room.BALANCE_EVERY == 0:
            self._look()

    def _begin(self) -> None:
        """Begin a block unless one has begun."""
        if self.bodies:
            return
        boxes = self._mailboxes.boxes(self._layout())
        if boxes is not self._boxes:  # the first, or another simulation needed larger ones
            self._boxes, self._steps = boxes, None
        if self.block > 0:
            return
        low, high = self.planes
        occupied = low + int(np.flatnonzero(self.counts).max(initial=-1)) + 1
        if self.top < high and self.top - occupied <= room.SPARE_PLANES // 2:
            self.top = min(high, occupied + room.SPARE_PLANES)
            self._make_sorter()
        if self.rows < room.aligned(self.capacity) + 2 * self.edge:
            self._allocate_sorted()
        part = np.zeros(WORDS, np.int32)
        part[[HELD, STAYED]] = self.held, self.owned
        self.device.write(self._part, part)
        for array, copy in zip(self._kept, self._saved, strict=True):
            self.device.copy(array[: self.held], copy[: self.held])
        self.device.copy(self.fault, self._saved_fault)

    def _look(self) -> None:
        """End the block: read how many rows there are, and do it again if room was missing."""
        if self.block == 0:
            return
        steps, self.block = self.block, 0
        # Of the block before, while the device does this one: `Slabs` counts again if need be.
        if len(self._planes_before) > 0:
            self._is_due = is_unbalanced(self._planes_before, self.bounds, room.IMBALANCE)
        low, high = self.planes
        ends = self.top - low + 1
        found = self._found[: 4 * ends]
        self.device.read_rows(self._found_starts, 0, found)
        self.device.read_rows(self._part, 0, self._noted_part)()
        part = self._noted_part.view(np.int32)
        counts = np.diff(found.view(np.int32)).astype(np.int64)
        mine = np.zeros(high - low, np.int64)
        mine[: len(counts)] = counts
        told = self._comm.allgather((int(part[FAULT]), mine))
        faults = np.bitwise_or.reduce([fault for fault, _ in told])
        if faults & LATE:
            raise RuntimeError(f"rank {self.rank} of a step waited in vain for another rank's")
        if faults:
            self._do_again(steps)
            return
        self.counts = counts
        self.held, self.owned, self.computed_rows = (int(part[w]) for w in (HELD, STAYED, OWNED))
        planes = np.concatenate([each for _, each in told])
        self._widest = max(self._widest, int(planes.max()))
        self._planes_before = planes

    def _do_again(self, steps: int) -> None:
        self.redone += steps
        self.step -= steps
        self._set_clock()
        for array, copy in zip(self._kept, self._saved, strict=True):
            self.device.copy(copy[: self.held], array[: self.held])
        self.device.copy(self._saved_fault, self.fault)
        self._do_with_hosts(steps)

    # A step.

    def _layout(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the arrays of a box, the same in all ranks, as is the widest plane."""
        wanted = self._room_beside(self._widest)
        if wanted > BOX_GROWTH * self._box_rows:
            self._box_rows = wanted
        rows = (self._box_rows, 4)
        return {
            "places": (rows, "float32"), "starts": ((self._plane_cells + 1,), "int32"),
            "flow": (rows, "float32"), "moved places": (rows, "float32"),
            "moved velocities": (rows, "float32"), "moved": ((1,), "int32"),
        }  # fmt: skip

    def _own_phases(self) -> list[Phase]:
        if self.bodies:
            return super()._own_phases()
        return [
            ("cell ids", self._find_held_cells),
            ("sort", self._arrange),
            ("exchange halo", lambda: self._exchange_edges("places", self.current[0])),
            ("density", lambda: self._densities_within(INNER, LAST)),
            ("exchange halo", self.device.join),
            ("density", self._edge_densities),
            ("exchange halo", lambda: self._exchange_edges("flow", self.flow)),
            ("force", lambda: self._forces_within(MIDDLE, LAST)),
            ("exchange halo", self.device.join),
            ("force", self._edge_forces_within),
            ("integrate", self._move_edges),
            ("exchange particles", self._exchange_movers),
            ("force", lambda: self._forces_within(INNER, MIDDLE)),
            ("integrate", self._move_inner),
            ("exchange particles", self.device.join),
        ]

    @property
    def _per_side(self) -> int:
        """Blocks of a launch over rows and cells of one edge plane."""
        return self.device.blocks(max(self._box_rows, self._plane_cells + 1), BLOCK)

    def _both(self, which: str, *names: str) -> list[Any]:
        """Return arrays of the boxes on both sides; which: mine or theirs."""
        boxes = getattr(self._boxes, which)
        return [boxes[side][name] for side in SIDES for name in names]

    def _find_held_cells(self) -> None:
        self._on_rows["cells_of_held"](
            self.device.blocks(self.capacity, BLOCK), BLOCK, self.places, self._cell_of_part,
            self.packed_box, self._part, *self._sorted_planes, self.capacity,
        )  # fmt: skip

    def _arrange(self) -> None:
        self.algorithm.build(self._cell_of_part, self.places)
        answer = self.algorithm.answer
        assert isinstance(answer, SortedCells)
        low, high = self.planes
        planes = self.top - low
        items = max(self.capacity, planes * self._plane_cells + 1)
        self._on_rows["arrange"](
            self.device.blocks(items, BLOCK), BLOCK, answer.start, answer.order, self.places,
            self.state_columns[0], self.packed_box, planes, low * self._plane_cells, self.edge,
            min(self._box_rows, self.edge), self._mailboxes.sides, int(self.top < high), self._part,
            self._leaving, self._found_starts, self.cells, *self.current, self.coarse,
        )  # fmt: skip

    def _exchange_edges(self, kind: str, rows: Any) -> None:
        """Queue sending the edges and taking the halo, beside the inner planes, which need none."""
        assert self._boxes is not None
        per_side, is_first = self._per_side, int(kind == "places")
        sides, plane = self._mailboxes.sides, self._plane_cells
        with self.device.beside():
            self._on_rows["send_edges"](
                len(SIDES) * per_side, BLOCK, rows, self._start, plane, self.top - self.planes[0],
                self.edge, self._box_rows, sides, per_side, is_first,
                *self._both("theirs", kind, "starts"),
            )  # fmt: skip
            self._mailboxes.post(self._boxes, kind)
            self._mailboxes.wait(self._boxes, kind, self._part)
            self._on_rows["take_edges"](
                len(SIDES) * per_side, BLOCK, *self._both("mine", kind, "starts"), self.packed_box,
                plane, *self.planes, self.edge, sides, per_side, is_first, self._part, self.cells,
                self.coarse, rows,
            )  # fmt: skip

    def _exchange_movers(self) -> None:
        """Queue announcing the migrants that were written, and taking those that come."""
        assert self._boxes is not None
        per_side, sides = self.device.blocks(self._box_rows, BLOCK), self._mailboxes.sides
        with self.device.beside():
            self._on_rows["count_movers"](
                1, BLOCK, self._leaving, self._box_rows, sides, self._part,
                *self._both("theirs", "moved"),
            )  # fmt: skip
            self._mailboxes.post(self._boxes, "movers")
            self._mailboxes.wait(self._boxes, "movers", self._part)
            self._on_rows["take_movers"](
                len(SIDES) * per_side, BLOCK,
                *self._both("mine", "moved places", "moved velocities", "moved"), self._leaving,
                self.capacity, sides, per_side, self._part, self.places, self.state_columns[0],
            )  # fmt: skip

    def _densities_within(self, begin: int, end: int) -> None:
        self._on_rows["densities_of"](
            self.device.blocks(self.capacity, BLOCK), BLOCK, self.current[0], self.coarse,
            self.current[1], self.cells, self.packed_box, self.kernels.fluid, self.clock, self.rows,
            self._part, begin, end, self.flow, self.noted, self.notes,
        )  # fmt: skip

    def _edge_densities(self) -> None:
        per_side = self._per_side
        self._on_rows["densities_of_edges"](
            len(SIDES) * per_side, BLOCK, self.current[0], self.coarse, self.current[1], self.cells,
            self.packed_box, self.kernels.fluid, self.clock, self.rows, self._part, per_side,
            self.flow, self.noted, self.notes,
        )  # fmt: skip

    def _forces_within(self, begin: int, end: int) -> None:
        """Queue the forces on half of the inner planes."""
        self._on_rows["forces_of"](
            self.device.blocks(self.capacity // 2 + BLOCK, BLOCK), BLOCK, self.current[0],
            self.flow, self.cells, self.noted, self.notes, self.packed_box, self.kernels.fluid,
            self.rows, self._part, begin, end, self.force,
        )  # fmt: skip

    def _edge_forces_within(self) -> None:
        per_side = self._per_side
        self._on_rows["forces_of_edges"](
            len(SIDES) * per_side, BLOCK, self.current[0], self.flow, self.cells, self.noted,
            self.notes, self.packed_box, self.kernels.fluid, self.rows, self._part, per_side,
            self.force,
        )  # fmt: skip

    def _move_edges(self) -> None:
        per_side = self._per_side
        self._on_rows["move_edges"](
            len(SIDES) * per_side, BLOCK, self.current[0], self.flow, self.force, self.packed_box,
            self.kernels.fluid, self.clock, self._part, per_side, *self.planes, self._box_rows,
            self._leaving, *self._both("theirs", "moved places", "moved velocities"), self.places,
            self.state_columns[0], self.fault,
        )  # fmt: skip

    def _move_inner(self) -> None:
        self._on_rows["move_inner"](
            self.device.blocks(self.capacity, BLOCK), BLOCK, self.current[0], self.flow, self.force,
            self.packed_box, self.kernels.fluid, self.clock, self._part, self.places,
            self.state_columns[0], self.fault,
        )  # fmt: skip
