"""Slabs on devices that write each other's memory: no host takes part in a step.

`DirectSPH` and `DirectDPD` have the launches of a step that compute.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpubench.decomposed import room
from gpubench.decomposed.room import aligned
from gpubench.decomposed.shared import Phase
from gpubench.decomposed.slab_ranks import Slabs
from gpubench.devices.base import Graph, Kernel
from gpubench.distributed.mailboxes import SIDES, Boxes, Mailboxes
from gpubench.distributed.slabs import excess
from gpubench.distributed.team import together
from gpubench.problems.cells.contract import CellList, SortedCells
from gpubench.workloads.cell_workload import BLOCK

# As in kernels/common/part.h.
(
    HELD, STAYED, OWNED, FAULT, LOW, TOP, HIGH, BEGIN, INNER, MIDDLE, LAST, END, UPPER, LEFT, _,
    TAKEN, _, SENT, _, _, ENDED, WAITED, _, _, WORDS,
) = range(25)  # fmt: skip
LATE = 8
NEARLY_FULL = 1 << 16  # not a fault: a rank will soon need more rows
STEPS_PER_GRAPH = 8
BOX_GROWTH = 1.25  # new boxes, and new graphs, once they should be that much larger
TAKERS = 32  # blocks that copy a halo, at most; even
ENDERS = 128  # blocks that end a step, at most


class DirectSlabs(Slabs):
    """Slabs whose steps are queued with numbers of rows that only the device knows.

    Kernels are launched for as many rows as there is room, and read on the device how many there
    are, and of which planes. They write edges, cell starts and migrants into the neighbours' boxes,
    and blocks of them wait for what neighbours write (kernels/common/part.h).

    A *block* is the steps between two looks of the host, at most BALANCE_EVERY. Arrays are copied
    when it begins; if a rank ran out of room in it, all do its steps again as `Slabs` does, which
    allocates more. Where planes must be reassigned, `Slabs` does the next step too; graphs remain.

    sent: the arrays of each kind of message before migrants, of which places are the first.
    block: steps queued since the host looked; while it is positive, `held`, `owned`, `counts` and
    `computed_rows` are those of its begin. redone: steps that were done again.
    """

    sent: ClassVar[Mapping[str, tuple[str, ...]]]
    block = redone = 0
    _box_rows = 0  # the same in all ranks
    _planes_before: NDArray[np.int64] = np.zeros(0, np.int64)  # particles per plane, all ranks
    _steps_before = 0  # of the block that ended with these
    _lost = 0  # since the last cut: steps times particles above the best cut's largest slab
    _is_due = False  # whether planes must be reassigned
    _is_told = False  # whether the device knows the rows and planes, and their cells
    _is_warm = False  # whether a step has been launched, so that the next may be recorded
    _sorts = 0, 0  # rows and planes that the sort has room for
    _boxes: Boxes | None = None

    def _keep_in(self, algorithm: type[CellList], form: str, parameters: dict[str, int]) -> None:
        super()._keep_in(algorithm, form, parameters)
        self._graphs: dict[int, Graph] = {}  # by their number of steps
        self._part = self.device.empty(WORDS, "int32")
        self._noted_part = self.device.host_buffer(4 * WORDS)
        self._saved_fault = self.device.empty(4, "int32")
        self._mailboxes: Mailboxes = self.team.transport.mailboxes(self.kinds, self.is_ring)
        if not self.needs_hosts:
            self.host_part = None  # type: ignore[assignment,misc]

    def _prepare_kernels(self) -> None:
        super()._prepare_kernels()
        constants = {
            **self.constants, "COLUMNS": len(self.columns), "MARKED": int(self.is_marked),
            **self._of_halo,
        }  # fmt: skip
        self._cells_of_held, self._arrange_rows, self._take_movers = (
            self.device.kernel("slabs.cu", name, **constants)
            for name in ("cells_of_held", "arrange", "take_movers")
        )

    def _make_sorter(self) -> None:
        """Make the sort, with room for more planes, unless it has room for these."""
        low, high = self._sorted_planes
        rows, planes = self._sorts
        self._is_told = False
        if rows != self.capacity or planes < high - low:
            self._forget_graphs()
            self._sorts = self.capacity, high - low + room.SPARE_PLANES
            self._sort_into(self._sorts[1])

    def _forget_graphs(self) -> None:
        self._is_warm = False
        self._graphs.clear()

    def _allocate_rows(self, particles: int) -> None:
        self._sorts = 0, 0
        super()._allocate_rows(particles)

    def _allocate_computed(self) -> list[Any]:
        self._forget_graphs()
        rows = room.aligned(self.capacity), 4
        self._saved = [self.device.empty(rows, "float32") for _ in self._kept]
        return [*super()._allocate_computed(), *self._saved]

    @property
    def needs_hosts(self) -> bool:
        """Whether all steps are done as `Slabs` does."""
        return False

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
        if index == len(phases) - 1 and not self.needs_hosts:
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

    def _take(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.block, self._lost, self._is_due, self._is_told = 0, 0, False, False
        self._planes_before = np.zeros(0, np.int64)
        super()._take(state)

    # Blocks of steps.

    def _do(self, steps: int, replays: bool) -> None:
        while steps > 0:
            if self.needs_hosts or (self._is_due and self.block == 0):
                self._do_with_hosts(1)
                steps -= 1
                continue
            self._begin()
            now = min(steps, room.BALANCE_EVERY - self.block)
            self._queue(now, replays)
            steps -= now

    def _do_with_hosts(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self._phases_with_hosts():
                launch()

    def _phases_with_hosts(self) -> list[Phase]:
        self._look()
        self._count_loss()
        self._is_told = False
        return super()._own_phases()

    def _balance(self) -> None:
        if self.needs_hosts:
            super()._balance()
        elif self._is_due:
            self._is_due, self._lost = False, 0
            self._cut_again(0)

    def _queue(self, steps: int, replays: bool) -> None:
        form = self.algorithm.forms[self.algorithm.form]
        replays = replays and "graphs" in self.device.features and form.capturable
        while steps > 0:
            now = STEPS_PER_GRAPH if replays and steps >= STEPS_PER_GRAPH else 1
            if replays and self._is_warm:
                if now not in self._graphs:
                    self._graphs[now] = self.device.capture(partial(self._queue_steps, now))
                self._graphs[now].launch()
            else:
                now = 1
                self._queue_steps(now)
            steps -= now
            self._count(now)

    def _queue_steps(self, steps: int) -> None:
        for _ in range(steps):
            for _, launch in self._pieces() if self._mailboxes.by_hosts else self._launches():
                launch()

    def _count(self, steps: int) -> None:
        """Note that steps have been queued, and end the block if it is time to."""
        self.step += steps
        self.block += steps
        self._is_warm = True
        if self.block == room.BALANCE_EVERY:
            self._look()

    def _begin(self) -> None:
        """Begin a block unless one has begun."""
        if self.needs_hosts:
            return
        boxes = self._mailboxes.boxes(self._layout())
        if boxes is not self._boxes:  # the first, or another simulation needed larger ones
            self._boxes = boxes
            self._graphs.clear()
        if self.block > 0:
            return
        low, high = self.planes
        occupied = low + int(np.flatnonzero(self.counts).max(initial=-1)) + 1
        if self.top < high and self.top - occupied <= room.SPARE_PLANES // 2:
            self.top = min(high, occupied + room.SPARE_PLANES)
            self._make_sorter()
        if self.rows < room.aligned(self.capacity) + 2 * self.edge:
            self._allocate_sorted()
        if not self._is_told:
            part = np.zeros(WORDS, np.int32)
            part[[HELD, STAYED, LOW, TOP, HIGH]] = self.held, self.owned, low, self.top, high
            self.device.write(self._part, part)
            self._cells_of_held(
                self.device.blocks(self.capacity, BLOCK), BLOCK, self.places, self._cell_of_part,
                self.packed_box, self._part, self.capacity,
            )  # fmt: skip
        for array, copy in zip(self._kept, self._saved, strict=True):
            self.device.copy(array[: self.held], copy[: self.held])
        self.device.copy(self.fault, self._saved_fault)

    def _look(self) -> None:
        """End the block: read how many rows there are, and do it again if room was missing."""
        if self.block == 0:
            return
        steps, self.block = self.block, 0
        self._count_loss()  # of the block before, while the device does this one
        ends = self.top - self.planes[0] + 1
        found = self._found[: 4 * ends]
        self.device.read_rows(self._found_starts, 0, found)
        self.device.read_rows(self._part, 0, self._noted_part)()
        part = self._noted_part.view(np.int32)
        counts = np.diff(found.view(np.int32)).astype(np.int64)
        nearly = NEARLY_FULL * int(part[HELD] > room.FULL_SHARE * self.capacity)
        faults, planes = self._told(int(part[FAULT]) | nearly, counts)
        if faults & LATE:
            raise RuntimeError(f"rank {self.rank} of a step waited in vain for another rank's")
        if faults & ~NEARLY_FULL:
            self._do_again(steps)
            return
        self._is_due = self._lost >= room.WORTH_A_CUT or (
            faults == NEARLY_FULL and excess(planes, self.bounds) > 0
        )
        self.counts, self._is_told = counts, True
        self.held, self.owned, self.computed_rows = (int(part[w]) for w in (HELD, STAYED, OWNED))
        self._widest = max(self._widest, int(planes.max()))
        self._planes_before, self._steps_before = planes, steps

    def _count_loss(self) -> None:
        """Add what was lost in the last block by the division of planes, once."""
        if len(self._planes_before) > 0:
            self._lost += self._steps_before * excess(self._planes_before, self.bounds)
        self._planes_before = np.zeros(0, np.int64)

    def _told(self, faults: int, counts: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """Return the faults of all ranks, and the particles of all planes."""
        from mpi4py import MPI

        words = np.zeros(self.grid.cells[2] + 1, np.int64)
        words[-1] = faults
        words[self.planes[0] :][: len(counts)] = counts
        self._comm.Allreduce(MPI.IN_PLACE, words, op=MPI.BOR)
        return int(words[-1]), words[:-1]

    def _do_again(self, steps: int) -> None:
        self.redone += steps
        self.step -= steps
        self._set_clock()
        for array, copy in zip(self._kept, self._saved, strict=True):
            self.device.copy(copy[: self.held], array[: self.held])
        self.device.copy(self._saved_fault, self.fault)
        self._is_due = True  # a cut may make room
        self._do_with_hosts(steps)

    # A step.

    def _layout(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the arrays of a box, the same in all ranks, as is the widest plane."""
        wanted = aligned(room.SPARE_EDGE * self._widest + room.LEAST)
        if wanted > BOX_GROWTH * self._box_rows:
            self._box_rows = wanted
        rows = (self._box_rows, 4), "float32"
        others = {"starts": ((self._plane_cells + 1,), "int32"), "moved": ((1,), "int32")}
        return {name: others.get(name, rows) for names in self.kinds.values() for name in names}

    def _own_phases(self) -> list[Phase]:
        return super()._own_phases() if self.needs_hosts else self._pieces()

    def _pieces(self) -> list[Phase]:
        """Return a step in pieces, which are timed, and where hosts carry messages are the step."""
        return [
            ("sort", self._sort),
            ("sort", lambda: self._sending("places", self._arrange)),
            *self._computing_pieces(),
            ("exchange particles", lambda: self._awaiting("movers", self._end_step)),
        ]

    def _launches(self) -> list[Phase]:
        """Return a step in whole launches."""
        return [
            ("sort", self._sort),
            ("sort", self._arrange),
            *self._computing(),
            ("exchange particles", self._end_step),
        ]

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """The arrays of each kind of message, in the order of a step."""
        moved = tuple(f"moved {name}" for name in ("places", *self.columns))
        return {**self.sent, "movers": (*moved, "moved")}

    @property
    def _of_halo(self) -> dict[str, int]:
        """Constants of kernels/slabs.cu."""
        return {}

    @abstractmethod
    def _computing(self) -> list[Phase]:
        """Return the launches from the halo to the migrants."""

    @abstractmethod
    def _computing_pieces(self) -> list[Phase]:
        """Return the same in pieces, each before or behind a message."""

    def _sending(self, kind: str, launch: Callable[..., None], *which: int) -> None:
        assert self._boxes is not None
        launch(*which)
        self._mailboxes.post(self._boxes, kind)

    def _awaiting(self, kind: str, launch: Callable[..., None], *which: int) -> None:
        assert self._boxes is not None
        self._mailboxes.wait(self._boxes, kind)
        launch(*which)

    @property
    def _per_side(self) -> int:
        """Blocks of a launch over rows and cells of one edge plane."""
        return self.device.blocks(max(self._box_rows, self._plane_cells + 1), BLOCK)

    @property
    def _takers(self) -> int:
        return min(TAKERS, 2 * self._per_side)

    def _both(self, which: str, *names: str) -> list[Any]:
        """Return arrays of the boxes on both sides; which: mine or theirs."""
        boxes = getattr(self._boxes, which)
        return [boxes[side][name] for side in SIDES for name in names]

    def _flags(self) -> list[Any]:
        assert self._boxes is not None
        return self._mailboxes.flags(self._boxes)

    def _sort(self) -> None:
        self.algorithm.build(self._cell_of_part, self.places)

    def _arrange(self) -> None:
        answer, per_side = self.algorithm.answer, self._per_side
        assert isinstance(answer, SortedCells)
        items = max(self.capacity, self._sorts[1] * self._plane_cells + 1)
        self._arrange_rows(
            2 * per_side + self.device.blocks(items, BLOCK), BLOCK, *self._flags(), answer.start,
            answer.order, *self._kept, self.packed_box, self.edge, min(self._box_rows, self.edge),
            per_side, self._part, self._found_starts, self.cells, *self.current, self.coarse,
            *self._beside_rows, *self._both("theirs", *self.kinds["places"]),
        )  # fmt: skip

    @property
    def _beside_rows(self) -> list[Any]:
        """What else `arrange` fills beside the sorted rows."""
        return []

    def _launch(
        self, kernel: Kernel, pieces: Sequence[int], first: int, last: int, edges: int,
        halo: Sequence[str], *arguments: Any,
    ) -> None:  # fmt: skip
        """Queue the pieces from `first` to before `last` of a launch, which have so many blocks.

        The first piece are the takers, and `edges` that of the edge planes. halo: what is taken.
        """
        begin = [0, *itertools.accumulate(pieces)]
        kernel(
            begin[last] - begin[first], BLOCK, begin[first], pieces[0], begin[edges],
            self._per_side, *self._flags(), *self._both("mine", *halo), self.edge, *arguments,
        )  # fmt: skip

    def _moving_to(self) -> list[Any]:
        """Return where a launch writes migrants, moved particles and their cells, and faults."""
        movers = self._both("theirs", *self.kinds["movers"])
        return [*movers, *self._kept, self._cell_of_part, self.fault]

    def _end_step(self) -> None:
        """Queue taking the migrants that come."""
        self._take_movers(
            min(ENDERS, self.device.blocks(self.capacity, BLOCK)), BLOCK, *self._flags(),
            *self._both("mine", *self.kinds["movers"]), self.packed_box, self.capacity, self._part,
            *self._kept, self._cell_of_part,
        )  # fmt: skip
