"""`gpubench.NeighbourList`: neighbours of the user's own particles."""

from __future__ import annotations

import math
import operator
import warnings
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from gpubench.base.arguments import number, shown
from gpubench.base.errors import UserError
from gpubench.base.fixed import Fixed
from gpubench.devices.base import Device
from gpubench.neighbours.arrays import Arrays, arrays_of, is_writable, uncompiled
from gpubench.neighbours.batch import BatchPlan, cells_of, offsets_of
from gpubench.neighbours.box import EXACT, OPEN, SearchBox, box_of, measured, three, widened
from gpubench.neighbours.cell import Cell, images_of, space_of
from gpubench.neighbours.found import Found, Kept
from gpubench.neighbours.images import CellPlan
from gpubench.neighbours.method import chosen
from gpubench.neighbours.packing import Packing, packed
from gpubench.neighbours.plan import Plan
from gpubench.neighbours.refined import Refined

Order = Literal["input", "cells"]
AnyPlan = Plan | Refined | CellPlan | BatchPlan


class NeighbourList(Fixed):
    """Lists all pairs of particles within a cutoff.

    cutoff: in the unit of the positions. box: three edges; a 3x3 matrix whose rows are vectors, of
        any length and tilt; or None for open space. periodic: whether the box is periodic, for all
        axes or per axis. low: the lower corner of the box.
    half: list each pair once, in either particle's row: one of (i, j, S) and (j, i, -S), where S is
        the shift, also for images of one particle. By default in both rows. order: number rows by
        particle ("input") or in cell order ("cells"; `Found.ids` maps rows to particles).
    skin: list pairs within cutoff + skin, so that `update` can reuse the list.
    capacity: fixed size of the neighbour array. A search then does not wait for the device, can be
        captured in a CUDA graph (with `out`), and reports errors in `Found.check`. By default the
        array is allocated to fit, and errors are raised immediately.
    method: how particles are sorted into cells, or "auto" for the fastest one measured.

    Edges of 0 and vectors of zeros are open axes, whatever `periodic` says, and have no bounds. Of
    other open axes, the edge of an orthogonal box is a bound, and the vector of another is ignored.
    A cell that is tilted, or shorter than three times cutoff + skin, is searched with images of the
    particles; such a search takes no capacity and no order="cells".

    Positions have shape (n, 3) or (n, 4), where the fourth number is ignored, and type float32 or
    float64. Along periodic axes they may lie anywhere. Pairs whose distance differs from the cutoff
    by less than `bound`, 10^-5 of it, may be misclassified, all others are exact. With a capacity
    the bound grows with the box; a box for which it exceeds 10^-3 of the cutoff causes a warning. A
    `skin` longer than the bound guarantees that all pairs within the cutoff are listed.

    Host arrays (NumPy, PyTorch) are searched on a CPU through OpenCL; CUDA arrays (CuPy, PyTorch,
    anything with DLPack or __cuda_array_interface__) on their own GPU, on the current stream.
    Contiguous arrays are not copied. Results are the same kind of array as the positions.

    Threads may share an object; a lock serialises their calls. Copies and unpickled objects work
    independently, also in other processes. Attributes are read-only.

    Raises UserError for invalid input, DeviceUnavailable if a required package is missing.
    """

    cutoff: float
    skin: float
    reach: float
    """cutoff + skin."""
    chosen: str
    """The method that the last search used, and the reason."""
    searches: int
    """The number of searches so far; an `update` that reuses the list does not count."""

    def __init__(
        self,
        cutoff: float,
        box: Any = None,
        periodic: Any = False,
        *,
        low: Any = (0.0, 0.0, 0.0),
        half: bool = False,
        order: Order = "input",
        skin: float = 0.0,
        capacity: int | None = None,
        method: str = "auto",
    ) -> None:
        cutoff, skin = number("cutoff", cutoff, positive=True), number("skin", skin)
        vars(self).update(cutoff=cutoff, skin=skin, reach=cutoff + skin, chosen="", searches=0)
        self._periodic = three("periodic", periodic, bool, "True, False, or three of them")
        # A box may yet come with a batch.
        self._given = space_of(box, low, periodic if box is not None else False, self.reach)
        self._matrix = None if box is None else np.array(box, np.float64)
        if not isinstance(order, str) or order not in ("input", "cells"):
            raise UserError(f"order takes input or cells, not {shown(order)}")
        if not isinstance(half, bool | np.bool_):
            raise UserError(f"half takes True or False, not {shown(half)}")
        if not isinstance(method, str):
            raise UserError(f"method takes auto or the name of a search, not {shown(method)}")
        self._half, self._in_cells, self._method = bool(half), order == "cells", method
        self._capacity = None if capacity is None else _capacity(capacity)
        self._require_plain(self._given)
        self._plan: tuple[Any, AnyPlan] | None = None
        self._last: Kept | None = None
        self._around: SearchBox | None = None  # the box of the last search
        own = None if capacity is None else self._searched()
        if own is not None and (why := own.why_coarse(cutoff, skin)):
            warnings.warn(why, stacklevel=2)

    def _require_plain(self, given: SearchBox | Cell | None) -> None:
        """Raise UserError for an option that a search in this space does not have."""
        if isinstance(given, Cell) and (self._capacity is not None or self._in_cells):
            option = "order='cells'" if self._capacity is None else "capacity"
            raise UserError(
                f"{option} is not for a cell that is tilted, or shorter than three times the cutoff"
                " and skin: leave it out"
            )
        if self._capacity is not None and self._searched() is None:
            raise UserError("a search with a capacity does not wait to find the box: give it")

    def _searched(self) -> SearchBox | None:
        """Return the box of every search; None if it depends on the positions."""
        given = self._given
        box = given.region(self.reach) if isinstance(given, Cell) else given
        return box if box is not None and box.is_bounded else None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_plan": None, "_last": None}  # both hold device memory

    @uncompiled
    def __call__(
        self, positions: Any, out: Found | None = None, *, batch: Any = None, box: Any = None
    ) -> Found:
        """List the neighbours of these particles.

        out: the result of an earlier search of the same number of particles, whose arrays are
            overwritten; only with a capacity.
        batch: many systems in one search, one after the other: the offsets of their particles, from
            0 to n, or the system of each particle, ascending. Rows and neighbours are numbered as
            the positions; pairs are within a system. For systems of up to about a thousand
            particles: all of a system are tried. Open axes have no bounds.
        box: of the batch, in place of the list's own: three edges or a 3x3 matrix for all systems,
            or a matrix for each, shape (systems, 3, 3), periodic as the list is.
        """
        arrays = arrays_of(positions)
        with arrays.lock, arrays.on_stream():
            taken = arrays.take(positions)
            several = self._batch_plan(arrays, taken, batch, box)
            return self._search(arrays, taken, positions, out, several)

    @uncompiled
    def count(self, positions: Any, out: Any = None, *, batch: Any = None, box: Any = None) -> Any:
        """Return the number of neighbours of each particle: int32, shape (n,).

        Like `Found.counts`, but without making a list, and always in the order of the input.
        out: the array from an earlier count of the same number of particles, to overwrite. With a
            capacity as well, nothing is allocated and the host does not wait.
        batch, box: as in a search.
        """
        arrays = arrays_of(positions)
        with arrays.lock, arrays.on_stream():
            taken = arrays.take(positions)
            n = self._noted(taken)
            counts = arrays.empty(n, "int32") if out is None else self._counts_in(out, arrays, n)
            several = self._batch_plan(arrays, taken, batch, box)
            plan = several or self._plan_for(arrays, taken)
            plan.count_only(taken, counts)
            if self._capacity is None:
                plan.require_sound()
            return out if out is not None and arrays.gives_once else arrays.give(counts)

    def _counts_in(self, out: Any, arrays: Arrays, n: int) -> Any:
        """Return the user's `out` as a kernel argument; UserError if it does not fit."""
        if isinstance(out, arrays.given) and arrays_of(out) is arrays and is_writable(out):
            counts = arrays.view(out)
            if (counts.shape, counts.dtype) == ((n,), np.int32):
                return counts
        raise UserError(f"out takes what an earlier count of {n} particles returned")

    @uncompiled
    def update(self, positions: Any) -> Found:
        """Reuse the last list, or search again if a particle has moved by half the skin.

        Either way the list contains all pairs within the cutoff.
        """
        if not self.skin:
            raise UserError("update needs a skin: NeighbourList(cutoff, ..., skin=0.2)")
        arrays = arrays_of(positions)
        with arrays.lock, arrays.on_stream():
            taken, last = arrays.take(positions), self._last
            if last is not None and last.serves(arrays, taken):
                return last.found.at(taken, positions)
            found = self._search(arrays, taken, positions, None, None)
            assert self._around is not None
            spare = self.skin - self._bound(self._around)
            self._last = Kept(found, max(0.0, spare / 2))
            return found

    def bound(self, box: Any = None) -> float:
        """Return the rounding bound: pairs this close to the cutoff may be misclassified.

        box: edges of a box, allowed only in open space; by default the box of the last search.
        """
        if box is not None and self._given is not None:
            raise UserError("bound takes no box where the list has one of its own")
        own = self._searched() or box_of(box, (0, 0, 0), False) or self._around
        if own is None:
            edges = ", or give the edges of the box around the particles"
            raise UserError(
                "with open axes the bound is that of the last search, and none has succeeded yet:"
                f" search first{edges if self._given is None else ''}"
            )
        return self._bound(own)

    def _bound(self, box: SearchBox) -> float:
        most = math.inf if self._capacity is not None else EXACT * self.cutoff
        return min(most, box.bound(self.reach))

    def _noted(self, taken: Any) -> int:
        """Increment `searches`; return the number of particles."""
        vars(self)["searches"] += 1
        particles: int = taken.shape[0]
        return particles

    def _search(
        self, arrays: Arrays, taken: Any, positions: Any, out: Found | None, batch: BatchPlan | None
    ) -> Found:
        n = self._noted(taken)
        plan: AnyPlan = batch or self._plan_for(arrays, taken)
        if out is None:
            rows = plan.rows(arrays)
        elif self._capacity is None:
            raise UserError("out is for a list with a capacity")
        elif isinstance(out, Found) and (kept := out.rows_for(arrays, n, self._in_cells)):
            rows = kept
        else:
            raise UserError("out takes what an earlier search like this one found")
        return Found(arrays, plan, rows, taken, plan.search(arrays, taken, rows), positions)

    def _batch_plan(self, arrays: Arrays, taken: Any, batch: Any, box: Any) -> BatchPlan | None:
        """Return the plan for a batch, that of the last search if it fits; None without a batch."""
        if batch is None and box is not None:
            raise UserError("box of a search is that of a batch: give it to NeighbourList")
        if batch is None:
            return None
        options = {
            "order='cells'": self._in_cells, "a capacity": self._capacity is not None,
            "a method": self._method != "auto",
        }  # fmt: skip
        if refused := [option for option, is_given in options.items() if is_given]:
            raise UserError(f"a batch is not for {refused[0]}: leave one out")
        offsets = offsets_of(batch, taken.shape[0])
        cells = cells_of(self._matrix if box is None else box, len(offsets) - 1, self._periodic)
        of, (key, plan) = (arrays.device, taken.dtype, taken.shape), self._plan or (None, None)
        if key == of and isinstance(plan, BatchPlan) and plan.serves(offsets, cells):
            return plan
        self._plan = plan = None  # free its memory first
        plan = BatchPlan(arrays.device, taken, offsets, cells, self.reach, self._half)
        vars(self).update(_plan=(of, plan), chosen="all pairs of each system in a batch")
        return plan

    def _plan_for(self, arrays: Arrays, taken: Any) -> AnyPlan:
        """Return the plan of the last search if it fits, otherwise a new plan."""
        if isinstance(self._given, Cell):
            return self._cell_plan(arrays, taken, self._given)
        if self._matrix is None and any(self._periodic):
            raise UserError("a periodic search needs the edges of its box: box=(lx, ly, lz)")
        of = arrays.device, taken.dtype, taken.shape
        packing = None if self._plan is None else self._plan[1].packing
        if packing and self._plan and self._plan[0] == (*of, packing) and packing.serves(taken):
            return self._plan[1]
        box = self._box(arrays, taken)
        reach = self._widened(box)
        if self._given is not None and not box.is_long(reach):
            self._require_plain(cell := images_of(self._given))
            return self._cell_plan(arrays, taken, cell)
        if self._plan is None or self._plan[0] != (*of, box):
            self._plan = None  # free its memory first
            packing = None if self._capacity is not None else packed(arrays, taken, box, self.reach)
            self._plan = (*of, packing or box), self._made(arrays.device, taken, box, packing)
            self._around = box
        return self._plan[1]

    def _widened(self, box: SearchBox) -> float:
        if self._capacity is not None:
            return self.reach
        return widened(self.cutoff, self.skin, box.rounding(self.reach))

    def _made(
        self, device: Device, taken: Any, box: SearchBox, packing: Packing | None
    ) -> Plan | Refined:
        box.require_squares(self.reach)
        n, box = taken.shape[0], box if packing is None else packing.box
        grid = box.grid(n, reach := self._widened(box), in_steps=True)
        search, why = chosen(self._method, device, n, grid, self._half or self._in_cells)
        vars(self)["chosen"] = why
        plan = Plan(
            device, search, taken, box, grid, reach,
            half=self._half, in_cells=self._in_cells, capacity=self._capacity, packing=packing,
        )  # fmt: skip
        return Refined(device, plan, taken, self.reach) if reach > self.reach else plan

    def _cell_plan(self, arrays: Arrays, taken: Any, cell: Cell) -> CellPlan:
        device, (key, plan) = arrays.device, self._plan or (None, None)
        if key != (key := (device, taken.dtype, taken.shape, cell)):
            self._plan = plan = None  # free its memory first
            plan = CellPlan(device, self._method, taken, cell, self.cutoff, self.skin, self._half)
            self._plan = key, plan
        assert isinstance(plan, CellPlan)
        plan.place(taken)
        vars(self).update(chosen=plan.chosen, _around=plan.box)
        return plan

    def _box(self, arrays: Arrays, taken: Any) -> SearchBox:
        given = self._given
        assert not isinstance(given, Cell)
        if given is not None and given.is_bounded:
            return given
        low, high = arrays.bounds(taken) if taken.shape[0] else np.zeros((2, 3))
        last = None if self._plan is None or self._plan[1].cell else self._around
        return measured(given or OPEN, low, high, self.reach, last)


def _capacity(value: Any) -> int:
    with suppress(TypeError):
        if not isinstance(value, bool) and (capacity := operator.index(value)) >= 0:
            return capacity
    raise UserError(f"capacity takes a whole number of neighbours, not {shown(value)}")
